"""The files of an agent, read, written and given by people: nothing outside its folder, and nobody's change is lost."""

import asyncio
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gatepost.core.clock import SystemClock
from gatepost.core.errors import GatepostError, Invalid, NotFound, Refused
from gatepost.core.event_bus import EventBus
from gatepost.core.home import Home
from gatepost.core.records import replace
from gatepost.core.settings import Config
from gatepost.flow import group_files
from gatepost.serve.control.contract import OPERATIONS, OperationDeps
from gatepost.store.engine.sqlite_store import SqliteStore
from gatepost.store.rights import audit


@pytest.fixture
async def deps(store: SqliteStore, home: Home) -> OperationDeps:
    made = OperationDeps(home=home, store=store, clock=SystemClock(), config=Config(), events=EventBus())
    await OPERATIONS["group.add"](made, {"folder": "acme"})
    return made


async def run(deps: OperationDeps, name: str, **args: Any) -> Any:
    return await OPERATIONS[name](deps, {"folder": "acme", **args})


async def test_a_file_is_read_changed_and_recorded_without_its_words(deps: OperationDeps) -> None:
    woken: list[str] = []
    deps.events.on_group(woken.append)
    read = await run(deps, "group.read_file", path="AGENTS.md")
    done = await run(deps, "group.write_file", path="AGENTS.md", content="# Neu ü\n", version=read["version"])
    again = await run(deps, "group.read_file", path="AGENTS.md")
    assert (again["text"], again["version"], woken) == ("# Neu ü\n", done["version"], ["acme"])
    skill = {"path": "skills/release/SKILL.md", "content": "how to release"}
    await run(deps, "group.write_file", **skill)
    found = await run(deps, "group.files")
    assert [each["path"] for each in found] == ["AGENTS.md", "skills/release/SKILL.md", "work.md"]
    newest = (await deps.store.read(audit.list_latest, 1))[0]
    assert newest[3] == "group.write_file" and "how to release" not in str(newest)


async def test_a_version_that_changed_meanwhile_is_not_overwritten(deps: OperationDeps, home: Home) -> None:
    read = await run(deps, "group.read_file", path="AGENTS.md")
    (home.group("acme") / "AGENTS.md").write_text("the agent's own")
    for version in (read["version"], ""):
        with pytest.raises(Invalid, match="version"):
            await run(deps, "group.write_file", path="AGENTS.md", content="mine", version=version)
    assert (home.group("acme") / "AGENTS.md").read_text() == "the agent's own"


async def test_of_two_who_write_at_once_one_is_told(deps: OperationDeps) -> None:
    read = await run(deps, "group.read_file", path="AGENTS.md")
    writes = [
        run(deps, "group.write_file", path="AGENTS.md", content=f"text {number}", version=read["version"])
        for number in range(6)
    ]
    answers = await asyncio.gather(*writes, return_exceptions=True)
    assert len([each for each in answers if isinstance(each, dict)]) == 1
    assert len([each for each in answers if isinstance(each, Invalid)]) == 5


PATHS = (
    "", ".", "..", "../AGENTS.md", "skills", "skills/", "skills/../AGENTS.md", "skills/./x", "skills//x", "/etc/passwd",
    ".env", "notes/.git/config", "skills/x/../../../AGENTS.md", "skills/a\0b", "skills\\x", "skills/" + "d/" * 9 + "x",
)  # fmt: skip


@pytest.mark.parametrize("path", PATHS)
async def test_nothing_outside_the_folder_and_nothing_hidden_is_read_or_written(deps: OperationDeps, path: str) -> None:
    with pytest.raises(GatepostError):
        await run(deps, "group.read_file", path=path)
    with pytest.raises(Invalid):
        await run(deps, "group.write_file", path=path, content="x")
    with pytest.raises(Invalid):
        await run(deps, "group.give_file", path=path, data=b"x")


async def test_a_given_file_is_found_by_its_name_and_replaces_none(deps: OperationDeps, home: Home) -> None:
    done = await run(deps, "group.give_file", path="reports/2026.pdf", data=b"%PDF\xff")
    assert (home.group("acme") / "reports/2026.pdf").read_bytes() == b"%PDF\xff"
    assert (done["path"], done["size"]) == ("reports/2026.pdf", 5)
    with pytest.raises(Invalid, match="another name"):
        await run(deps, "group.give_file", path="reports/2026.pdf", data=b"other")
    others = ("PERSONA.md", "GEMINI.md", "AGENTS.override.md", "notes/CLAUDE.md")  # prompts, too
    for told in ("AGENTS.md", "skills/x/SKILL.md", *others):
        with pytest.raises(Invalid, match="editor"):
            await run(deps, "group.give_file", path=told, data=b"x")
    await run(deps, "group.give_file", path="README.md", data=b"%PDF")
    newest = (await deps.store.read(audit.list_latest, 1))[0]
    assert newest[3] == "group.give_file" and "PDF" not in str(newest).replace("pdf", "")


async def test_the_agents_own_files_need_a_right_of_their_own(deps: OperationDeps, home: Home) -> None:
    (home.group("acme") / "diary.txt").write_text("what somebody said in private")
    person, other = "telegram:user/9", "telegram:user/10"
    for who, rights in ((person, ("groups.read", "groups.write")), (other, ("groups.read", "files.read"))):
        for right in rights:
            await OPERATIONS["acl.add"](deps, {"principal": who, "action": f"op:{right}", "scope": "acme"})
    theirs, others = replace(deps, caller=person), replace(deps, caller=other)
    assert "diary.txt" not in [each["path"] for each in await run(theirs, "group.files")]
    for name, more in (("group.read_file", {}), ("group.write_file", {"content": "x", "version": ""})):
        with pytest.raises(Refused, match="files"):
            await run(theirs, name, path="diary.txt", **more)
    with pytest.raises(Refused):
        await run(others, "group.give_file", path="new.txt", data=b"x")
    assert "diary.txt" in [each["path"] for each in await run(others, "group.files")]
    assert (await run(others, "group.read_file", path="diary.txt"))["text"].startswith("what")


async def test_files_of_a_group_inside_are_not_this_ones(deps: OperationDeps, home: Home) -> None:
    await OPERATIONS["group.add"](deps, {"folder": "acme/eng"})
    (home.group("acme/eng") / "secret.txt").write_text("x")
    assert not [each["path"] for each in await run(deps, "group.files") if each["path"].startswith("eng")]
    for name, more in (("group.read_file", {}), ("group.give_file", {"data": b"x"})):
        with pytest.raises(Invalid, match="a group of its own"):
            await run(deps, name, path="eng/secret.txt", **more)


async def test_links_second_names_and_what_is_no_file_are_refused(
    deps: OperationDeps, home: Home, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text("secret")
    skills = home.group("acme") / "skills"
    (skills / "link").symlink_to(outside / "secret")
    (skills / "folder").symlink_to(outside)
    os.link(outside / "secret", skills / "second")
    os.mkfifo(skills / "pipe")
    (skills / "large").write_bytes(b"x" * (group_files.LARGEST_FILE + 1))
    (skills / "binary").write_bytes(b"\xff\xfe")
    for name in ("link", "folder/secret", "folder/new", "second", "pipe", "large", "binary"):
        with pytest.raises(GatepostError):
            await run(deps, "group.read_file", path=f"skills/{name}")
        with pytest.raises(Invalid):
            await run(deps, "group.write_file", path=f"skills/{name}", content="mine", version="x")
    with pytest.raises(Invalid):
        await run(deps, "group.write_file", path="skills/folder/new", content="mine")
    assert sorted(os.listdir(outside)) == ["secret"] and (outside / "secret").read_text() == "secret"
    listed = [each["path"] for each in await run(deps, "group.files")]
    assert listed == ["AGENTS.md", "skills/binary", "skills/large", "skills/second", "work.md"]


@pytest.mark.slow
async def test_a_folder_of_skills_that_is_too_full_hides_nothing_else(deps: OperationDeps, home: Home) -> None:
    crowded = home.group("acme") / "skills" / "crowded"
    for number in range(group_files.MOST_ENTRIES + 10):
        (crowded / f"d{number}").mkdir(parents=True)
    assert [each["path"] for each in await run(deps, "group.files")] == ["AGENTS.md", "work.md"]


async def test_a_file_whose_name_is_no_text_hides_nothing_else(deps: OperationDeps, home: Home) -> None:
    odd = home.group("acme") / "skills" / os.fsdecode(b"\xff") / os.fsdecode(b"\xfe.md")
    odd.parent.mkdir()
    odd.write_text("x")
    found = msgspec.json.decode(msgspec.json.encode(await run(deps, "group.files")))
    assert [each["path"] for each in found] == ["AGENTS.md", "skills/\\xff/\\xfe.md", "work.md"]


async def test_a_group_that_is_called_skills_has_its_own_files_and_its_own_right(deps: OperationDeps) -> None:
    await OPERATIONS["group.add"](deps, {"folder": "acme/skills"})
    with pytest.raises(Invalid, match="a group of its own"):
        await run(deps, "group.read_file", path="skills/AGENTS.md")
    assert [each["path"] for each in await run(deps, "group.files")] == ["AGENTS.md", "work.md"]
    with pytest.raises(NotFound):
        await run(deps, "group.files", folder="acme/../acme")


async def test_who_has_no_right_in_the_group_reads_and_writes_nothing(deps: OperationDeps) -> None:
    person = replace(deps, caller="tg:user/9")
    for name, args in (
        ("group.files", {}),
        ("group.read_file", {"path": "AGENTS.md"}),
        ("group.write_file", {"path": "skills/x", "content": "x"}),
    ):
        with pytest.raises(Refused):
            await run(person, name, **args)


async def test_a_text_that_is_too_large_is_refused(deps: OperationDeps) -> None:
    with pytest.raises(Invalid, match="bytes; a file may have"):
        await run(deps, "group.write_file", path="skills/x", content="ü" * group_files.LARGEST_FILE)
