"""Versions of instructions: each is kept, compared and put back, and nothing that was changed meanwhile is lost."""

from typing import Any

import pytest

from gatepost.core.clock import SystemClock
from gatepost.core.errors import GatepostError, Invalid, NotFound
from gatepost.core.event_bus import EventBus
from gatepost.core.home import Home
from gatepost.core.settings import Config
from gatepost.flow import group_files
from gatepost.serve.control.contract import OPERATIONS, OperationDeps
from gatepost.store.engine.sqlite_store import SqliteStore
from gatepost.store.sessions import instructions


@pytest.fixture
async def deps(store: SqliteStore, home: Home) -> OperationDeps:
    made = OperationDeps(home=home, store=store, clock=SystemClock(), config=Config(), events=EventBus())
    await OPERATIONS["group.add"](made, {"folder": "acme"})
    return made


async def run(deps: OperationDeps, name: str, **args: Any) -> Any:
    return await OPERATIONS[name](deps, {"folder": "acme", **args})


async def list_texts(deps: OperationDeps) -> list[str]:
    found = await deps.store.read(instructions.list_for_group, "acme")
    return [each.text for each in found]


async def test_each_version_of_the_instructions_is_kept_and_put_back_and_that_is_undone(
    deps: OperationDeps, home: Home
) -> None:
    file = home.group("acme") / "AGENTS.md"
    first = await run(deps, "group.read_file", path="AGENTS.md")
    await run(deps, "group.write_file", path="AGENTS.md", content="one\n", version=first["version"])
    file.write_text("two, by the agent\n")
    read = await run(deps, "group.read_file", path="AGENTS.md")
    await run(deps, "group.write_file", path="AGENTS.md", content="three\n", version=read["version"])
    listed = await run(deps, "instructions.list")
    assert [each["source"] for each in listed] == ["written", "found", "written", "found"]
    assert [each["by_name"] for each in listed[:2]] == ["the operator", "somebody on the machine"]
    assert [each["is_current"] for each in listed] == [True, False, False, False]
    shown = await run(deps, "instructions.show", id=listed[2]["id"])
    assert (shown["changes"], shown["undo"]) == (["- three", "+ one"], None)

    done = await run(deps, "instructions.put_back", id=listed[2]["id"], version=shown["current"])
    assert (file.read_text(), done["undo"]) == ("one\n", listed[0]["id"])
    after = await run(deps, "instructions.show", id=listed[2]["id"])
    assert (after["entry"]["is_current"], after["undo"], after["changes"]) == (True, done["undo"], [])
    assert (await run(deps, "instructions.put_back", id=listed[2]["id"]))["undo"] is None
    undone = await run(deps, "instructions.put_back", id=done["undo"])
    assert (file.read_text(), undone["version"]) == ("three\n", read_version("three\n"))
    assert (await list_texts(deps))[:4] == ["three\n", "one\n", "three\n", "two, by the agent\n"]


def read_version(text: str) -> str:
    return group_files.make_version(text.encode())


async def test_a_version_is_not_put_back_over_what_was_changed_meanwhile(deps: OperationDeps, home: Home) -> None:
    file = home.group("acme") / "AGENTS.md"
    first = await run(deps, "group.read_file", path="AGENTS.md")
    await run(deps, "group.write_file", path="AGENTS.md", content="one\n", version=first["version"])
    old = (await run(deps, "instructions.list"))[1]["id"]
    shown = await run(deps, "instructions.show", id=old)
    file.write_text("meanwhile")
    with pytest.raises(Invalid, match="changed meanwhile"):
        await run(deps, "instructions.put_back", id=old, version=shown["current"])
    with pytest.raises(NotFound, match="instructions list"):
        await run(deps, "instructions.put_back", id=999)
    file.unlink()
    file.symlink_to("/etc/passwd")
    with pytest.raises(GatepostError):
        await run(deps, "instructions.put_back", id=old)
