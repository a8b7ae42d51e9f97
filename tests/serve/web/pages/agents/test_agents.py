"""The pages of managed agents, from what the operations answer."""

from typing import Any

from gatepost.serve.control.arguments.agents import AgentSnapshot
from gatepost.serve.web.dashboard.tables import make_facts, make_table
from gatepost.serve.web.dashboard.view import Link
from gatepost.serve.web.pages.agents.agents import AGENT, DETAILS, EMPTY, list_actions
from gatepost.store.sessions.sessions import SessionState

AT = "2026-01-01T00:00:00.000Z"


def make_answer(**more: Any) -> AgentSnapshot:
    given = {
        "agent_id": "s-1", "type": "claude", "folder": "home", "title": "Fix it", "cwd": "", "worktree": None,
        "setup_state": None, "status": SessionState.RUNNING, "model": "", "current_mode_id": "ask",
        "available_modes": [], "labels": {}, "parent_agent_id": None, "created_at": AT, "updated_at": AT,
        "archived_at": None, "last_error": None, "last_message": "done", "pending_permissions": [],
    }  # fmt: skip
    return AgentSnapshot(**{**given, **more})


def test_an_agent_is_shown_by_the_names_that_its_operation_answers_with() -> None:
    table = make_table([make_answer()], AGENT, EMPTY, actions=list_actions)
    assert table.rows[0].cells[1] == Link("Fix it", "/dashboard/agents/s-1")
    assert [each.label for each in table.rows[0].actions] == ["Stop", "Archive"]
    assert not list_actions(make_answer(archived_at=AT))
    facts = {each.label: each.value for each in make_facts(make_answer(), DETAILS).items}
    assert facts["Mode"] == "ask"


def test_a_file_names_its_columns_as_the_api_does() -> None:
    names = [each.name for each in make_table([], AGENT, EMPTY).columns]
    assert names == ["agentId", "title", "status", "type", "folder", "currentModeId", "updatedAt", "lastMessage"]
