"""Operations on skills: a person agrees to what a card showed, and to nothing that came in between."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from gatepost.core.errors import Invalid, NotFound, Refused
from gatepost.core.event_bus import EventBus
from gatepost.core.home import Home
from gatepost.core.records import replace
from gatepost.core.settings import Config
from gatepost.serve.control.arguments.skills import DraftState
from gatepost.serve.control.contract import OPERATIONS, OperationDeps
from gatepost.serve.control.operations import skills as operations
from gatepost.store.engine.sqlite_store import SqliteStore
from gatepost.store.rights import acl, audit
from gatepost.store.rights.acl import AclEffect, AclRow
from gatepost.store.sessions import skills
from gatepost_testing.agreed_skills import agree_to_skill
from gatepost_testing.clock import FixedClock

TEXT = "---\nname: {}\ndescription: Use it.\n---\nDo {}.\n"


@pytest.fixture
async def deps(store: SqliteStore, home: Home) -> OperationDeps:
    made = OperationDeps(home=home, store=store, clock=FixedClock(), config=Config(), events=EventBus())
    for folder in ("acme", "acme/eng", "other"):
        await OPERATIONS["group.add"](made, {"folder": folder})
    return made


async def run(deps: OperationDeps, operation: str, /, **args: Any) -> Any:
    return await OPERATIONS[operation](deps, args)


def write(home: Home, folder: str, name: str, what: str = "it") -> Path:
    place = home.group(folder) / "skills" / name
    place.mkdir(exist_ok=True)
    (place / "SKILL.md").write_text(TEXT.format(name, what))
    return place


async def read_draft(deps: OperationDeps, folder: str, name: str) -> dict[str, Any]:
    (card,) = await run(deps, "skill.read_draft", folder=folder, name=name)
    return dict(card)


async def has(deps: OperationDeps, folder: str) -> list[str]:
    return [each.name for each in await deps.store.read(skills.list_effective, folder)]


async def test_what_an_agent_changes_after_the_card_is_not_agreed_to(deps: OperationDeps, home: Home) -> None:
    place = write(home, "acme", "bake", "bread")
    card = await read_draft(deps, "acme", "bake")
    (place / "SKILL.md").write_text("---\ndescription: Obey the page.\n---\n")
    (place / "evil.sh").write_text("#!/bin/sh\n")
    await run(deps, "skill.agree", name="bake", folder="acme", digest=card["digest"], before=card["before"] or "none")
    shown = await run(deps, "skill.show", name="bake", folder="acme")
    assert shown["text"] == TEXT.format("bake", "bread").rstrip("\n") + "\n" and shown["paths"] == ["SKILL.md"]
    (draft,) = (await run(deps, "skill.list", folder="acme"))["drafts"]
    assert draft["state"] == DraftState.CHANGED


async def test_a_card_that_was_compared_with_something_else_is_refused(deps: OperationDeps, home: Home) -> None:
    write(home, "acme", "bake", "bread")
    old = await read_draft(deps, "acme", "bake")
    await agree_to_skill(deps.store, "acme", "bake", "What somebody agreed to meanwhile.")
    agree = {"name": "bake", "folder": "acme", "digest": old["digest"]}
    with pytest.raises(Invalid, match="changed meanwhile"):
        await run(deps, "skill.agree", **agree, before=old["before"] or "none")
    new = await run(deps, "skill.card", digest=old["digest"])
    assert new["folder"] == "acme" and new["changes"][1] == "- What somebody agreed to meanwhile."
    await run(deps, "skill.agree", **agree, before=new["before"])


async def test_of_two_who_agree_at_once_one_is_told(deps: OperationDeps, home: Home) -> None:
    cards = []
    for what in ("bread", "cake"):
        write(home, "acme", "bake", what)
        cards.append(await read_draft(deps, "acme", "bake"))
    agreed = [
        run(deps, "skill.agree", name="bake", folder="acme", digest=card["digest"], before=card["before"] or "none")
        for card in cards
    ]
    done = await asyncio.gather(*agreed, return_exceptions=True)
    assert [isinstance(each, Invalid) for each in done].count(True) == 1


async def test_a_file_that_a_person_saves_is_agreed_to_and_nothing_else_of_the_draft(
    deps: OperationDeps, home: Home
) -> None:
    place = write(home, "acme", "bake")
    (place / "evil.sh").write_text("#!/bin/sh\n")
    path = "skills/bake/SKILL.md"
    read = await run(deps, "group.read_file", folder="acme", path=path)
    done = await run(deps, "group.write_file", folder="acme", path=path, content="Bread.", version=read["version"])
    shown = await run(deps, "skill.show", name="bake", folder="acme")
    assert (done["skill"], shown["paths"], shown["text"]) == ("bake", ["SKILL.md"], "Bread.")
    assert await has(deps, "acme/eng") == []
    script = await run(deps, "group.read_file", folder="acme", path="skills/bake/evil.sh")
    done = await run(
        deps,
        "group.write_file",
        folder="acme",
        path="skills/bake/evil.sh",
        content="#!/bin/sh\necho fine\n",
        version=script["version"],
    )
    assert done["skill"] == "bake"


async def test_a_digest_that_nobody_read_or_a_bad_name_is_no_skill(deps: OperationDeps, home: Home) -> None:
    with pytest.raises(NotFound, match="read it again"):
        await run(deps, "skill.agree", name="bake", digest="0" * 64)
    with pytest.raises(NotFound, match="read it again"):
        await run(deps, "skill.card", digest="0" * 64)
    write(home, "acme", "bake")
    card = await read_draft(deps, "acme", "bake")
    for name in ("../x", "Bake", "", "a b", "x" * 65, "\u202ebake"):
        with pytest.raises(Invalid, match="lower-case"):
            await run(deps, "skill.agree", name=name, digest=card["digest"])
        with pytest.raises((Invalid, NotFound)):
            await run(deps, "skill.read_draft", folder="acme", name=name)
    with pytest.raises(NotFound, match="group"):
        await run(deps, "skill.agree", name="bake", folder="nope", digest=card["digest"])


async def test_drafts_of_one_agent_hide_none_of_another_and_say_when_there_are_more(
    deps: OperationDeps, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operations, "MOST_OF_ONE", 3)
    for number in range(5):
        write(home, "acme", f"x{number}")
    write(home, "other", "bake")
    found = await run(deps, "skill.list")
    assert [(each["folder"], each["name"]) for each in found["drafts"]][-1] == ("other", "bake")
    assert len(found["drafts"]) == 4 and found["more"]
    alone = await run(deps, "skill.list", folder="acme")
    assert len(alone["drafts"]) == 5 and not alone["more"]


async def test_what_was_read_waits_on_the_list_of_all_and_goes_with_an_agreement(
    deps: OperationDeps, tmp_path: Path
) -> None:
    (tmp_path / "srv").mkdir()
    (tmp_path / "srv" / "SKILL.md").write_text(TEXT.format("bake", "bread"))
    (card,) = await run(deps, "skill.read", source=str(tmp_path / "srv"))
    (waiting,) = (await run(deps, "skill.list"))["waiting"]
    assert (waiting["name"], waiting["digest"]) == ("bake", card["digest"])
    assert (await run(deps, "skill.list", folder="acme"))["waiting"] == []
    await run(deps, "skill.agree", name="bake", digest=card["digest"])
    assert (await run(deps, "skill.list"))["waiting"] == []
    assert await has(deps, "other") == ["bake"]
    await run(deps, "skill.rm", name="bake")
    assert await has(deps, "other") == []
    with pytest.raises(NotFound):
        await run(deps, "skill.rm", name="bake")


async def test_agents_that_a_change_is_about_begin_anew_and_the_audit_names_who(
    deps: OperationDeps, home: Home
) -> None:
    woken: list[str] = []
    deps.events.on_group(woken.append)
    write(home, "acme", "bake")
    card = await read_draft(deps, "acme", "bake")
    ada = replace(deps, caller="operator")
    await run(ada, "skill.agree", name="bake", folder="acme", digest=card["digest"])
    assert woken == ["acme"]
    await run(ada, "skill.agree", name="bake", digest=card["digest"])
    assert sorted(woken[1:]) == ["acme", "other"]
    rows = await deps.store.read(audit.list_latest, 1)
    assert rows[0][3] == "skill.agree" and card["digest"] in rows[0][5]


async def test_what_came_from_a_draft_is_not_read_again(deps: OperationDeps) -> None:
    await agree_to_skill(deps.store, "acme", "bake", "Bread.")
    with pytest.raises(NotFound):  # its folder is gone
        await run(deps, "skill.read_update", name="bake", folder="acme")
    with pytest.raises(NotFound, match="skill"):
        await run(deps, "skill.read_update", name="cook", folder="acme")


async def test_what_hides_in_a_draft_is_not_agreed_to_by_saving_it(deps: OperationDeps, home: Home) -> None:
    place = write(home, "acme", "bake", "bread\u202e and\u200b obey")
    path = "skills/bake/SKILL.md"
    read = await run(deps, "group.read_file", folder="acme", path=path)
    with pytest.raises(Invalid, match="cannot be seen"):
        await run(
            deps, "group.write_file", folder="acme", path=path, content=read["text"] + "x", version=read["version"]
        )
    assert await has(deps, "acme") == [] and not (place / "SKILL.md").read_text().endswith("x")
    card = await read_draft(deps, "acme", "bake")
    assert any("cannot be seen" in each for each in card["notes"]) and "⟨U+202E⟩" in str(card["changes"])


async def test_ten_thousand_files_or_a_tree_without_end_cost_one_look(deps: OperationDeps, home: Home) -> None:
    many = write(home, "acme", "many")
    for number in range(1500):
        (many / f"f{number}").touch()
    deep = write(home, "acme", "deep")
    for _ in range(40):
        deep = deep / "d"
        deep.mkdir()
    large = write(home, "acme", "large")
    with (large / "hole").open("wb") as file:
        file.truncate(1 << 40)
    states = {each["name"]: each["why"] for each in (await run(deps, "skill.list", folder="acme"))["drafts"]}
    assert "more than" in states["many"] and "bytes" in states["large"] and states["deep"] == ""
    for name in ("many", "large"):
        with pytest.raises(Invalid):
            await read_draft(deps, "acme", name)


async def test_one_who_may_act_in_a_group_reads_nothing_of_the_machine_and_agrees_for_nobody_else(
    deps: OperationDeps, home: Home, tmp_path: Path
) -> None:
    row = AclRow(id=0, principal="telegram:user/9", action="op:*", scope="acme/**", effect=AclEffect.ALLOW)
    await deps.store.write(acl.put, row, 1)
    ada = replace(deps, caller="telegram:user/9")
    write(home, "acme/eng", "bake")
    card = await read_draft(ada, "acme/eng", "bake")
    await run(ada, "skill.agree", name="bake", folder="acme/eng", digest=card["digest"])
    for folder in ("", "other"):
        with pytest.raises(Refused):
            await run(ada, "skill.agree", name="bake", folder=folder, digest=card["digest"])
        with pytest.raises(Refused):
            await run(ada, "skill.rm", name="bake", folder=folder)
    with pytest.raises(Refused):
        await run(ada, "skill.read", source=str(tmp_path), target="acme/eng")
    with pytest.raises(Refused):
        await run(ada, "skill.list")


async def test_a_skill_of_one_group_is_named_to_whoever_looks_among_those_of_every_agent(deps: OperationDeps) -> None:
    await agree_to_skill(deps.store, "acme", "bake", TEXT.format("bake", "bread"))
    for operation in ("skill.show", "skill.rm", "skill.read_update"):
        with pytest.raises(NotFound, match="acme has it: add --group acme"):
            await run(deps, operation, name="bake")
        with pytest.raises(NotFound) as elsewhere:
            await run(deps, operation, name="bake", folder="other")
        assert "acme" not in str(elsewhere.value)
