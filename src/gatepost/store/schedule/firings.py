"""Firings: one row for each time of a task that came, and what became of it. (task, due time) is its identity.

queued → answered · silent · failed · cancelled      sent: a text, given to the outbox      skipped: it did not run
"""

from collections.abc import Sequence
from enum import StrEnum
from functools import cache
from itertools import chain

from msgspec import Struct
from msgspec.structs import astuple

from gatepost.core.errors import Unavailable
from gatepost.store.engine.table import MOST_ROWS, Table, render_marks, value_marks
from gatepost.store.port import Db
from gatepost.store.schedule import tasks
from gatepost.store.sessions import sessions
from gatepost.store.sessions.sessions import SessionMode

RIGHTS = "task"  # of what a schedule puts in: no person's
LONGEST_REASON = 500  # characters
LAST_RUNS, LOOKED_AT = 5, 20  # of a task: whose costs are added up, and among how many of its times


class FiringState(StrEnum):
    QUEUED = "queued"
    SENT = "sent"
    ANSWERED = "answered"
    SILENT = "silent"
    FAILED = "failed"
    SKIPPED = "skipped"
    CANCELLED = "cancelled"


class Firing(Struct, frozen=True):
    id: int
    task_id: str
    due_at: int
    fired_at: int
    state: FiringState
    reason: str
    times: int
    message_id: int | None
    session_id: str
    turn_id: str
    ended_at: int | None


class NewFiring(Struct, frozen=True, kw_only=True):
    """A time of a task that has come, with what became of it so far."""

    task_id: str
    due_at: int
    fired_at: int
    state: FiringState
    reason: str = ""
    times: int = 1
    message_id: int | None = None
    session_id: str = ""
    ended_at: int | None
    turn_id: str = ""


FIRINGS = Table("firings", Firing)
_QUEUED = FiringState.QUEUED  # Python 3.11 takes as long to find a member as for a call, and many rows are made
_ENDS = {each.value: each for each in FiringState}


class Run(Struct, frozen=True):
    """A firing as the log of a task shows it. `cost`: in millionths, as booked; `delivery`: of a text."""

    firing: Firing
    began_at: int | None
    cost: int
    delivery: str


class RunCosts(Struct, frozen=True):
    """The cost of a task's last runs, in millionths of a USD. `estimated`: the part that was not measured."""

    runs: int = 0
    micro: int = 0
    estimated: int = 0


def add(
    db: Db, task_id: str, due_at: int, now: int, state: FiringState, reason: str = "", times: int = 1
) -> int | None:
    """None: that time of the task has its row."""
    new = make_firing(task_id, due_at, now, state, reason, times)
    row = FIRINGS.insert(db, "ON CONFLICT (task_id, due_at) DO NOTHING RETURNING id", new)
    return int(row[0]) if row else None


def make_firing(
    task_id: str,
    due_at: int,
    now: int,
    state: FiringState,
    reason: str = "",
    times: int = 1,
    message_id: int | None = None,
    session_id: str = "",
) -> NewFiring:
    """One that waits for nobody has ended with this."""
    return NewFiring(
        task_id=task_id,
        due_at=due_at,
        fired_at=now,
        state=state,
        reason=reason[:LONGEST_REASON],
        times=times,
        message_id=message_id,
        session_id=session_id,
        ended_at=None if state is _QUEUED else now,
    )


def add_all(db: Db, new: Sequence[NewFiring]) -> None:
    """Unavailable, if a time of a task has its row: somebody was faster, and nothing of all this is done."""
    once, names = "ON CONFLICT (task_id, due_at) DO NOTHING", NewFiring.__struct_fields__
    if FIRINGS.add_rows(db, once, names, [*map(astuple, new)]) != len(new):
        raise Unavailable("the schedule", "somebody else fires the same task; it is looked at again")


def list_fired(db: Db, times: Sequence[tuple[str, int]]) -> set[tuple[str, int]]:
    """Those of these times, each of a task, that have their row."""
    found: set[tuple[str, int]] = set()
    for at in range(0, len(times), MOST_ROWS):
        some = times[at : at + MOST_ROWS]
        rows = db.rows(
            f"SELECT f.task_id, f.due_at FROM (VALUES {value_marks(some)}) AS v CROSS JOIN firings f"
            " WHERE f.task_id = v.column1 AND f.due_at = v.column2",
            tuple(chain.from_iterable(some)),
        )
        found.update((str(row[0]), int(row[1])) for row in rows)
    return found


class JudgedAhead(Struct, frozen=True):
    """Firings of a task by a clock that was ahead of now. `before_now`: also the last time until now. `first`: the
    first time after now."""

    before_now: bool
    first: int | None


def find_last_fired(db: Db) -> int | None:
    """When something was fired, by the clock that went then."""
    row = db.row("SELECT MAX(fired_at) FROM firings")
    return row[0] if row else None


def list_judged_ahead(db: Db, task_ids: Sequence[str], now: int, ahead: int) -> dict[str, JudgedAhead]:
    """By task; those without a time that was fired when the clock showed more than `ahead` are not among them."""
    asked = [(each,) for each in task_ids]
    before = "f.task_id = v.column1 AND f.due_at <= ? ORDER BY f.due_at DESC LIMIT 1"
    after = "f.task_id = v.column1 AND f.due_at > ? AND f.fired_at > ? ORDER BY f.due_at LIMIT 1"
    rows = db.rows(
        f"SELECT v.column1, (SELECT f.fired_at FROM firings f WHERE {before}),"
        f" (SELECT f.due_at FROM firings f WHERE {after}) FROM (VALUES {value_marks(asked)}) AS v",
        (now, now, ahead, *task_ids),
    )
    found = {str(task_id): JudgedAhead((last or 0) > ahead, first) for task_id, last, first in rows}
    return {task_id: each for task_id, each in found.items() if each.before_now or each.first is not None}


def remove_skipped(db: Db, task_id: str, due_at: int, ahead: int) -> None:
    """A time did not run, as a clock said that showed more than `ahead`. It may run yet."""
    db.run(
        "DELETE FROM firings WHERE task_id = ? AND due_at = ? AND state = 'skipped' AND fired_at > ?",
        (task_id, due_at, ahead),
    )


def count_open(db: Db, task_ids: Sequence[str]) -> dict[str, int]:
    """By task: how many runs of it wait or go on. No task has more of them than it may have late ones. A run whose
    message was removed, with a person or a room, waits for nothing."""
    return {each.task_id: each.open for each in list_runs(db, task_ids) if each.open}


class TaskRuns(Struct, frozen=True):
    """A task's runs that wait or go on, as `count_open` counts them, and its `newest` due time that has its row."""

    task_id: str
    open: int
    newest: int | None


def list_runs(db: Db, task_ids: Sequence[str]) -> list[TaskRuns]:
    """Return the runs of each of these tasks, at most as many as one look takes."""
    return [TaskRuns(*row) for row in db.rows(_render_runs(len(task_ids)), task_ids)]


@cache
def _render_runs(count: int) -> str:
    runs = "SELECT COUNT(*) FROM firings f WHERE f.task_id = v.column1 AND f.state = 'queued'"
    lives = "EXISTS (SELECT 1 FROM inbox i WHERE i.message_id = f.message_id)"
    newest = "SELECT f.due_at FROM firings f WHERE f.task_id = v.column1 ORDER BY f.due_at DESC LIMIT 1"
    asked = render_marks(count, 1)  # for IN (…) SQLite would fill a table
    return f"SELECT v.column1, ({runs} AND {lives}), ({newest}) FROM (VALUES {asked}) AS v"


def get_text_key(task_id: str, due_at: int) -> str:
    """Return the key of the effect that delivers a text of the task. Keys of one task sort by time."""
    return f"task/{task_id}/{due_at}"


def count_undelivered(db: Db, task_ids: Sequence[str], most: int) -> dict[str, int]:
    """By task: how many parts of its newest texts wait to be delivered, so many at most."""
    keys = [(each, f"task/{each}/", f"task/{each}0") for each in task_ids]
    newest = "SELECT o.state FROM outbox o WHERE o.key >= v.column2 AND o.key < v.column3 ORDER BY o.key DESC LIMIT ?"
    waiting = f"SELECT COUNT(*) FROM ({newest}) n WHERE n.state IN ('pending', 'sending')"
    rows = db.rows(
        f"SELECT v.column1, ({waiting}) FROM (VALUES {value_marks(keys)}) AS v", (most, *chain.from_iterable(keys))
    )
    return {str(row[0]): int(row[1]) for row in rows}


def list_open_messages(db: Db, task_id: str) -> list[int]:
    """Return the messages of the runs that wait or are under way."""
    rows = db.rows(
        "SELECT message_id FROM firings WHERE task_id = ? AND state = 'queued' AND message_id IS NOT NULL ORDER BY id",
        (task_id,),
    )
    return [int(row[0]) for row in rows]


def find_by_message(db: Db, message_id: int) -> Firing | None:
    return FIRINGS.get(db, "WHERE message_id = ?", message_id)


def record_end(db: Db, message_id: int, state: str, reason: str, turn_id: str | None, now: int) -> None:
    """The message of a firing has come to its end, in that transaction. `state`: of its inbox row."""
    ended = _ENDS.get(state, FiringState.FAILED)
    row = db.row(
        "UPDATE firings SET state = ?, reason = ?, turn_id = ?, ended_at = ? WHERE message_id = ? AND state = 'queued'"
        " RETURNING task_id, session_id",
        (ended, reason[:LONGEST_REASON], turn_id or "", now, message_id),
    )
    if row is None:
        return
    task_id, session_id = str(row[0]), str(row[1])
    if ended is FiringState.FAILED:
        tasks.record_failure(db, task_id, reason[:LONGEST_REASON], now)
    elif ended is not FiringState.CANCELLED:
        tasks.record_success(db, task_id)
    session = sessions.get(db, session_id)
    if session is not None and session.mode is SessionMode.ISOLATED and not _is_awaited(db, session_id):
        sessions.close(db, session_id, now)


def _is_awaited(db: Db, session_id: str) -> bool:
    """Return True if something comes back to a conversation: the result of an errand, or somebody's decision. It is
    closed when nothing does (`errands.list_ended_runs`)."""
    row = db.row(
        "SELECT 1 FROM errands WHERE caller_session = ? AND ended_at IS NULL"
        " UNION ALL SELECT 1 FROM requests WHERE session_id = ? AND notified_at IS NULL LIMIT 1",
        (session_id, session_id),
    )
    return row is not None


def list_for_task(db: Db, task_id: str, most: int) -> list[Run]:
    """The newest first."""
    rows = db.rows(
        f"SELECT {FIRINGS.columns_of('f')}, (SELECT t.started_at FROM turns t WHERE t.id = f.turn_id),"
        " (SELECT COALESCE(SUM(c.micro), 0) FROM costs c WHERE f.turn_id <> '' AND c.session_id = f.session_id"
        " AND c.turn_id = f.turn_id AND c.at >= f.fired_at AND (f.ended_at IS NULL OR c.at <= f.ended_at)),"
        " (SELECT o.state FROM outbox o WHERE o.message_id = f.message_id AND f.state = 'sent' LIMIT 1)"
        " FROM firings f WHERE f.task_id = ? ORDER BY f.due_at DESC, f.id DESC LIMIT ?",
        (task_id, most),
    )
    return [Run(FIRINGS.parse(row[:-3]), row[-3], int(row[-2]), row[-1] or "") for row in rows]


_NTH_RUN = (
    "(SELECT n.id FROM (SELECT f.id, f.due_at, f.turn_id FROM firings f WHERE f.task_id = v.column1"
    f" ORDER BY f.due_at DESC LIMIT {LOOKED_AT}) n WHERE n.turn_id <> '' ORDER BY n.due_at DESC LIMIT 1 OFFSET {{0}})"
)
_LAST_RUNS = ", ".join(_NTH_RUN.format(nth) for nth in range(LAST_RUNS))


def list_costs(db: Db, task_ids: Sequence[str]) -> dict[str, RunCosts]:
    """Return what the last runs cost that had a turn, by task; tasks without such a run are left out."""
    found: dict[str, RunCosts] = {}
    for at in range(0, len(task_ids), MOST_ROWS):
        some = task_ids[at : at + MOST_ROWS]
        rows = db.rows(f"SELECT {_LAST_RUNS} FROM (VALUES {render_marks(len(some), 1)}) AS v", tuple(some))
        ids = [each for row in rows for each in row if each is not None]
        for task_id, micro, estimated in _list_costs_of_runs(db, ids):
            before = found.get(task_id, RunCosts())
            found[task_id] = RunCosts(before.runs + 1, before.micro + micro, before.estimated + estimated)
    return found


def _list_costs_of_runs(db: Db, firing_ids: Sequence[int]) -> list[tuple[str, int, int]]:
    if not firing_ids:
        return []
    rows = db.rows(
        "SELECT f.task_id, COALESCE(SUM(c.micro), 0),"
        " COALESCE(SUM(CASE WHEN c.measured = 0 THEN c.micro ELSE 0 END), 0)"
        " FROM firings f LEFT JOIN costs c ON c.session_id = f.session_id AND c.turn_id = f.turn_id"
        " AND c.at >= f.fired_at AND (f.ended_at IS NULL OR c.at <= f.ended_at)"
        f" WHERE f.id IN ({', '.join('?' * len(firing_ids))}) GROUP BY f.id, f.task_id",
        tuple(firing_ids),
    )
    return [(str(task_id), int(micro), int(estimated)) for task_id, micro, estimated in rows]
