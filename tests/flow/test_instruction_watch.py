"""What changed AGENTS.md without the gateway is kept as a version, with who it was as far as that is known."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from gatepost.core.home import Home
from gatepost.flow.instruction_watch import FIRST, MORE_S, MOST_AT_ONCE, InstructionWatch
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


async def test_a_change_on_the_machine_and_one_of_the_agent_are_told_apart(
    store: Store, home: Home, clock: FixedClock, write: Callable[[str, int], None]
) -> None:
    watch = InstructionWatch(store, home, clock)
    write("first", NOON - 60 * SECOND)
    await watch.check()
    await watch.check()
    clock.advance(100)
    write("by hand", NOON + 50 * SECOND)
    await watch.check()
    clock.advance(100)
    await store.write(work, NOON + 120 * SECOND, NOON + 140 * SECOND)
    write("by itself", NOON + 130 * SECOND)
    await watch.check()
    clock.advance(100)
    write("by hand again", NOON + 250 * SECOND)
    await watch.check()
    assert await list_versions(store) == [
        ("by hand again", "", NOON + 250 * SECOND),
        ("by itself", "agent:acme", NOON + 130 * SECOND),
        ("by hand", "", NOON + 50 * SECOND),
        ("first", FIRST, NOON - 60 * SECOND),
    ]


async def test_a_forged_date_neither_hides_a_change_nor_who_it_was(
    store: Store, home: Home, clock: FixedClock, write: Callable[[str, int], None]
) -> None:
    watch = InstructionWatch(store, home, clock)
    write("first", NOON)
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
    assert len(await store.read(instructions.list_newest_digests, folders)) == MOST_AT_ONCE + 1


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
