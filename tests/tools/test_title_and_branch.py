"""What an agent calls itself, through the gate. Branches are seen with real git in tests/serve/agents."""

import json
from pathlib import Path

import pytest

from gatepost.core.records import replace
from gatepost.core.registry import load_package
from gatepost.store.engine.sqlite_store import SqliteStore
from gatepost.store.rights import audit
from gatepost.store.sessions import sessions
from gatepost_testing.gate_agent import GateAgent

load_package("gatepost.tools")


@pytest.fixture
async def agent(tmp_path: Path, store: SqliteStore) -> GateAgent:
    return await GateAgent.create(tmp_path / "home", store, "acme/eng/sre")


@pytest.mark.parametrize("folder", ["acme", "acme/eng", "acme/eng/sre"])
async def test_every_agent_has_them_whatever_its_depth(tmp_path: Path, store: SqliteStore, folder: str) -> None:
    agent = await GateAgent.create(tmp_path / "home", store, folder)
    assert {"set_title", "set_branch"} <= {each.name for each in await agent.dispatch.visible_to(agent.caller)}


async def test_a_title_is_trimmed_kept_and_written_down(agent: GateAgent) -> None:
    answer = await agent.call("set_title", title="  Mend\n the   login ")
    assert json.loads(answer.text) == {"success": True, "title": "Mend the login"}
    found = await agent.store.read(sessions.get, agent.session.id)
    assert found is not None and found.title == "Mend the login"
    assert any("set_title" in str(row) for row in await agent.store.read(audit.list_latest, 5))


@pytest.mark.parametrize(("title", "said"), [("x" * 61, "1 to 60"), (" \n ", "NOT_ALLOWED"), ("\x07", "NOT_ALLOWED")])
async def test_a_title_that_is_none_is_refused(agent: GateAgent, title: str, said: str) -> None:
    answer = await agent.call("set_title", title=title)
    assert answer.failed and said in answer.text
    found = await agent.store.read(sessions.get, agent.session.id)
    assert found is not None and found.title == ""


@pytest.mark.parametrize("name", ["set_title", "set_branch"])
async def test_who_is_no_session_has_nothing_to_name(agent: GateAgent, name: str) -> None:
    operator = replace(agent, caller=replace(agent.caller, session_id=None, running=None))
    argument = {"title": "x"} if name == "set_title" else {"name": "x"}
    answer = await operator.call(name, **argument)
    assert answer.failed and "NOT_ALLOWED" in answer.text


async def test_where_no_sandbox_runs_no_branch_is_named(agent: GateAgent) -> None:
    answer = await agent.call("set_branch", name="fix")
    assert answer.failed and "no sandbox runs here" in answer.text
