"""Agreed skills on the disk: whole, read-only for agents, shared, and made again from the store."""

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gatepost.core.errors import Unavailable
from gatepost.core.home import Home
from gatepost.flow.skills.skill_files import SkillFile
from gatepost.flow.skills.skill_folders import LISTED_BYTES, PreparedSkills, prepare_skills, sweep_folders
from gatepost.store.engine.sqlite_store import SqliteStore
from gatepost.store.sessions import skills
from gatepost.store.sessions.skills import EffectiveSkill
from gatepost_testing.agreed_skills import agree_to_skill

SCRIPT = SkillFile("scripts/bake.sh", True, b"#!/bin/sh\necho baked\n")


@pytest.fixture
def home(tmp_path: Path) -> Home:
    made = Home(tmp_path / "home")
    made.prepare()
    return made


async def off_loop(fn: Callable[..., Any], *args: Any) -> Any:
    return await asyncio.to_thread(fn, *args)


async def prepare(store: SqliteStore, home: Home, folder: str) -> PreparedSkills:
    return await prepare_skills(store, home, off_loop, await store.read(skills.list_effective, folder))


async def test_skills_lie_below_their_names_and_can_be_run(store: SqliteStore, home: Home) -> None:
    await agree_to_skill(store, "", "bake", "Bread.", SCRIPT)
    found = await prepare(store, home, "acme")
    assert found.folder is not None and found.folder.is_relative_to(home.skills)
    script = found.folder / "bake" / "scripts" / "bake.sh"
    assert script.read_bytes() == SCRIPT.data and script.stat().st_mode & 0o777 == 0o755
    assert (found.folder / "bake" / "SKILL.md").stat().st_mode & 0o777 == 0o644
    assert all(each.stat().st_mode & 0o755 == 0o755 for each in (found.folder, script.parent))
    again = await prepare(store, home, "acme/eng")
    assert again.folder == found.folder, "agents with the same skills share a set"
    assert (await prepare_skills(store, home, off_loop, [])).folder is None


async def test_what_is_lost_on_the_disk_is_made_again_and_what_is_not_needed_is_swept(
    store: SqliteStore, home: Home
) -> None:
    await agree_to_skill(store, "", "bake", "Bread.")
    before = await prepare(store, home, "acme")
    shutil.rmtree(home.skills)
    home.prepare()
    assert (await prepare(store, home, "acme")).folder == before.folder
    (home.skills / "content" / ".new-killed").mkdir()
    assert sweep_folders(home, await store.read(skills.list_digests)) == 2  # the set, and what a kill left
    assert len(list((home.skills / "content").iterdir())) == 1
    assert sweep_folders(home, []) == 1


async def test_a_content_that_is_not_what_its_digest_says_is_not_put_in_place(store: SqliteStore, home: Home) -> None:
    row = await agree_to_skill(store, "", "bake", "Bread.")
    other = await agree_to_skill(store, "", "cook", "Soup.")
    pack = await store.read(skills.get_pack, other.digest)
    await store.write(lambda db: db.run("UPDATE skill_contents SET pack = ? WHERE digest = ?", (pack, row.digest)))
    with pytest.raises(Unavailable, match="another content"):
        await prepare(store, home, "acme")
    assert not (home.skills / "content" / row.digest).exists()


async def test_a_prompt_lists_what_fits_and_says_how_many_more_there_are(store: SqliteStore, home: Home) -> None:
    row = await agree_to_skill(store, "", "bake", "Bread.")
    many = [EffectiveSkill(f"s-{number:03}", row.digest, "x" * 100) for number in range(200)]
    found = await prepare_skills(store, home, off_loop, many)
    assert found.more == 200 - len(found.listed) and 40 < len(found.listed) < LISTED_BYTES / 100
    assert found.folder is not None and len(list(found.folder.iterdir())) == 200, "all of them are there"


async def test_one_skill_with_many_words_takes_the_place_of_no_other(store: SqliteStore, home: Home) -> None:
    row = await agree_to_skill(store, "", "bake", "Bread.")
    loud = EffectiveSkill("a-loud-one", row.digest, "x" * 8000)
    many = [loud, *(EffectiveSkill(f"s-{number:02}", row.digest, "short") for number in range(60))]
    found = await prepare_skills(store, home, off_loop, many)
    assert found.more == 0 and len(found.listed[0].description) == 200
