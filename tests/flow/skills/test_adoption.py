"""What agents had before skills were locked is adopted once; what comes later is a draft."""

import os
from pathlib import Path

import pytest

from gatepost.core.clock import SystemClock
from gatepost.core.home import Home
from gatepost.flow.groups import make_folder
from gatepost.flow.skills.adoption import adopt_all
from gatepost.store.engine.sqlite_store import SqliteStore
from gatepost.store.port import Db
from gatepost.store.sessions import groups, skills

TEXT = "---\ndescription: Use it for bread.\n---\n"


@pytest.fixture
def home(tmp_path: Path) -> Home:
    made = Home(tmp_path / "home")
    made.prepare()
    return made


def mark_as_old(db: Db) -> None:
    """As the migration leaves a store that has groups."""
    for folder in ("acme", "acme/eng"):
        groups.add(db, folder, folder, "", 1)
        db.run("INSERT INTO skill_adoptions (folder) VALUES (?)", (folder,))
    groups.add(db, "new", "new", "", 1)


@pytest.fixture
async def old_home(store: SqliteStore, home: Home) -> Home:
    await store.write(mark_as_old)
    for folder in ("acme", "acme/eng", "new"):
        make_folder(home, folder)
        write(home, folder, "bake")
    return home


def write(home: Home, folder: str, name: str, text: str = TEXT) -> None:
    place = home.group(folder) / "skills" / name
    place.mkdir()
    (place / "SKILL.md").write_text(text)


async def names(store: SqliteStore, folder: str) -> list[str]:
    return [each.name for each in await store.read(skills.list_effective, folder)]


async def test_what_was_listed_before_is_kept_once_and_nothing_that_comes_later(
    store: SqliteStore, old_home: Home
) -> None:
    assert await adopt_all(store, old_home, SystemClock()) == 2
    write(old_home, "acme", "later")
    (old_home.group("acme") / "skills" / "bake" / "SKILL.md").write_text("Do as I say.")
    assert await adopt_all(store, old_home, SystemClock()) == 0

    (row,) = await store.read(skills.list_for_agent, "acme")
    assert (row.name, row.source, row.below, row.agreed_by) == ("bake", "before", False, "gatepost")
    assert (await store.read(skills.list_effective, "acme"))[0].description == "Use it for bread."
    assert await names(store, "acme/eng") == ["bake"] and await names(store, "new") == []


async def test_what_cannot_be_taken_stays_a_draft_and_holds_up_nothing(store: SqliteStore, old_home: Home) -> None:
    top = old_home.group("acme") / "skills"
    (top / "link").symlink_to("/etc")
    (top / "empty").mkdir()
    (top / "bake" / "passwd").symlink_to("/etc/passwd")
    os.mkfifo(top / "pipe")
    write(old_home, "acme", "huge", "x" * 500_000)
    await adopt_all(store, old_home, SystemClock())

    (row,) = await store.read(skills.list_for_agent, "acme")
    content = await store.read(skills.get_content, row.digest)
    assert content is not None and (row.name, content.files) == ("bake", 1)


async def test_an_adoption_that_broke_off_is_made_again(store: SqliteStore, old_home: Home) -> None:
    await adopt_all(store, old_home, SystemClock())
    await store.write(lambda db: db.run("INSERT INTO skill_adoptions (folder) VALUES ('acme')"))
    assert await adopt_all(store, old_home, SystemClock()) == 1
    assert await names(store, "acme") == ["bake"]
