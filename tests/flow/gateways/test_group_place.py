"""Where the folders of groups may lie."""

import shutil
from pathlib import Path

import pytest

from gatepost.core.errors import SetupError
from gatepost.core.event_bus import EventBus
from gatepost.core.home import Home
from gatepost.core.settings import Config
from gatepost.flow.gateways.group_place import AWAY_NOTICE, LOST, MARK, PlaceNotices, place_home, prepare_place
from gatepost.store.gateways import gateways, group_places
from gatepost.store.gateways.gateways import GatewayIdentity, GatewayState
from gatepost.store.messages import inbox, outbox
from gatepost.store.messages.outbox import OutboxEffect
from gatepost.store.port import Db, Store
from gatepost.store.sessions import groups, sessions
from gatepost_testing.arrivals import add_arrival
from gatepost_testing.channel import FakeChannel
from gatepost_testing.clock import FixedClock
from gatepost_testing.outbox_harness import OutboxHarness

LEASE = 6_000_000


def test_shared_folders_without_sandboxes_are_refused(tmp_path: Path) -> None:
    given = {
        "store.url": "postgresql://ann@db.example/x",
        "groups.place": "shared",
        "groups.shared_folder": str(tmp_path),
        "sandbox.kind": "process",
    }
    with pytest.raises(SetupError, match=r'groups\.place = "shared" .*sandbox\.kind = "process"'):
        place_home(Home(tmp_path / "home"), Config(given))
    placed = place_home(Home(tmp_path / "home"), Config({**given, "sandbox.kind": "auto"}))
    assert placed.shared == tmp_path
    assert [each.name for each in tmp_path.iterdir()] == []  # it is not known yet to be the right one


def test_a_shared_folder_that_is_not_set_is_said_to_be_so(tmp_path: Path) -> None:
    given = {"store.url": "postgresql://ann@db.example/x", "groups.place": "shared"}
    with pytest.raises(SetupError, match=r"groups\.shared_folder is not set; set it to the whole path"):
        place_home(Home(tmp_path), Config(given))


def make_home(path: Path, shared: Path | None) -> Home:
    home = Home(path)
    home.prepare()
    if shared is not None:
        shared.mkdir(exist_ok=True)
    return Home(path, shared=shared, gateway="" if shared else path.name)


async def test_a_start_that_is_refused_leaves_nothing_in_the_wrong_folder(store: Store, tmp_path: Path) -> None:
    right, wrong = tmp_path / "right", tmp_path / "wrong"
    await prepare_place(store, make_home(tmp_path / "a", right), "a", 1)
    assert {MARK, "groups", "sessions"} == {each.name for each in right.iterdir()}
    with pytest.raises(SetupError, match="is not the shared folder: gateway 'b' does not see there what gateway 'a'"):
        await prepare_place(store, make_home(tmp_path / "b", wrong), "b", 2)
    assert list(wrong.iterdir()) == []
    await prepare_place(store, make_home(tmp_path / "b", right), "b", 3)


async def test_groups_that_are_not_in_the_shared_folder_yet_stop_the_start(store: Store, tmp_path: Path) -> None:
    home, names = make_home(tmp_path / "a", tmp_path / "shared"), ("acme", "acme/eng", "beta", "gamma")
    for folder in (*names, "empty"):
        await store.write(groups.add, folder, folder, "", 1)
        (home.path / "groups" / folder).mkdir()
    for folder in (*names, "no group"):
        (home.path / "groups" / folder).mkdir(exist_ok=True)
        (home.path / "groups" / folder / "AGENTS.md").touch()
    with pytest.raises(SetupError, match=r"the files of acme, acme/eng, beta and 1 more are in .*`cp -a groups sess"):
        await prepare_place(store, home, "a", 2)
    assert home.shared is not None and list(home.shared.iterdir()) == []
    shutil.copytree(home.path / "groups", home.shared / "groups")
    await prepare_place(store, home, "a", 3)


async def begin(store: Store, home: Home, name: str, now: int) -> int:
    identity = GatewayIdentity(name=name, home=name, host="here", version="1", schema_number=49)
    epoch = await store.write(gateways.register, identity, LEASE, 1, now)
    await prepare_place(store, home, name, now)
    return epoch


@pytest.mark.parametrize("first", ["local", "shared"])
async def test_a_gateway_of_the_other_kind_starts_when_no_other_lives(store: Store, tmp_path: Path, first: str) -> None:
    folder = tmp_path / "shared"
    one, other = (folder, None) if first == "shared" else (None, folder)
    epoch = await begin(store, make_home(tmp_path / "a", one), "a", 1)
    b = make_home(tmp_path / "b", other)
    with pytest.raises(SetupError, match=rf"gateway 'a' has its folders .*set groups\.place = \"{first}\"") as refused:
        await begin(store, b, "b", 2)
    assert ("groups.shared_folder" in str(refused.value)) == (first == "shared")
    assert other is None or list(folder.iterdir()) == []
    await begin(store, make_home(tmp_path / "c", one), "c", 3)  # who was refused is in nobody's way
    await store.write(gateways.set_state, "a", epoch, GatewayState.GONE)
    with pytest.raises(SetupError, match="gateway 'c' has its folders"):
        await begin(store, b, "b", 4)
    await begin(store, b, "b", 5 + LEASE)  # `c` is dead
    await begin(store, make_home(tmp_path / "b", other), "b", 6 + LEASE)


def add_notes(folder: Path, group: str, *notes: str) -> None:
    (folder / "groups" / group).mkdir(parents=True, exist_ok=True)
    with (folder / "groups" / group / "notes.md").open("a") as file:
        file.writelines(f"{each}\n" for each in notes)


async def run_shared(store: Store, home: Home, shared: Path, now: int) -> None:
    """A group that was begun in this home went on in the shared folder."""
    await store.write(groups.add, "acme", "Acme", "", 1)
    await store.write(group_places.claim, "acme", "a", 1)
    add_notes(home.path, "acme", "one", "two")
    shutil.copytree(home.path / "groups", shared / "groups")
    await prepare_place(store, make_home(home.path, shared), "a", now)
    add_notes(shared, "acme", "three")


async def test_going_back_to_older_folders_is_refused_until_they_are_copied(store: Store, tmp_path: Path) -> None:
    home, shared = make_home(tmp_path / "a", None), tmp_path / "shared"
    await run_shared(store, home, shared, 2)
    with pytest.raises(
        SetupError, match=r"the files of acme are newer in the shared folder .*`cp -a .*/groups .*/sess"
    ):
        await prepare_place(store, home, "a", 3, shared_folder=str(shared))
    shutil.copytree(shared / "groups", home.path / "groups", dirs_exist_ok=True)
    await prepare_place(store, home, "a", 4, shared_folder=str(shared))
    add_notes(shared, "acme", "nobody uses that one any more")
    await prepare_place(store, home, "a", 5)


async def test_going_back_without_the_shared_folder_needs_somebodys_word(store: Store, tmp_path: Path) -> None:
    home, shared = make_home(tmp_path / "a", None), tmp_path / "shared"
    await run_shared(store, home, shared, 2)
    with pytest.raises(SetupError, match=r"groups\.shared_folder does not name it; set it, .*`touch .*gatepost-local`"):
        await prepare_place(store, home, "a", 3)
    with pytest.raises(SetupError, match="nowhere is not that one"):
        await prepare_place(store, home, "a", 3, shared_folder=str(tmp_path / "nowhere"))
    (home.path / LOST).touch()
    await prepare_place(store, home, "a", 4)
    assert not (home.path / LOST).exists()
    empty = make_home(tmp_path / "b", None)
    await prepare_place(store, empty, "b", 5)  # it has nothing that could be older


async def test_a_shared_folder_that_is_older_than_the_own_ones_stops_the_start(store: Store, tmp_path: Path) -> None:
    home, shared = make_home(tmp_path / "a", None), tmp_path / "shared"
    await run_shared(store, home, shared, 2)
    shutil.copytree(shared / "groups", home.path / "groups", dirs_exist_ok=True)
    await prepare_place(store, home, "a", 3, shared_folder=str(shared))
    add_notes(home.path, "acme", "four")
    again = make_home(home.path, shared)
    with pytest.raises(SetupError, match=r"the files of acme are in .*, and not, or older, in the shared folder"):
        await prepare_place(store, again, "a", 4)
    shutil.copytree(home.path / "groups", shared / "groups", dirs_exist_ok=True)
    await prepare_place(store, again, "a", 5)


async def test_a_folder_that_was_restored_without_its_mark_is_told_how_to_get_it(store: Store, tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    home = make_home(tmp_path / "a", shared)
    await prepare_place(store, home, "a", 1)
    mark = (shared / MARK).read_text()
    (shared / MARK).unlink()
    with pytest.raises(SetupError, match=rf"restored without that file: `printf %s {mark} > {shared}/{MARK}`"):
        await prepare_place(store, home, "a", 2)
    (shared / MARK).write_text(mark)
    await prepare_place(store, home, "a", 3)


ROOM = "fake:room/1"
IDENTITY = GatewayIdentity(name="a", home="home", host="host", version="1", schema_number=49)


def register(db: Db, now: int) -> int:
    return gateways.register(db, IDENTITY, 6_000_000, 1, now)


def leave(db: Db, epoch: int) -> bool:
    return gateways.set_state(db, "a", epoch, GatewayState.GONE)


def hear(db: Db, platform_id: str, now: int) -> None:
    groups.add(db, "acme", "Acme", "", now)
    group_places.claim(db, "acme", "a", now)
    session = sessions.find_or_add(db, sessions.SessionMode.SHARED, "acme", "fake", ROOM, "", now)
    message_id = add_arrival(db, now, address=ROOM, platform_id=platform_id)
    inbox.enqueue(db, message_id, session.id, "acme", "member", now)


def list_said(db: Db) -> list[OutboxEffect]:
    return outbox.OUTBOX.list(db, "ORDER BY id")


async def make_notices(store: Store, clock: FixedClock) -> PlaceNotices:
    channels = OutboxHarness(store, {"fake": FakeChannel()}).channels
    return PlaceNotices(store, clock, Config(), EventBus(), channels)


async def test_a_room_is_told_after_a_minute_and_once_for_each_absence(store: Store) -> None:
    clock = FixedClock()
    notices = await make_notices(store, clock)
    said = list[int]()

    async def pass_time(seconds: float) -> None:
        clock.advance(seconds)
        await notices.check()
        said.append(len(await store.read(list_said)))

    epoch = await store.write(register, clock.now())
    await store.write(hear, "m1", clock.now())
    await pass_time(300)  # its gateway is there, and will get to it
    await store.write(leave, epoch)
    await pass_time(0)
    await pass_time(59)
    await pass_time(1)
    await store.write(hear, "m2", clock.now())
    await pass_time(120)
    assert said == [0, 0, 0, 1, 1]
    epoch = await store.write(register, clock.now())  # it is back, and leaves again before it got to them
    await pass_time(0)
    await store.write(leave, epoch)
    await pass_time(0)
    await pass_time(60)
    assert said[5:] == [1, 1, 2]
    assert [each.payload["text"] for each in await store.read(list_said)] == [AWAY_NOTICE, AWAY_NOTICE]


async def test_a_message_of_this_moment_waits_a_minute_of_its_own(store: Store) -> None:
    clock = FixedClock()
    notices = await make_notices(store, clock)
    await store.write(leave, await store.write(register, clock.now()))
    await store.write(groups.add, "acme", "Acme", "", clock.now())
    await store.write(group_places.claim, "acme", "a", clock.now())
    await notices.check()
    clock.advance(600)
    await store.write(hear, "m1", clock.now())
    await notices.check()
    assert await store.read(list_said) == []
    clock.advance(60)
    await notices.check()
    assert len(await store.read(list_said)) == 1
