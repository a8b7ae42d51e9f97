"""Who gets which tool by default. A change of permission is a change of this table, and so seen in review."""

import json
from pathlib import Path

import pytest

from gatepost.access.tiers import Tier
from gatepost.core.registry import Registry, load_package
from gatepost.gate.dispatch import INVALID_PARAMS
from gatepost.store.sqlite_store import SqliteStore
from gatepost.testing.gate_agent import FOLDERS, GateAgent
from gatepost.tools.contract import TOOLS, Tool

load_package("gatepost.tools")

TABLE = {  # the deepest tier that has a tool
    Tier.WORKER: "reply send_file like edit get_work inspect_messages get_thread find_messages inspect_session"
    " log_external_cost set_title set_branch ask_user_question send_card",
    Tier.AGENT: "send post send_voice delete dislike forward quote repost pin_message unpin_message unpin_all"
    " pane_set_prompts pane_set_title fetch_history get_history inspect_routing inspect_identity refresh_groups"
    " set_work fork_topic list_sessions network_list network_request escalate_group send_to_agent observe_group"
    " unobserve_group engage disengage",
    Tier.WORLD: "register_group delegate_group write_skill set_group_open set_observe_window"
    " inject_message reset_session replay_session compare_replay read_session"
    " list_routes add_route set_routes delete_route list_acl"
    " invite_create issue_chat_link issue_webhook list_tokens revoke_token schedule_task update_task pause_task"
    " resume_task cancel_task list_tasks inspect_tasks"
    " set_web_route del_web_route list_web_routes get_web_host",
    Tier.ROOT: "network_allow network_deny set_web_host",
}


@pytest.mark.parametrize("tier", list(Tier))
async def test_a_caller_of_each_tier_sees_exactly_the_tools_of_the_table(
    tier: Tier, tmp_path: Path, store: SqliteStore
) -> None:
    own: Registry[Tool] = Registry("tool")
    for name, each in TOOLS.items():
        if TOOLS.origin(name).startswith("gatepost.tools."):  # not what another test has loaded from outside
            own.add(name, each, TOOLS.origin(name))
    agent = await GateAgent.create(tmp_path, store, FOLDERS[tier], tools=own)
    expected = {name for deepest, names in TABLE.items() if deepest >= tier for name in names.split()}
    expected -= {"escalate_group"} if tier is Tier.ROOT else set()  # nobody is above it

    assert {tool.name for tool in await agent.dispatch.visible_to(agent.caller)} == expected
    assert {each["name"] for each in json.loads(await agent.dispatch.listed_for(agent.caller))} == expected
    for name in set(own) - expected:
        answer = await agent.call(name)
        assert (answer.code, answer.text) == (INVALID_PARAMS, f"Unknown tool: {name}")
