import os
import shutil
from pathlib import Path

import pytest

from gatepost.channels.contract import get_file_folder_name
from gatepost.core.clock import SystemClock
from gatepost.core.errors import GatepostError, Invalid
from gatepost.core.home import Home
from gatepost.flow.groups import add_defaults, ensure_defaults, find_leftovers, make_folder, remove_leftovers
from gatepost.store.engine.sqlite_store import SqliteStore
from gatepost.store.messages import inbox
from gatepost.store.people import identities, users
from gatepost.store.port import Db
from gatepost.store.rooms import rooms, routes
from gatepost.store.sessions import groups, worktrees
from gatepost_testing.arrivals import add_arrival


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path / "home")
    home.prepare()
    return home


async def test_a_first_start_has_root_home_and_a_way_there(store: SqliteStore, home: Home) -> None:
    assert await ensure_defaults(store, home, SystemClock())

    assert [group.folder for group in await store.read(groups.list_all)] == ["home", "root"]
    [route] = await store.read(routes.list_all)
    assert (route.seq, route.match, route.target, route.folder, route.mode) == (1000, "", "home", "home", "per-thread")
    assert {path.name for path in home.groups.iterdir()} == {"home", "root"}


async def test_the_owner_is_known_on_the_terminal_and_on_the_web(store: SqliteStore, home: Home) -> None:
    await ensure_defaults(store, home, SystemClock())

    assert await store.read(users.list_owners) == ["terminal:owner"]
    assert await store.read(identities.list_names, "web:user/owner") == ("terminal:owner", "web:user/owner")
    assert {room.address for room in await store.read(rooms.list_all)} == {"terminal:main", "web:home"}


async def test_a_later_start_changes_nothing(store: SqliteStore, home: Home) -> None:
    await ensure_defaults(store, home, SystemClock())
    (home.group("home") / "AGENTS.md").write_text("mine")

    assert not await ensure_defaults(store, home, SystemClock())

    assert (home.group("home") / "AGENTS.md").read_text() == "mine"
    assert len(await store.read(routes.list_all)) == 1


def test_a_default_route_that_was_removed_does_not_come_back(db: Db) -> None:
    add_defaults(db, 1)
    routes.remove(db, routes.list_all(db)[0].id)

    add_defaults(db, 2)

    assert routes.list_all(db) == []


def test_a_new_group_has_what_an_agent_needs(home: Home) -> None:
    make_folder(home, "acme/eng", name="Ada")

    folder = home.group("acme/eng")
    assert {path.name for path in folder.iterdir()} == {"AGENTS.md", "CLAUDE.md", "work.md", "skills"}
    assert "You are Ada" in (folder / "AGENTS.md").read_text() and "`acme/eng`" in (folder / "AGENTS.md").read_text()
    assert os.readlink(folder / "CLAUDE.md") == "AGENTS.md"


def test_what_is_there_already_is_not_overwritten(home: Home) -> None:
    folder = home.group("acme")
    folder.mkdir()
    (folder / "work.md").write_text("half done")

    make_folder(home, "acme")

    assert (folder / "work.md").read_text() == "half done"
    assert (folder / "AGENTS.md").exists()


def test_nanoclaw_d18_a_planted_link_is_not_followed(home: Home, tmp_path: Path) -> None:
    make_folder(home, "acme")
    (tmp_path / "outside").mkdir()
    (home.group("acme") / "eng").symlink_to(tmp_path / "outside")

    with pytest.raises(GatepostError):
        make_folder(home, "acme/eng")

    assert list((tmp_path / "outside").iterdir()) == []


@pytest.fixture
def stored_home(home: Home, empty_store: Path) -> Home:
    shutil.copy(empty_store, home.store)
    return home


def arrive(db: Db, number: int, *folders: str) -> None:
    content = f'{{"attachments": [{{"path": "in/f-{number}/a.txt"}}]}}'
    message_id = add_arrival(
        db,
        1,
        instance="web",
        address="web:x",
        platform_id=str(number),
        sender="web:user/owner",
        text="",
        content=content,
    )
    for folder in folders:
        db.run(
            "INSERT INTO inbox (message_id, folder, state, created_at, updated_at) VALUES (?, ?, 'done', 1, 1)",
            (message_id, folder),
        )


async def test_stranger_14_files_that_another_group_was_sent_too_stay(stored_home: Home) -> None:
    def fill(db: Db) -> None:
        for folder in ("acme", "beta"):
            groups.add(db, folder, folder, "", 1)
        arrive(db, 1, "acme")
        arrive(db, 2, "acme", "beta")
        arrive(db, 3, "beta")

    store = SqliteStore(stored_home.store, readers=1)
    try:
        await store.write(fill)
        for number in (1, 2, 3):
            (stored_home.media / "in" / f"f-{number}").mkdir(parents=True)
        remains = await store.read(find_leftovers, "acme")
        assert await store.read(inbox.list_contents_only_for, "beta")
        removed, left = await remove_leftovers(stored_home, remains)
    finally:
        store.close()

    assert (removed["media"], left) == (1, [])
    assert sorted(each.name for each in (stored_home.media / "in").iterdir()) == ["f-2", "f-3"]
    assert get_file_folder_name("a") != get_file_folder_name("b")


async def test_stranger_14_a_worktree_in_use_holds_its_group(stored_home: Home) -> None:
    def fill(db: Db) -> None:
        groups.add(db, "acme", "acme", "", 1)
        worktrees.claim_name(db, "shop", "task", "acme", "/srv/shop", "main", 1)

    store = SqliteStore(stored_home.store, readers=1)
    try:
        await store.write(fill)
        with pytest.raises(Invalid, match=r"shop/task.*archive"):
            await store.read(find_leftovers, "acme")
        await store.write(worktrees.set_state, "shop", "task", "archived", 2)
        assert (await store.read(find_leftovers, "acme")).worktrees == (("shop", "task"),)
    finally:
        store.close()
