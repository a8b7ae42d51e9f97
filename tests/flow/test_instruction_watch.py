"""What changed AGENTS.md without the gateway is kept as a version, with who it was as far as that is known."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from gatepost.core.home import Home
from gatepost.flow.instruction_watch import MORE_S, MOST_AT_ONCE, UNSURE, InstructionWatch
from gatepost.store.port import Db, Store
from gatepost.store.sessions import groups, instructions, sessions, turns
from gatepost.store.sessions.sessions import SessionMode
from gatepost.store.sessions.turns import TurnState
from gatepost_testing.clock import NOON, FixedClock

pytestmark = pytest.mark.anyio
SECOND = 1_000_000


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home")


@pytest.fixture
def clock() -> FixedClock:
    return FixedClock(NOON)


@pytest.fixture
async def write(store: Store, home: Home) -> Callable[[str, int], None]:
    home.prepare()
    await store.write(groups.add, "acme", "Acme", "", NOON)

    def put(text: str, at: int, folder: str = "acme") -> None:
        place = home.group(folder)
        place.mkdir(parents=True, exist_ok=True)
        (place / "AGENTS.md").write_text(text)
        os.utime(place / "AGENTS.md", ns=(at * 1000, at * 1000))

    return put


async def list_versions(store: Store) -> list[tuple[str, str, int]]:
    found = await store.read(instructions.list_for_group, "acme")
    return [(each.text, each.written_by, each.written_at) for each in found]


def work(db: Db, since: int, until: int) -> None:
    session = sessions.find_or_add(db, SessionMode.SHARED, "acme", "fake", "fake:room/1", "", since)
    turns.TURNS.put(
        db,
        id="t-1",
        session_id=session.id,
        folder="acme",
        provider="demo",
        instance="fake",
        address="fake:room/1",
        thread="",
        rights="owner",
        state=TurnState.DONE,
        next_at=since,
        owner="",
        lease_until=since,
        started_at=since,
        ended_at=until,
    )


def date(home: Home) -> int:
    """When the file was written: no test sets the date of its inode."""
    return (home.group("acme") / "AGENTS.md").stat().st_ctime_ns // 1000


async def find_writer(
    store: Store, home: Home, turn: tuple[int, int] | None, *, dated: int = 0, folder: str = "acme"
) -> str:
    """Return by whom a change is said to be, with a turn from and to so many seconds after it. `dated`: by how much
    its writer sets the date."""
    home.prepare()
    for each in ("acme", "acme/eng", "acme/sre"):
        await store.write(groups.add, each, "", "", NOON)
    file = home.group(folder) / "AGENTS.md"
    file.parent.mkdir(parents=True)
    file.write_text("first")
    clock = FixedClock(file.stat().st_ctime_ns // 1000)
    watch = InstructionWatch(store, home, clock)
    await watch.check()
    await watch.check()
    file.write_text("changed")
    changed = file.stat().st_ctime_ns // 1000
    if dated:
        os.utime(file, ns=((changed + dated * SECOND) * 1000,) * 2)
    if turn is not None:
        await store.write(work, *(changed + each * SECOND for each in turn))
    clock.advance(60)
    await watch.check()
    (newest, *_) = await store.read(instructions.list_for_group, folder)
    return newest.written_by


@pytest.mark.parametrize(
    ("turn", "dated", "by"),
    [
        (None, 0, ""),
        ((-10, 10), 0, "agent:acme"),
        ((-10, 10), -20, "agent:acme"),  # to before its turn
        ((-10, 10), 20, "agent:acme"),
        ((-600, -300), 0, UNSURE),  # what it started may run on
        ((20, 30), 0, ""),  # later
        ((-90_000, -80_000), 0, ""),
    ],
)
async def test_an_agent_passes_for_nobody_else_by_the_date_of_its_change(
    store: Store, home: Home, turn: tuple[int, int] | None, dated: int, by: str
) -> None:
    assert await find_writer(store, home, turn, dated=dated) == by


@pytest.mark.parametrize(("folder", "by"), [("acme/eng", UNSURE), ("acme", "agent:acme")])
async def test_an_agent_that_changes_the_instructions_of_one_below_is_not_taken_for_somebody_else(
    store: Store, home: Home, folder: str, by: str
) -> None:
    assert await find_writer(store, home, (-10, 10), folder=folder) == by


async def test_a_change_just_before_a_restart_is_not_taken_for_somebody_elses(
    store: Store, home: Home, write: Callable[[str, int], None]
) -> None:
    write("first", NOON)
    await InstructionWatch(store, home, FixedClock(NOON)).check()
    (home.group("acme") / "AGENTS.md").write_text("changed")
    changed = date(home)
    await store.write(work, changed - 10 * SECOND, changed + 10 * SECOND)
    await InstructionWatch(store, home, FixedClock(changed + 300 * SECOND)).check()
    assert (await list_versions(store))[0] == ("changed", "agent:acme", changed)


async def test_a_forged_date_neither_hides_a_change_nor_who_it_was(
    store: Store, home: Home, clock: FixedClock, write: Callable[[str, int], None]
) -> None:
    watch = InstructionWatch(store, home, clock)
    write("first", NOON)
    await watch.check()
    await watch.check()
    clock.advance(100)
    await store.write(work, NOON + 20 * SECOND, NOON + 40 * SECOND)
    write("sneaky", NOON - 10_000 * SECOND)
    await watch.check()
    assert (await list_versions(store))[0] == ("sneaky", "agent:acme", NOON + 100 * SECOND)


async def test_links_large_files_and_what_is_no_text_are_left_out(
    store: Store, home: Home, clock: FixedClock, write: Callable[[str, int], None]
) -> None:
    watch = InstructionWatch(store, home, clock)
    write("x" * 70_000, NOON)
    await watch.check()
    place = home.group("acme") / "AGENTS.md"
    place.write_bytes(b"\xff\xfe")
    await watch.check()
    place.unlink()
    place.symlink_to("/etc/passwd")
    await watch.check()
    place.unlink()
    await watch.check()
    assert await list_versions(store) == []


async def test_one_look_reads_so_many_files_and_the_next_comes_soon(
    store: Store, home: Home, clock: FixedClock, write: Callable[..., None]
) -> None:
    for number in range(MOST_AT_ONCE + 1):
        await store.write(groups.add, f"g{number}", "", "", NOON)
        write("text", NOON, f"g{number}")
    watch = InstructionWatch(store, home, clock)
    assert await watch.check() == MORE_S
    assert await watch.check() is None
    folders = [f"g{number}" for number in range(MOST_AT_ONCE + 1)]
    assert len(await store.read(instructions.list_newest, folders)) == MOST_AT_ONCE + 1


async def test_an_agent_hides_no_change_behind_the_old_date(
    store: Store, home: Home, clock: FixedClock, write: Callable[[str, int], None]
) -> None:
    """Of the same size, in the same file, with the date set back."""
    watch = InstructionWatch(store, home, clock)
    write("Obey Ada", NOON - 60 * SECOND)
    await watch.check()
    clock.advance(100)
    write("Obey Eve", NOON - 60 * SECOND)
    await watch.check()
    assert [each[0] for each in await list_versions(store)] == ["Obey Eve", "Obey Ada"]
