"""What a look of the scheduler costs: as many statements with 10,000 tasks and sessions as with 100; ten are due.

A look finds what is due and when the next is, on a reader, and writes the firings, on the writer. The time is that of
both without the commit, which the writer makes for everything that waits. Each due task wakes an agent in a fresh
conversation, which is the kind of firing that writes most.
"""

import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from gatepost.core.clock import DAY, HOUR, MINUTE, SystemClock
from gatepost.flow.delivery.outgoing_messages import ChannelInstances
from gatepost.flow.schedule.firing import FiringPlan, fire_plans
from gatepost.flow.schedule.task_loop import AT_ONCE, plan_due
from gatepost.store.engine.migrate import migrate
from gatepost.store.engine.sqlite_db import SqliteDb, connect
from gatepost.store.messages import inbox
from gatepost.store.messages.inbox import InboxState
from gatepost.store.port import Db
from gatepost.store.schedule import tasks
from gatepost.store.schedule.tasks import NewTask, ScheduleKind, TaskContext
from gatepost.store.sessions import groups, sessions
from gatepost_testing.channel import FakeChannel
from gatepost_testing.counting import CountingDb
from measure import Figure, at_most, within

DUE, FEW, MANY, LOOKS = 10, 100, 10_000, 40
NOON = 1_800_000_000_000_000
GOAL_MS, FIND_MS = 1, 0.25  # for the whole look, and for its first half


class LookCost(Struct, frozen=True):
    """Statements of one look, and medians of several."""

    statements: int
    find_ms: float
    write_ms: float
    whole_ms: float


def figures(few: int = FEW, many: int = MANY, looks: int = LOOKS) -> list[Figure]:
    """The bare limit of each is what the same costs with few tasks."""
    small, large = measure_looks(few, looks), measure_looks(many, looks)
    return [
        within("schedule_tick_statements", large.statements, "", small.statements, 1),
        at_most("schedule_tick_ms", large.whole_ms, "ms", small.whole_ms, GOAL_MS),
        at_most("schedule_find_ms", large.find_ms, "ms", small.find_ms, FIND_MS),
        at_most("schedule_write_ms", large.write_ms, "ms", small.write_ms, GOAL_MS - FIND_MS),
    ]


def measure_looks(count: int, looks: int) -> LookCost:
    """Looks that fire ten prompts each."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "gatepost.db"
        migrate(path, SystemClock())
        db = SqliteDb(connect(path), of_writer=True)
        db.run("BEGIN")
        fill(db, count)
        db.run("COMMIT")
        channels = ChannelInstances({"fake": FakeChannel().kind})
        statements, found, written = 0, list[float](), list[float]()
        for number in range(1, looks + 2):
            now, counted = NOON + number * HOUR, CountingDb(db) if number > looks else None
            begun = time.perf_counter_ns()
            db.run("BEGIN")  # as a reader of the store does, once for all statements of a read
            plans = find_due(counted or db, now)
            db.run("COMMIT")
            took = time.perf_counter_ns() - begun
            db.run("BEGIN IMMEDIATE")
            begun = time.perf_counter_ns()
            fired = fire_plans(counted or db, channels, plans, 100, now)
            db.flush()
            if counted is None:
                written.append((time.perf_counter_ns() - begun) / 1e6)
                found.append(took / 1e6)
            else:  # counting takes time, so this look is not measured
                statements = counted.statements
            assert fired.ran == DUE
            end_runs(db, fired.sessions, now)
            db.flush()  # what ends a run is not part of the next look
            db.run("COMMIT")
    whole = [one + other for one, other in zip(found, written, strict=True)]
    return LookCost(statements, *map(statistics.median, (found, written, whole)))


def find_due(db: Db, now: int) -> list[FiringPlan]:
    plans = plan_due(db, now, AT_ONCE, 100)
    tasks.find_next_due(db)
    return plans


def end_runs(db: Db, session_ids: Sequence[str], now: int) -> None:
    """As turns do: a run that has not ended holds back the next one of its task."""
    for each in session_ids:
        for entry, _ in inbox.list_open(db, each):
            inbox.set_state(db, entry.id, InboxState.SILENT, "", None, now)


def fill(db: Db, count: int) -> None:
    """Rooms with a conversation and a task each; the tasks of ten are due every hour, the others in a year."""
    groups.add(db, "acme", "Acme", "", NOON)
    for number in range(count):
        address, due = f"fake:room/{number}", number < DUE
        sessions.find_or_add(db, sessions.SessionMode.SHARED, "acme", "fake", address, "", NOON)
        new = NewTask(
            folder="acme",
            instance="fake",
            address=address,
            prompt=f"task {number}",
            kind=ScheduleKind.EVERY,
            schedule="1h",
            every=HOUR,
            context=TaskContext.ISOLATED,
            next_at=NOON + HOUR if due else NOON + 365 * DAY + number * MINUTE,
            created_by="agent:acme",
        )
        tasks.add(db, new, (), 0, NOON)
