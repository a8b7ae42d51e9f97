"""Tasks: what is done at a time, where, and when it is due next.

    active ⇄ paused      active → completed (its last time has come) · cancelled (by somebody)

`next_at` of an active task is its next scheduled time. It moves by compare and swap, in the transaction that has the
firing: so each time is fired once, however many look at it.
"""

from collections.abc import Sequence
from enum import StrEnum
from functools import lru_cache
from itertools import chain
from typing import Annotated

from msgspec import Struct

from gatepost.core import ids
from gatepost.core.record_fields import ShownAs, option, shown
from gatepost.store.engine.table import Table, render_marks
from gatepost.store.port import Db, Row, inline_read
from gatepost.store.rights import switches
from gatepost.store.rooms.origins import Origin

MOST_FAILURES = 5  # in a row; then a task is paused
BY = "paused by "  # what a reason begins with, if somebody paused it


class ScheduleKind(StrEnum):
    CRON = "cron"
    EVERY = "every"
    ONCE = "once"


class TaskContext(StrEnum):
    GROUP = "group"  # the conversation of the room
    ISOLATED = "isolated"  # a fresh one for each firing


class MissedPolicy(StrEnum):
    """The treatment of times that came while nobody looked."""

    SKIP = "skip"
    ONCE = "once"
    ALL = "all"


class TaskState(StrEnum):
    ACTIVE = "active"
    PAUSED = "paused"
    COMPLETED = "completed"
    CANCELLED = "cancelled"


class TaskFields(Struct, frozen=True, kw_only=True):
    """The columns that whoever makes a task sets as they are. A further one is an option of the commands, an input of
    the forms, and a field of the API and of a prototype's tasks. It is shown wherever tasks are. With a name for them,
    it is an argument of the agents' tools."""

    prompt: Annotated[
        str, shown("Prompt", ShownAs.LONG, details=True), option("The task for the agent.", secret=True, tool="prompt")
    ] = ""
    text: Annotated[
        str,
        shown("Text", ShownAs.LONG, details=True),
        option("Is delivered as it is, for reminders.", secret=True, tool="text"),
    ] = ""
    title: Annotated[str, shown("Task", head="what"), option("Its title, in lists and notices.", secret=True)] = ""
    script: Annotated[
        str,
        shown("Script", ShownAs.LONG, details=True),
        option(
            "Shell commands that run in the sandbox before the prompt, and may leave the agent asleep.",
            cli="A file of shell commands that run in the sandbox before the prompt, and may leave the agent asleep.",
            metavar="FILE",
            secret=True,
            tool="script",
        ),
    ] = ""
    missed: Annotated[
        MissedPolicy,
        shown("Missed times", details=True),
        option(
            "Times that were missed because the gateway was down: skip them, run once late, or run all.", tool="missed"
        ),
    ] = MissedPolicy.ONCE
    context: Annotated[
        TaskContext,
        shown("Context", details=True),
        option("group: the room's conversation goes on. isolated: a fresh one for each run.", tool="contextMode"),
    ] = TaskContext.GROUP


class NewTask(TaskFields, frozen=True, kw_only=True):
    """A wish for a task, checked. `next_at`: when first."""

    folder: Annotated[str, shown("Group", head="group")]
    instance: str
    address: Annotated[str, shown("Room", ShownAs.CODE, head="room", details=True)]
    thread: str = ""
    kind: ScheduleKind
    schedule: Annotated[str, shown("When", ShownAs.CODE, head="when")]
    every: int = 0
    zone: Annotated[str, shown("Zone", details=True)] = "UTC"
    next_at: Annotated[int | None, shown("Next", ShownAs.MOMENT, head="next")]
    max_runs: int | None = None
    max_cost: Annotated[int | None, shown("Limit of a run", ShownAs.MONEY, head="limit", details=True)] = None
    expires_at: Annotated[int | None, shown("Ends", ShownAs.MOMENT, head="ends", details=True)] = None
    created_by: Annotated[str, shown("Made by", head="made by", details=True)]

    @property
    def spoken(self) -> tuple[str, str, str, str]:
        """Return its words, and where they are said: whoever agrees to them has seen both."""
        return self.text, self.instance, self.address, self.thread


class Task(NewTask, frozen=True, kw_only=True):
    id: Annotated[str, shown("Id", ShownAs.ID, head="task")]
    state: Annotated[TaskState, shown("State", ShownAs.BADGE)]
    reason: Annotated[str, shown("Why", head="why", details=True)]
    runs: Annotated[int, shown("Runs", ShownAs.NUMBER, details=True)]
    failures: int
    depth: int
    created_at: Annotated[int, shown("Made", ShownAs.MOMENT, head="made", details=True)]
    updated_at: int


TASKS = Table("tasks", Task)
_CHANGED = tuple(name for name in NewTask.__struct_fields__ if name not in ("folder", "created_by"))
_STOPPED = f"EXISTS (SELECT 1 FROM switches WHERE name = '{switches.PANIC}')"
_RESTS = (  # its group, or one above it
    f"EXISTS (SELECT 1 FROM switches WHERE name = '{switches.REST}' || folder"
    f" OR SUBSTR('{switches.REST}' || folder, 1, LENGTH(name) + 1) = name || '/')"
)
_DUE = f"WHERE state = 'active' AND next_at <= ? AND NOT {_STOPPED} AND NOT {_RESTS} ORDER BY next_at LIMIT ?"
_NEXT_DUE = f"SELECT (SELECT MIN(next_at) FROM tasks WHERE state = 'active' AND NOT {_RESTS}), {_STOPPED}"


def add(db: Db, new: NewTask, origins: Sequence[Origin], depth: int, now: int) -> Task:
    """`origins`: on whose behalf, as for a message that an agent puts in."""
    made = TASKS.put(
        db,
        "",
        new,
        id=ids.new("task"),
        state=TaskState.ACTIVE,
        reason="",
        runs=0,
        failures=0,
        depth=depth,
        created_at=now,
        updated_at=now,
    )
    _put_origins(db, made.id, origins)
    return made


def _put_origins(db: Db, task_id: str, origins: Sequence[Origin]) -> None:
    for ordinal, each in enumerate(origins):
        db.run(
            "INSERT INTO task_origins (task_id, ordinal, person, instance, address, thread) VALUES (?, ?, ?, ?, ?, ?)",
            (task_id, ordinal, each.person, each.instance, each.address, each.thread),
        )


def set_origins(db: Db, task_id: str, origins: Sequence[Origin], depth: int) -> None:
    """On whose behalf it is done from now on."""
    db.run("DELETE FROM task_origins WHERE task_id = ?", (task_id,))
    _put_origins(db, task_id, origins)
    db.run("UPDATE tasks SET depth = ? WHERE id = ?", (depth, task_id))


@inline_read
def get(db: Db, task_id: str) -> Task | None:
    return TASKS.get(db, "WHERE id = ?", task_id)


def find_same(db: Db, new: NewTask) -> Task | None:
    """An active task that does the same, at the same times, in the same place. `in 2 minutes` is another time a minute
    later."""
    return TASKS.get(
        db,
        "WHERE folder = ? AND state = 'active' AND schedule = ? AND zone = ? AND prompt = ? AND text = ? AND script = ?"
        " AND context = ? AND instance = ? AND address = ? AND thread = ? AND (kind <> 'once' OR next_at = ?)"
        " ORDER BY id LIMIT 1",
        *(new.folder, new.schedule, new.zone, new.prompt, new.text, new.script),
        *(new.context, new.instance, new.address, new.thread, new.next_at),
    )


def list_origins(db: Db, task_id: str) -> list[Origin]:
    rows = db.rows(
        "SELECT person, instance, address, thread FROM task_origins WHERE task_id = ? ORDER BY ordinal", (task_id,)
    )
    return [Origin(*row) for row in rows]


def list_origins_of(db: Db, task_ids: Sequence[str]) -> dict[str, list[Origin]]:
    """The same of several, by task."""
    found: dict[str, list[Origin]] = {each: [] for each in task_ids}
    for task_id, *origin in db.rows(_render_origins(len(task_ids)), task_ids):
        found[task_id].append(Origin(*origin))
    return found


@lru_cache(maxsize=256)
def _render_origins(count: int) -> str:
    return (
        "SELECT o.task_id, o.person, o.instance, o.address, o.thread"
        f" FROM (VALUES {render_marks(count, 1)}) AS v CROSS JOIN task_origins o WHERE o.task_id = v.column1"
        " ORDER BY o.task_id, o.ordinal"
    )


def count_live(db: Db, folder: str) -> int:
    """Those of a group that are active or paused."""
    row = db.row("SELECT COUNT(*) FROM tasks WHERE folder = ? AND state IN ('active', 'paused')", (folder,))
    return int(row[0]) if row else 0


def list_page(db: Db, folder: str | None, after: str, most: int, *, ended: bool = False) -> list[Task]:
    """A page by id, of a group and all below it; None: of all groups. `ended`: those that are over, too."""
    states = "" if ended else " AND state IN ('active', 'paused')"
    if folder is None:
        return TASKS.list(db, f"WHERE id > ?{states} ORDER BY id LIMIT ?", after, most)
    below = "(folder = ? OR (folder >= ? AND folder < ?))"
    return TASKS.list(
        db, f"WHERE id > ? AND {below}{states} ORDER BY id LIMIT ?", after, folder, f"{folder}/", f"{folder}0", most
    )


def list_due(db: Db, now: int, most: int) -> list[Task]:
    """The most overdue first. None while everything is stopped, and none of groups at rest."""
    return TASKS.list(db, _DUE, now, most)


def list_recurring(db: Db, after: str, now: int, most: int) -> list[Task]:
    """A page by id, of those that are active, run more than once and are not due."""
    return TASKS.list(
        db, "WHERE id > ? AND state = 'active' AND kind <> 'once' AND next_at > ? ORDER BY id LIMIT ?", after, now, most
    )


def list_coming(db: Db, most: int) -> list[Task]:
    """Those that are due next."""
    return TASKS.list(db, "WHERE state = 'active' AND next_at IS NOT NULL ORDER BY next_at LIMIT ?", most)


def list_in_room(db: Db, folder: str, instance: str, address: str) -> list[Task]:
    """Those of a group there that are active or paused."""
    live = "WHERE folder = ? AND state IN ('active', 'paused') AND instance = ? AND address = ? ORDER BY id"
    return TASKS.list(db, live, folder, instance, address)


def find_next_in_room(db: Db, folder: str, instance: str, address: str) -> Task | None:
    """The task of a group that speaks there next."""
    there = "WHERE folder = ? AND state = 'active' AND instance = ? AND address = ? AND next_at IS NOT NULL"
    return TASKS.get(db, f"{there} ORDER BY next_at, id LIMIT 1", folder, instance, address)


def count_active(db: Db) -> int:
    row = db.row("SELECT COUNT(*) FROM tasks WHERE state = 'active'")
    return int(row[0]) if row else 0


def list_broken(db: Db, most: int) -> list[Task]:
    """Those that were paused by their failures, not by somebody's word."""
    return TASKS.list(db, f"WHERE state = 'paused' AND substr(reason, 1, {len(BY)}) <> ? ORDER BY id LIMIT ?", BY, most)


def get_next_due(db: Db) -> int | None:
    row = db.row("SELECT MIN(next_at) FROM tasks WHERE state = 'active'")
    return row[0] if row else None


def find_next_due(db: Db) -> tuple[int | None, bool]:
    """The next time of all, and whether everything is stopped."""
    row = db.row(_NEXT_DUE)
    return (row[0], bool(row[1])) if row else (None, False)


class TaskMove(Struct, frozen=True):
    """From the scheduled time that was read to the next; without one the task is completed, for that reason. `runs`:
    how many times of it are fired."""

    task: Task
    next_at: int | None
    reason: str
    runs: int


_MOVED = "FROM (VALUES {}) AS v WHERE tasks.id = v.column1 AND tasks.state = 'active' AND tasks.next_at = v.column2"
_MOVED += " AND tasks.updated_at = v.column5"  # who changed it meanwhile is obeyed


def advance(db: Db, moves: Sequence[TaskMove], now: int) -> set[str]:
    """The tasks that were moved. The others were moved by somebody else, or are active no more. A task that goes on
    keeps its state, so that only one index changes."""
    on = [
        (each.task.id, each.task.next_at, each.runs, each.next_at, each.task.updated_at)
        for each in moves
        if each.next_at is not None
    ]
    over = [
        (each.task.id, each.task.next_at, each.runs, each.reason, each.task.updated_at)
        for each in moves
        if each.next_at is None
    ]
    go_on = "next_at = v.column4, reason = ''"
    complete = "next_at = NULL, state = 'completed', reason = v.column4"
    return _move(db, go_on, on, now) | _move(db, complete, over, now)


def _move(db: Db, change: str, moves: Sequence[Row], now: int) -> set[str]:
    if not moves:
        return set()
    rows = db.rows(_render_move(change, len(moves)), (now, *chain.from_iterable(moves)))
    return {row[0] for row in rows}


@lru_cache(maxsize=256)
def _render_move(change: str, count: int) -> str:
    moved = _MOVED.format(render_marks(count, 5))
    return f"UPDATE tasks SET {change}, runs = runs + v.column3, updated_at = ? {moved} RETURNING id"


def pause_at(db: Db, task: Task, reason: str, now: int) -> bool:
    """Before the scheduled time that was read; False as in `advance`."""
    changed = db.run(
        "UPDATE tasks SET state = 'paused', reason = ?, updated_at = ? WHERE id = ? AND state = 'active'"
        " AND next_at = ? AND updated_at = ?",
        (reason, now, task.id, task.next_at, task.updated_at),
    )
    return bool(changed)


def add_runs(db: Db, task_id: str, runs: int) -> None:
    db.run("UPDATE tasks SET runs = runs + ? WHERE id = ?", (runs, task_id))


def set_state(db: Db, task_id: str, state: TaskState, reason: str, next_at: int | None, now: int) -> None:
    """By somebody's word. An active one begins with no failures behind it."""
    db.run(
        "UPDATE tasks SET state = ?, reason = ?, next_at = ?, failures = 0, updated_at = ? WHERE id = ?",
        (state, reason, next_at, now, task_id),
    )


def replace(db: Db, task: Task, now: int) -> None:
    """Everything about it that somebody may change."""
    changed = ", ".join(f"{name} = ?" for name in _CHANGED)
    values = [getattr(task, name) for name in _CHANGED]
    db.run(f"UPDATE tasks SET {changed}, updated_at = ? WHERE id = ?", (*values, now, task.id))


def record_success(db: Db, task_id: str) -> None:
    db.run("UPDATE tasks SET failures = 0 WHERE id = ? AND failures > 0", (task_id,))


def record_failure(db: Db, task_id: str, reason: str, now: int) -> None:
    """The last of too many in a row pauses it."""
    row = db.row("UPDATE tasks SET failures = failures + 1 WHERE id = ? RETURNING failures, state", (task_id,))
    if row is not None and row[0] >= MOST_FAILURES and row[1] == TaskState.ACTIVE:
        db.run(
            "UPDATE tasks SET state = 'paused', reason = ?, updated_at = ? WHERE id = ?",
            (f"{row[0]} runs in a row failed; the last: {reason}", now, task_id),
        )
