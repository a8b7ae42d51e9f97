"""Sessions of single runs leave no files behind. Nobody goes on with them, and a task has as many as it has times: each
may take as much of the disk as a session may, at no cost if its script ends the run in silence."""

import asyncio
from contextlib import suppress

from gatepost.core.errors import GatepostError
from gatepost.core.untrusted_files import open_untrusted
from gatepost.flow.sessions.session_deps import SessionDeps
from gatepost.store import sessions
from gatepost.store.sessions import SessionMode


async def remove_ended_run(parts: SessionDeps, session_id: str) -> None:
    """If it is one, and over. Nothing of it runs any more. What cannot be removed now is left to retention."""
    session = await parts.store.read(sessions.get, session_id)
    if session is None or session.mode is not SessionMode.ISOLATED or session.closed_at is None:
        return

    def remove() -> None:
        with open_untrusted(parts.home.sessions) as root:
            root.remove_tree(session_id)

    with suppress(GatepostError, OSError):
        await asyncio.to_thread(remove)
