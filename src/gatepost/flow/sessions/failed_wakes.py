"""A session that could not be woken: what whoever waits for it is told, and whether it is tried again."""

from gatepost.core import log
from gatepost.core.clock import to_microseconds
from gatepost.core.error_classification import classify
from gatepost.core.errors import GatepostError
from gatepost.flow.sessions import turn_settlement
from gatepost.flow.sessions.session_deps import SessionDeps
from gatepost.store import sessions
from gatepost.store.turn_failures import FailureCause

_log = log.get("sessions")


async def record_failed_wake(parts: SessionDeps, session_id: str, trouble: "ExceptionGroup[Exception]") -> None:
    """An error without a name of ours is a mistake of ours: it is tried again, a few times."""
    error = _get_first(trouble)
    found, known = classify(error), isinstance(error, GatepostError)
    shortage = "" if found.passing else await parts.find_shortage()
    reason = str(error) if known else "the gateway had a problem of its own, which its log describes"
    if isinstance(error, OSError) and found.passing:
        reason = f"the gateway lacks something for a while: {error.strerror or error}"
    if shortage:
        reason = f"the gateway lacks something for a while: {shortage}"
    _log.error("a session could not be woken", session=session_id, error=f"{type(error).__name__}: {error}")
    session = await parts.store.read(sessions.get, session_id)
    if session is not None:
        wait = to_microseconds(found.retry_after) if found.retry_after is not None else None
        passing = found.passing or bool(shortage)
        cause = FailureCause(reason=reason, wait=wait, final=known and not passing, passing=passing)
        await turn_settlement.settle_failed_wake(parts, session, cause)


def _get_first(group: "ExceptionGroup[Exception]") -> Exception:
    error = group.exceptions[0]
    return _get_first(error) if isinstance(error, ExceptionGroup) else error
