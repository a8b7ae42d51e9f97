"""What a removed group leaves: exactly its own is cleared away."""

import shutil
from pathlib import Path

import pytest

from gatepost.channels.contract import get_file_folder_name
from gatepost.core.errors import Invalid
from gatepost.core.home import Home
from gatepost.flow.groups.group_removal import find_leftovers, remove_leftovers
from gatepost.store.engine.sqlite_store import SqliteStore
from gatepost.store.messages import inbox
from gatepost.store.port import Db
from gatepost.store.sessions import groups, worktrees
from gatepost_testing.arrivals import add_arrival


@pytest.fixture
def home(tmp_path: Path, empty_store: Path) -> Home:
    made = Home(tmp_path / "home")
    made.prepare()
    shutil.copy(empty_store, made.store)
    return made


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


async def test_stranger_14_files_that_another_group_was_sent_too_stay(home: Home) -> None:
    def fill(db: Db) -> None:
        for folder in ("acme", "beta"):
            groups.add(db, folder, folder, "", 1)
        arrive(db, 1, "acme")
        arrive(db, 2, "acme", "beta")
        arrive(db, 3, "beta")

    store = SqliteStore(home.store, readers=1)
    try:
        await store.write(fill)
        for number in (1, 2, 3):
            (home.media / "in" / f"f-{number}").mkdir(parents=True)
        remains = await store.read(find_leftovers, "acme")
        assert await store.read(inbox.list_contents_only_for, "beta")
        removed, left = await remove_leftovers(home, remains)
    finally:
        store.close()

    assert (removed["media"], left) == (1, [])
    assert sorted(each.name for each in (home.media / "in").iterdir()) == ["f-2", "f-3"]
    assert get_file_folder_name("a") != get_file_folder_name("b")


async def test_stranger_14_a_worktree_in_use_holds_its_group(home: Home) -> None:
    def fill(db: Db) -> None:
        groups.add(db, "acme", "acme", "", 1)
        worktrees.claim_name(db, "shop", "task", "acme", "/srv/shop", "main", 1)

    store = SqliteStore(home.store, readers=1)
    try:
        await store.write(fill)
        with pytest.raises(Invalid, match=r"shop/task.*archive"):
            await store.read(find_leftovers, "acme")
        await store.write(worktrees.set_state, "shop", "task", "archived", 2)
        assert (await store.read(find_leftovers, "acme")).worktrees == (("shop", "task"),)
    finally:
        store.close()
