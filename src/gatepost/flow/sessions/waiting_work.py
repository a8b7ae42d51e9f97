"""The poll behind the bell: it finds what no bell was heard for, retries that are due, and turns to be continued."""

from collections.abc import Callable

from gatepost.core import log
from gatepost.core.clock import SECOND
from gatepost.core.process.wake_loop import WakeLoop
from gatepost.flow.sessions.session_deps import LOOK_S, SessionDeps
from gatepost.store.port import Db
from gatepost.store.sessions import due_sessions

LOOKED_AT = 10 * SECOND

_log = log.get("sessions")


async def poll_waiting_work(
    parts: SessionDeps, request_wake: Callable[[str], None], is_halted: Callable[[], bool]
) -> None:
    """Until cancelled. `is_halted`: nothing may wake, so what is due is looked at later."""

    async def poll() -> float:
        now = parts.clock.now()
        if is_halted():
            await parts.store.write(due_sessions.defer_all_due, now, now + LOOKED_AT, durable=False)
        found, next_due = await parts.store.read(due_sessions.find_work, now, parts.claims.gateway)
        due = await parts.claims.list_here(found)
        for session_id, _, _ in due:
            request_wake(session_id)
        if due:
            seen = [each for each, _, _ in due]
            await parts.store.write(_defer, seen, now + LOOKED_AT, durable=False)
            next_due = await parts.store.read(due_sessions.get_next_due)
        return _get_pause(now, next_due, parts.config[LOOK_S])

    await WakeLoop(_log.error, "waiting work cannot be looked at", pause_s=parts.config[LOOK_S]).run(poll)


def _get_pause(now: int, due: int | None, longest: float) -> float:
    """Not longer than until the next row is due: a retry starts on time."""
    if due is None or due <= now:
        return longest
    return min(longest, (due - now) / SECOND + 0.001)


def _defer(db: Db, session_ids: list[str], until: int) -> None:
    for session_id in session_ids:
        due_sessions.defer_session_due(db, session_id, until)
