"""After a crash: end what the last daemon left, and continue its turns. Runs once, before anything is served."""

from contextlib import suppress

from gatepost.core.errors import GatepostError
from gatepost.core.home import Home
from gatepost.core.untrusted import open_root
from gatepost.flow.sessions import settle
from gatepost.flow.sessions.parts import Parts
from gatepost.flow.sessions.trial import sweep_trials
from gatepost.sandboxes.contract import SandboxKind
from gatepost.store import ledger, permissions, sessions, turns


def sweep_leftovers(home: Home, kinds: list[SandboxKind], prefix: str) -> int:
    """Sandboxes, cgroups and sockets of a daemon that is gone: we hold the lock, so nobody else can be using them."""
    ended = sum(kind.sweep(prefix) for kind in kinds)
    with suppress(FileNotFoundError, GatepostError), open_root(home.run) as run:
        for name in run.list("s"):
            run.remove_tree(f"s/{name}")
    return ended


async def continue_turns(parts: Parts) -> None:
    """Turns that the last daemon had open: its end is not the messages' fault, so nothing is counted against them. One
    that waits for a person does nothing that could have ended the gateway, so it may be continued as often as that
    happens; any other once, lest it be what ends it."""
    await sweep_trials(parts)
    await parts.store.write(ledger.bring_near, parts.clock.now())
    for turn in await parts.store.read(turns.open_turns):
        session = await parts.store.read(sessions.get, turn.session_id)
        if session is not None and turn.state != "interrupted":
            waits = await parts.store.read(permissions.holds_turn, turn.id)
            await settle.break_off(parts, session, turn, "the gateway was restarted", blame=False, spare=waits)
