"""A firing that comes long after its time says so."""

from gatepost.core.clock import MINUTE, SECOND, find_zone, iso
from gatepost.store.schedule.tasks import Task

DATE = len("2027-01-31")
LATE = MINUTE  # what comes so long after its time is late


def render_late(task: Task, due_at: int, now: int) -> str:
    """Return what is said with something that comes late; '' if it does not."""
    if now - due_at <= LATE:
        return ""
    due, today = render_local(due_at - due_at % SECOND, task.zone), render_local(now, task.zone)
    same_day = due[:DATE] == today[:DATE]
    return f"(late: it was due at {due[DATE:].strip() if same_day else due})"


def render_local(at: int, zone: str) -> str:
    """To the minute, with its zone; in UTC, if this machine does not know that."""
    known = zone if find_zone(zone) is not None else "UTC"
    return f"{(iso(at, known) or '')[:16].replace('T', ' ')} {known}"
