"""The writer: what is answered is on the disk, in order, and one unit's trouble is its own."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path

import apsw
import pytest

from gatepost.core.errors import NotFound, SetupError, Unavailable
from gatepost.store.engine.sqlite_db import MOST_APPENDED, SqliteDb, connect
from gatepost.store.engine.sqlite_store import LARGEST_GROUP, SLOW_S, SqliteStore
from gatepost.store.messages import message_steps
from gatepost.store.port import Db, inline_read
from gatepost.store.sessions import groups
from gatepost_testing.arrivals import add_arrival
from gatepost_testing.store_errors import READ_ONLY_ERRORS
from gatepost_testing.waiting import PATIENCE_S


def add(db: Db, folder: str) -> bool:
    return groups.add(db, folder, folder, "", 1)


def folders(db: Db) -> list[str]:
    return [group.folder for group in groups.list_all(db)]


@inline_read
def folders_at_once(db: Db) -> list[str]:
    return folders(db)


class Gate:
    """Holds the writer thread, so that a test can let units pile up behind it."""

    def __init__(self) -> None:
        self.entered, self.open = threading.Event(), threading.Event()

    def hold(self, db: Db) -> None:
        self.entered.set()
        assert self.open.wait(PATIENCE_S)


@pytest.fixture
async def patient_store(store_path: Path) -> AsyncIterator[SqliteStore]:
    """One whose groups are not closed by time, so that a busy machine does not split them."""
    store = SqliteStore(store_path, group_s=60)
    yield store
    store.close()


def commits(path: Path) -> int:
    """How many transactions the write-ahead log holds, by its commit frames."""
    log, size, count = path.with_name(path.name + "-wal").read_bytes(), 4096 + 24, 0
    for start in range(32, len(log) - size + 1, size):
        count += int.from_bytes(log[start + 4 : start + 8]) != 0
    return count


async def test_units_that_wait_together_are_committed_together(patient_store: SqliteStore) -> None:
    store = patient_store
    before, gate = commits(store.path), Gate()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(store.write(gate.hold))
        await asyncio.to_thread(gate.entered.wait, PATIENCE_S)
        for number in range(LARGEST_GROUP):
            tasks.create_task(store.write(add, f"g{number}"))
        await asyncio.sleep(0)
        gate.open.set()

    assert len(await store.read(folders)) == LARGEST_GROUP
    assert commits(store.path) - before == 1  # the held unit wrote nothing


async def test_one_failing_unit_takes_nobody_with_it(store: SqliteStore) -> None:
    def fail_halfway(db: Db) -> None:
        add(db, "half")
        raise NotFound("thing", "x")

    gate = Gate()
    held = asyncio.create_task(store.write(gate.hold))
    await asyncio.to_thread(gate.entered.wait, PATIENCE_S)
    group = asyncio.gather(
        store.write(add, "before"), store.write(fail_halfway), store.write(add, "after"), return_exceptions=True
    )
    await asyncio.sleep(0)
    gate.open.set()
    first, failed, last = await group
    await held

    assert (first, last) == (True, True)
    assert isinstance(failed, NotFound)
    assert await store.read(folders) == ["after", "before"]


@pytest.mark.parametrize("error", [StopIteration(), KeyboardInterrupt(), SystemExit(1), ZeroDivisionError()])
async def test_whatever_a_unit_raises_the_others_are_answered(store: SqliteStore, error: BaseException) -> None:
    def fail(db: Db) -> None:
        raise error

    gate = Gate()
    held = asyncio.create_task(store.write(gate.hold))
    await asyncio.to_thread(gate.entered.wait, PATIENCE_S)
    futures = [asyncio.ensure_future(_outcome(store, fail)), asyncio.ensure_future(_outcome(store, add, "after"))]
    await asyncio.sleep(0)
    gate.open.set()

    assert await futures[1] == "True"
    assert type(error).__name__ in await futures[0]
    await held


async def _outcome(store: SqliteStore, *unit: object) -> str:
    """Its answer or error as text: a KeyboardInterrupt must not leave a task."""
    try:
        return repr(await store.write(*unit))
    except BaseException as error:  # noqa: BLE001  that is what is tested
        return repr(error)


def append_step(db: Db, message_id: int) -> None:
    message_steps.add(db, message_id, None, 1, "queued")


def accept_message(db: Db) -> int:
    return add_arrival(db, 1, sender="a", text="hi")


def steps(db: Db) -> list[tuple[int, str]]:
    return [(row[0], row[1]) for row in db.rows("SELECT message_id, step FROM steps ORDER BY id")]


async def test_rows_that_units_append_are_written_with_one_statement_in_their_order(
    patient_store: SqliteStore,
) -> None:
    store, gate = patient_store, Gate()
    first, second = [await store.write(accept_message) for _ in range(2)]
    holding = asyncio.create_task(store.write(gate.hold))
    await asyncio.to_thread(gate.entered.wait, 30)
    waiting = [asyncio.create_task(store.write(append_step, each)) for each in (second, first, second)]
    await asyncio.sleep(0)
    statements: list[str] = []

    def trace(event: dict[str, object]) -> None:
        statements.append(str(event["sql"]))

    store._writer.trace_v2(apsw.SQLITE_TRACE_STMT, trace)
    gate.open.set()
    await asyncio.gather(holding, *waiting)
    store._writer.trace_v2(0, None)

    assert await store.read(steps) == [(second, "queued"), (first, "queued"), (second, "queued")]
    assert len([sql for sql in statements if "INTO steps" in sql]) == 1


async def test_what_a_unit_appends_is_seen_by_its_own_reads(store: SqliteStore) -> None:
    def both(db: Db) -> int:
        message_id = accept_message(db)
        append_step(db, message_id)
        return len(message_steps.list_for_message(db, message_id))

    assert await store.write(both) == 1


async def test_a_unit_that_appends_what_cannot_be_written_fails_alone(patient_store: SqliteStore) -> None:
    store, gate = patient_store, Gate()
    known = await store.write(accept_message)
    holding = asyncio.create_task(store.write(gate.hold))
    await asyncio.to_thread(gate.entered.wait, 30)
    waiting = [asyncio.create_task(store.write(append_step, each)) for each in (known, 10**9, known)]
    await asyncio.sleep(0)
    gate.open.set()
    answers = await asyncio.gather(holding, *waiting, return_exceptions=True)

    assert [type(each) for each in answers] == [type(None), type(None), apsw.ConstraintError, type(None)]
    assert await store.read(steps) == [(known, "queued")] * 2


async def test_what_an_undone_unit_appended_is_forgotten(store: SqliteStore) -> None:
    known = await store.write(accept_message)

    def fail(db: Db) -> None:
        append_step(db, known)
        raise NotFound("unit", "this one", "")

    with pytest.raises(NotFound):
        await store.write(fail)
    await store.write(append_step, known)
    assert await store.read(steps) == [(known, "queued")]


@pytest.mark.sqlite(reason="SQLite appends in statements of fifty rows")
async def test_many_rows_are_written_within_the_time_of_their_unit(store: SqliteStore) -> None:
    known = await store.write(accept_message)

    def flood(db: Db) -> int:
        for _ in range(MOST_APPENDED + 10):
            append_step(db, known)
        return len(db.rows("SELECT 1 FROM steps"))

    assert await store.write(flood) == MOST_APPENDED
    assert len(await store.read(steps)) == MOST_APPENDED + 10


@pytest.mark.sqlite(reason="units without a lane have an order only where there is one writer")
async def test_answers_come_in_the_order_of_the_writes(store: SqliteStore) -> None:
    seen: list[int] = []

    async def write(number: int) -> None:
        await store.write(add, f"g{number:03}")
        seen.append(number)

    async with asyncio.TaskGroup() as tasks:
        for number in range(200):
            tasks.create_task(write(number))

    assert seen == list(range(200))
    ids = await store.read(lambda db: [row[0] for row in db.rows("SELECT folder FROM groups ORDER BY rowid")])
    assert ids == [f"g{number:03}" for number in range(200)]


@pytest.mark.sqlite(reason="PRAGMA synchronous")
async def test_a_group_with_a_durable_unit_is_synced_and_another_is_not(store: SqliteStore) -> None:
    def level(db: Db) -> int:
        row = db.row("PRAGMA synchronous")
        assert row is not None
        return int(row[0])

    assert await store.write(level) == 2
    assert await store.write(level, durable=False) == 1
    assert await store.write(level, durable=True) == 2


async def test_reads_see_what_was_committed_and_nothing_else(store: SqliteStore) -> None:
    inside, gate = threading.Event(), threading.Event()

    def add_and_hold(db: Db) -> None:
        add(db, "later")
        inside.set()
        assert gate.wait(PATIENCE_S)

    await store.write(add, "now")
    assert await store.read(folders) == await store.read(folders_at_once) == ["now"]
    writing = asyncio.create_task(store.write(add_and_hold))
    await asyncio.to_thread(inside.wait, PATIENCE_S)
    assert await store.read(folders) == await store.read(folders_at_once) == ["now"]
    gate.set()
    await writing
    assert await store.read(folders) == await store.read(folders_at_once) == ["later", "now"]


async def test_a_read_sees_one_snapshot(store: SqliteStore) -> None:
    halfway, gate = threading.Event(), threading.Event()

    def look_twice(db: Db) -> tuple[list[str], list[str]]:
        first = folders(db)
        halfway.set()
        assert gate.wait(PATIENCE_S)
        return first, folders(db)

    reading = asyncio.create_task(store.read(look_twice))
    await asyncio.to_thread(halfway.wait, PATIENCE_S)
    await store.write(add, "meanwhile")
    gate.set()

    assert await reading == ([], [])


async def test_a_read_cannot_write(store: SqliteStore) -> None:
    with pytest.raises(READ_ONLY_ERRORS):
        await store.read(add, "sneaky")


async def test_closing_waits_for_what_was_accepted(store_path: Path) -> None:
    store, gate = SqliteStore(store_path), Gate()
    held = asyncio.create_task(store.write(gate.hold))
    await asyncio.to_thread(gate.entered.wait, PATIENCE_S)
    writes = [asyncio.create_task(store.write(add, f"g{number}")) for number in range(50)]
    await asyncio.sleep(0)
    gate.open.set()
    store.close()

    assert all(await asyncio.gather(*writes))
    await held
    reopened = connect(store_path, readonly=True)
    assert len(folders(SqliteDb(reopened))) == 50
    reopened.close()


async def test_a_closed_store_says_that_the_gateway_stops(store_path: Path) -> None:
    store = SqliteStore(store_path)
    store.close()
    store.close()  # twice is once

    for attempt in (store.write(add, "x"), store.read(folders), store.read(folders_at_once)):
        with pytest.raises(Unavailable, match="the gateway is stopping"):
            await attempt


@pytest.mark.sqlite(reason="PRAGMA max_page_count fills the disk")
async def test_a_full_disk_is_said_and_loses_nothing(store: SqliteStore) -> None:
    """A store that may not grow, as on a full disk."""

    def pages(db: Db, most: int) -> None:
        db.row(f"PRAGMA max_page_count={most}")

    def fill(db: Db) -> None:
        for number in range(2000):
            add(db, f"full{number:04}" + "x" * 500)

    await store.write(add, "kept")
    await store.write(pages, 1)  # brought up to what the file has
    with pytest.raises(Unavailable, match="the disk is full; free some space, nothing that was accepted is lost"):
        await store.write(fill)
    assert await store.read(folders) == ["kept"]

    await store.write(pages, 1_000_000)
    assert await store.write(add, "after")
    assert await store.read(folders) == ["after", "kept"]


async def test_a_full_disk_does_not_keep_the_store_from_closing(store_path: Path) -> None:
    store = SqliteStore(store_path)
    await store.write(lambda db: db.row("PRAGMA max_page_count=1"))
    store.close()


async def test_a_cancelled_caller_holds_up_nobody(store: SqliteStore) -> None:
    gate = Gate()
    held = asyncio.create_task(store.write(gate.hold))
    await asyncio.to_thread(gate.entered.wait, PATIENCE_S)
    given_up = asyncio.create_task(store.write(add, "given-up", lane="one"))
    patient = asyncio.create_task(store.write(add, "patient", lane="one"))
    await asyncio.sleep(0)
    given_up.cancel()
    gate.open.set()

    assert await patient
    await held
    assert given_up.cancelled() or given_up.cancelling()
    assert await store.read(folders) == ["given-up", "patient"]  # it was accepted: giving up waiting undoes nothing


def test_a_file_that_is_no_store_is_named(tmp_path: Path) -> None:
    path = tmp_path / "gatepost.db"
    path.write_bytes(b"not a database at all, whatever it is called" * 100)
    with pytest.raises(SetupError, match=r"gatepost\.db cannot be opened: .*; restore a backup or move the file aside"):
        connect(path)


def test_a_new_store_is_the_owners_alone(store_path: Path) -> None:
    assert store_path.stat().st_mode & 0o777 == 0o600


async def test_a_read_that_takes_too_long_is_given_up_and_the_next_is_not(store: SqliteStore) -> None:
    endless = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT MAX(i) FROM n"
    with pytest.raises(Unavailable, match="ask for less"):
        await store.read(lambda db: db.row(endless), within=0.01)
    assert await store.read(lambda db: db.row("SELECT 1"), within=PATIENCE_S) == (1,)
    bounded = endless.replace("FROM n)", "FROM n WHERE i < 20000)")
    assert await store.read(lambda db: db.row(bounded)) == (20000,)


def note(db: Db, seen: list[str], name: str) -> None:
    seen.append(name)


@pytest.mark.runs_once
@pytest.mark.sqlite(reason="counts turns of the one writer")
async def test_stranger_04_a_flood_in_one_lane_lets_the_others_through(store: SqliteStore) -> None:
    gate, seen = Gate(), list[str]()
    held = asyncio.create_task(store.write(gate.hold))
    await asyncio.to_thread(gate.entered.wait, PATIENCE_S)
    for number in range(5 * LARGEST_GROUP):
        store.post(note, seen, f"flood {number}", lane="flood")
    neighbours = [asyncio.create_task(store.write(note, seen, f"quiet {n}", lane=f"quiet {n}")) for n in range(3)]
    await asyncio.sleep(0)
    gate.open.set()
    await asyncio.gather(held, *neighbours)
    await store.write(note, seen, "last", lane="flood")

    assert seen[:4] == ["flood 0", "quiet 0", "quiet 1", "quiet 2"]
    assert [each for each in seen if each.startswith("flood")] == [f"flood {n}" for n in range(5 * LARGEST_GROUP)]
    assert seen[-1] == "last"


async def test_stranger_04_a_group_is_closed_after_some_time_and_the_rest_goes_on(store_path: Path) -> None:
    store = SqliteStore(store_path, group_s=0)  # every unit takes longer than that
    gate, seen = Gate(), list[str]()
    held = asyncio.create_task(store.write(gate.hold))
    await asyncio.to_thread(gate.entered.wait, PATIENCE_S)
    before = commits(store_path)
    writes = [asyncio.create_task(store.write(add, f"g{n}", lane=str(n % 2))) for n in range(4)]
    await asyncio.sleep(0)
    store.post(note, seen, "posted", lane="1")
    gate.open.set()
    await asyncio.gather(held, *writes)

    assert commits(store_path) - before == 4
    assert await store.write(lambda db: list(seen), lane="1") == ["posted"]
    store.close()


ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT COUNT(*) FROM n"


def read_for_ever(db: Db) -> None:
    db.row(ENDLESS)


def write_for_ever(db: Db) -> None:
    """Interrupted, this takes the whole transaction with it."""
    db.run(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)"
        " INSERT INTO groups (folder, name, provider, created_at) SELECT 'x' || i, '', '', 1 FROM n"
    )


@pytest.mark.parametrize("endless", [read_for_ever, write_for_ever])
async def test_stranger_01_sql_that_takes_too_long_is_undone_alone(
    store_path: Path, endless: Callable[[Db], None]
) -> None:
    store = SqliteStore(store_path, unit_s=0.05, group_s=60)
    gate = Gate()
    held = asyncio.create_task(store.write(gate.hold))
    await asyncio.to_thread(gate.entered.wait, PATIENCE_S)
    group = asyncio.gather(
        store.write(add, "before", lane="a"),
        store.write(endless, lane="b"),
        store.write(add, "after", lane="c"),
        return_exceptions=True,
    )
    await asyncio.sleep(0)
    gate.open.set()
    first, failed, last = await group
    await asyncio.gather(held, return_exceptions=True)

    assert (first, last) == (True, True)
    assert isinstance(failed, Unavailable) and "takes more than 0.05 s" in str(failed)
    assert await store.read(folders) == ["after", "before"]
    store.close()


async def test_stranger_01_a_unit_that_computes_for_ever_is_interrupted_and_nothing_else(store_path: Path) -> None:
    store = SqliteStore(store_path, unit_s=0.05)
    entered = threading.Event()

    def compute(db: Db) -> None:
        add(db, "half")
        entered.set()
        while True:
            with suppress(Exception):  # it swallows what it can
                entered.is_set()

    computing = asyncio.create_task(_outcome(store, compute))
    await asyncio.to_thread(entered.wait, PATIENCE_S)
    while not computing.done():
        store.interrupt_overdue()
        await asyncio.sleep(0)

    assert "Unavailable" in await computing
    assert await store.write(add, "whole")
    assert await store.read(folders) == ["whole"]
    assert store.close() == ""


@pytest.mark.slow
async def test_stranger_01_closing_does_not_wait_for_ever_and_answers_who_waits(store_path: Path) -> None:
    store, gate = SqliteStore(store_path), Gate()
    held = asyncio.create_task(_outcome(store, gate.hold))
    await asyncio.to_thread(gate.entered.wait, PATIENCE_S)
    waiting = asyncio.create_task(_outcome(store, add, "late"))
    await asyncio.sleep(0)
    left = store.close(within=0)

    assert "Gate.hold" in left
    assert "the gateway is stopping" in await held
    assert "the gateway is stopping" in await waiting
    gate.open.set()


@pytest.mark.slow
async def test_stranger_01_a_read_that_does_not_end_is_interrupted_when_the_store_closes(store_path: Path) -> None:
    store, entered = SqliteStore(store_path), threading.Event()

    def read(db: Db) -> None:
        entered.set()
        db.row(ENDLESS)

    reading = asyncio.create_task(store.read(read))
    await asyncio.to_thread(entered.wait, PATIENCE_S)
    assert await asyncio.to_thread(store.close, 0) == ""
    with pytest.raises(apsw.InterruptError):
        await reading


@pytest.mark.slow
async def test_a_slow_unit_is_reported_under_its_own_name(store_path: Path) -> None:
    found: list[str] = []

    def report(name: str, wall: float, cpu: float) -> None:
        if cpu > SLOW_S / 5:  # a unit that computes; on a busy machine any may wait for a processor as long
            found.append(name)

    store = SqliteStore(store_path, unit_s=PATIENCE_S, slow=report)

    def count(db: Db) -> None:
        db.row("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 2000000) SELECT COUNT(*) FROM n")

    await store.write(add, "quick")
    await store.write(count)
    assert [name.rpartition(".")[2] for name in found] == ["count"]
    store.close()


async def test_stranger_01_what_computes_when_the_store_closes_is_ended(store_path: Path) -> None:
    store, entered = SqliteStore(store_path), threading.Event()

    def compute(db: Db) -> None:
        entered.set()
        while True:
            entered.is_set()

    computing = asyncio.create_task(_outcome(store, compute))
    await asyncio.to_thread(entered.wait, PATIENCE_S)
    waiting = asyncio.create_task(_outcome(store, add, "late"))
    await asyncio.sleep(0)
    assert store.close(within=0) == ""
    assert "Unavailable" in await computing
    assert await waiting == "True"


@pytest.mark.parametrize("readers", [2])
async def test_stranger_new_a_lane_reads_one_thing_at_a_time_and_leaves_a_reader_to_others(store: SqliteStore) -> None:
    free, running = threading.Event(), []

    def slow(db: Db) -> None:
        running.append(1)
        assert free.wait(PATIENCE_S)

    reads = [asyncio.create_task(store.read(slow, lane="loud")) for _ in range(5)]
    assert await store.read(lambda db: "quiet") == "quiet"
    reads[0].cancel()  # and the read goes on: its place is not free before
    await asyncio.gather(reads[0], return_exceptions=True)
    assert await store.read(lambda db: "quiet", lane="other") == "quiet"
    assert len(running) <= 1
    free.set()
    await asyncio.gather(*reads[1:])

    assert len(running) == 5
