"""A firing that comes long after its time says so."""

from gatepost.core.clock import MINUTE, SECOND, iso
from gatepost.store.tasks import Task

LATE = MINUTE  # what comes so long after its time is late


def render_late(task: Task, due_at: int, now: int) -> str:
    """What is said with something that comes late; '' if it does not."""
    if now - due_at <= LATE:
        return ""
    moment = iso(due_at - due_at % SECOND, task.zone) or ""
    return f"(late: it was due at {moment[:16].replace('T', ' ')} {task.zone})"
