"""What a look of the scheduler costs: as many statements with 10,000 tasks and sessions as with 100; ten are due."""

import statistics
import tempfile
import time
from pathlib import Path

from gatepost.core.clock import DAY, HOUR, MINUTE, SystemClock
from gatepost.flow.delivery.outgoing_messages import ChannelInstances
from gatepost.flow.schedule.firing import fire_plans
from gatepost.flow.schedule.task_loop import AT_ONCE, plan_due
from gatepost.store import groups, sessions, tasks
from gatepost.store.migrate import migrate
from gatepost.store.port import Db
from gatepost.store.sqlite_store import SqliteDb, connect
from gatepost.store.tasks import NewTask, ScheduleKind, TaskContext
from gatepost.testing.channel import FakeChannel
from gatepost.testing.counting import CountingDb
from measure import Figure, at_most, within

DUE, FEW, MANY, LOOKS = 10, 100, 10_000, 30
NOON = 1_800_000_000_000_000


def figures(few: int = FEW, many: int = MANY, looks: int = LOOKS) -> list[Figure]:
    small, large = measure_looks(few, looks), measure_looks(many, looks)
    return [
        within("schedule_tick_statements", large[0], "", small[0], 1),
        at_most("schedule_tick_ms", large[1], "ms", small[1], 1),
    ]


def measure_looks(count: int, looks: int) -> tuple[int, float]:
    """Statements of a look that fires ten prompts, and how long it takes to find what is due and when the next is:
    the median in milliseconds."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "gatepost.db"
        migrate(path, SystemClock())
        db = SqliteDb(connect(path))
        db.run("BEGIN")
        fill(db, count)
        reach = ChannelInstances({"fake": FakeChannel().kind})
        statements, taken = 0, list[float]()
        for number in range(1, looks + 1):
            counted, now = CountingDb(db), NOON + number * HOUR
            begun = time.perf_counter_ns()
            plans = plan_due(counted, now, AT_ONCE, 100)
            tasks.get_next_due(counted)
            taken.append((time.perf_counter_ns() - begun) / 1e6)
            fire_plans(counted, reach, plans, 100, now)
            statements = counted.statements
            assert len(plans) == DUE
        db.run("ROLLBACK")
    return statements, statistics.median(taken)


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
            missed=tasks.MissedPolicy.ALL,
        )
        tasks.add(db, new, (), 0, NOON)
