"""A clock that was far ahead and is set back. Tasks that fired meanwhile wait for times that are far away then.

Their next times are counted again, from now on. No time is fired twice. Each that was fired, skipped or missed by the
clock that was ahead has its row. Times that were judged before that are not looked at again (`JudgedAhead`). A task
that runs once keeps its time, and an ended task stays ended.
"""

from collections.abc import Sequence

from gatepost.core.clock import MINUTE
from gatepost.flow.schedule.firing import schedule_of
from gatepost.flow.schedule.times import find_first_from
from gatepost.store.port import Db
from gatepost.store.schedule import firings, tasks
from gatepost.store.schedule.firings import JudgedAhead
from gatepost.store.schedule.tasks import Task, TaskMove

MARGIN = 5 * MINUTE  # a clock that is corrected by less leaves every task within reach
PAGE = 50  # tasks that one transaction counts again


def is_behind(now: int, seen: int | None) -> bool:
    """Return True if the clock was set back since it showed `seen`."""
    return seen is not None and seen - now > MARGIN


def find_last_seen(db: Db) -> int | None:
    """The latest time that a clock has shown when something fired."""
    return firings.find_last_fired(db)


def plan_recount(db: Db, after: str, now: int) -> tuple[list[TaskMove], str]:
    """Return what is to be moved among the next tasks by id, and the last of these ids; '': there are no more."""
    page = tasks.list_recurring(db, after, now, PAGE)
    ahead = firings.list_judged_ahead(db, [each.id for each in page], now, now + MARGIN) if page else {}
    moves = [_move(each, ahead[each.id], now) for each in page if each.id in ahead]
    return [each for each in moves if each is not None], page[-1].id if len(page) == PAGE else ""


def _move(task: Task, ahead: JudgedAhead, now: int) -> TaskMove | None:
    next_at = find_recounted(task, ahead, now)
    return TaskMove(task, next_at, "", 0) if next_at is not None else None


def find_recounted(task: Task, ahead: JudgedAhead, now: int) -> int | None:
    """The next time of a task that the clock was ahead for; None if it stays. Pure."""
    assert task.next_at is not None
    first = now + 1 if ahead.before_now else ahead.first
    if first is None:
        return None
    try:
        found = find_first_from(schedule_of(task), task.next_at, max(first, now + 1))
    except (LookupError, ValueError, OSError):  # it cannot be read any more: told when it is due
        return None
    return found if found is not None and found < task.next_at else None


def recount(db: Db, moves: Sequence[TaskMove], now: int) -> int:
    """How many tasks were moved. Their next time was not missed, though the clock that was ahead said so."""
    moved = tasks.advance(db, moves, now)
    for each in moves:
        if each.task.id in moved and each.next_at is not None:
            firings.remove_skipped(db, each.task.id, each.next_at, now + MARGIN)
    return len(moved)
