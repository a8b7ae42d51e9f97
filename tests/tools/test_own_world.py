"""What an agent lists and changes with its tools ends at the edge of its own part of the tree."""

import json
from pathlib import Path

import pytest

from gatepost.access.grants import parse
from gatepost.core.registry import load_package
from gatepost.flow import sender_rights
from gatepost.gate.dispatch import INVALID_PARAMS
from gatepost.store.engine.sqlite_store import SqliteStore
from gatepost.store.port import Db
from gatepost.store.rights import acl
from gatepost.store.rights.acl import AclRow
from gatepost.store.sessions import groups
from gatepost_testing.gate_agent import GateAgent

load_package("gatepost.tools")


async def add_groups(store: SqliteStore, *folders: str) -> None:
    for folder in folders:
        await store.write(groups.add, folder, folder.rpartition("/")[2], "", 1)


@pytest.mark.parametrize("folder", ["acme", "acme/eng"])
async def test_nanoclaw_45_and_arizuko_d2_and_d13_an_agent_lists_and_changes_its_own_world_alone(
    tmp_path: Path, store: SqliteStore, folder: str
) -> None:
    agent = await GateAgent.create(tmp_path, store, folder)
    await add_groups(store, *({"acme", "acme/eng", "other", "other/x"} - {folder}))
    listed = json.loads((await agent.call("refresh_groups")).text)["groups"]
    assert [each["folder"] for each in listed] == ["acme", "acme/eng"]
    for tool, given in (
        ("set_group_open", {"folder": "other", "open": True}),
        ("set_observe_window", {"folder": "other/x", "messages": 3}),
        ("observe_group", {"source": "other"}),
        ("register_group", {"jid": "fake:room/9", "folder": "other/mine"}),
    ):
        answer = await agent.call(tool, **given)
        assert answer.text.startswith((f"{folder} may not {tool} on other", f"Unknown tool: {tool}"))
    assert await store.read(groups.list_observers, "other") == []
    assert await store.read(groups.get, "other/mine") is None


async def test_nanoclaw_45_an_agent_that_may_use_no_tool_is_refused_all(tmp_path: Path, store: SqliteStore) -> None:
    agent = await GateAgent.create(tmp_path, store, "acme", rules=(parse("!*"),))
    assert list(await agent.dispatch.visible_to(agent.caller)) == []
    answer = await agent.call("refresh_groups")
    assert answer.failed or answer.code == INVALID_PARAMS
    assert "groups" not in answer.text.partition("refresh_groups")[2]


@pytest.mark.parametrize("action", ["interact", "admin", "*"])
def test_arizuko_d1_a_row_for_everywhere_makes_nobody_an_owner(db: Db, action: str) -> None:
    groups.add(db, "acme", "Acme", "", 1)
    acl.put(db, AclRow(id=0, principal="fake:user/eve", action=action), 1)
    assert sender_rights.find_rights(db, "fake:user/eve", "acme") not in (None, "owner")
    assert sender_rights.find_rights(db, "fake:user/eve", "root") != "owner"
    assert [each for each in acl.list_members(db) if "eve" in str(each)] == []
