"""Who gets which tool by default. A change of permission is a change of this table, and so seen in review."""

import json
from pathlib import Path

import pytest

from gatepost.access.subjects import Subject
from gatepost.access.tiers import Tier
from gatepost.core.registry import Registry, load_package
from gatepost.core.settings import Config
from gatepost.flow.schedule.task_rights import EFFECTS
from gatepost.gate.dispatch import INVALID_PARAMS
from gatepost.store.engine.sqlite_store import SqliteStore
from gatepost.tools.contract import TOOLS, Tool
from gatepost_testing.gate_agent import FOLDERS, GateAgent

load_package("gatepost.tools")

TABLE = {  # the deepest tier that has a tool
    Tier.WORKER: "reply send_file like edit get_work inspect_messages get_thread find_messages inspect_session"
    " log_external_cost set_title set_branch ask_user_question send_card schedule_task update_task pause_task"
    " resume_task cancel_task list_tasks inspect_tasks remember recall forget keep_facts find_tools call_tool fetch"
    " search_web",
    Tier.AGENT: "send post send_voice delete dislike forward quote repost pin_message unpin_message unpin_all"
    " pane_set_prompts pane_set_title fetch_history get_history inspect_routing inspect_identity refresh_groups"
    " set_work fork_topic list_sessions network_list network_request escalate_group send_to_agent observe_group"
    " unobserve_group engage disengage",
    Tier.WORLD: "register_group delegate_group write_skill set_group_open set_observe_window"
    " inject_message reset_session replay_session compare_replay read_session"
    " list_routes add_route set_routes delete_route list_acl"
    " invite_create issue_chat_link issue_webhook list_tokens revoke_token"
    " set_web_route del_web_route list_web_routes get_web_host",
    Tier.ROOT: "network_allow network_deny set_web_host",
}

SUBJECTS = {  # what tools do outside; those that are in no row read, or change their own session alone
    Subject.SPEAK: "send reply post send_file send_voice send_card ask_user_question edit delete like dislike forward"
    " quote repost pin_message unpin_message unpin_all pane_set_prompts pane_set_title"
    " schedule_task update_task inject_message"  # the turn that they begin answers in its room
    " delegate_group escalate_group send_to_agent",  # the same, with the result
    Subject.HAND_OUT: "send_file post forward send_to_agent",
    Subject.PUBLISH: "post quote repost issue_chat_link issue_webhook set_web_route del_web_route set_web_host",
    Subject.INSTRUCT: "delegate_group escalate_group send_to_agent write_skill inject_message replay_session"
    " register_group",  # a prototype has words for the new agent
    Subject.CHANGE_RIGHTS: "register_group set_group_open set_observe_window observe_group unobserve_group add_route"
    " set_routes delete_route invite_create issue_chat_link issue_webhook revoke_token set_web_host network_allow"
    " network_deny",
    Subject.REACH: "fetch search_web",
    Subject.SPEND: "send_voice search_web log_external_cost",
    Subject.SCHEDULE: "schedule_task update_task pause_task resume_task cancel_task",
    Subject.ERASE: "delete reset_session cancel_task delete_route revoke_token del_web_route"
    " fork_topic",  # by force it takes the place of what people said in a topic
}
OWN_SESSION = (
    "fetch_history set_work engage disengage network_request set_title set_branch"
    " remember forget keep_facts"
    " call_tool"  # what it does is done by the tool that it calls
)


@pytest.mark.parametrize("subject", list(Subject))
def test_each_subject_has_exactly_the_tools_of_the_table(subject: Subject) -> None:
    found = {name for name in _list_own() if subject in TOOLS[name].effects.subjects}
    assert found == set(SUBJECTS[subject].split())


def test_a_tool_without_a_subject_reads_or_changes_its_own_session_alone() -> None:
    others = {name for name in _list_own() if not TOOLS[name].effects.subjects and not TOOLS[name].read_only}
    assert others == set(OWN_SESSION.split())


def test_what_a_tasks_text_and_its_making_are_judged_by_is_what_these_tools_declare() -> None:
    assert {name: TOOLS[name].effects for name in EFFECTS} == EFFECTS


def _list_own() -> list[str]:
    """Not what another test has loaded from outside."""
    return [name for name in TOOLS if TOOLS.origin(name).startswith("gatepost.tools.")]


@pytest.mark.parametrize("tier", list(Tier))
async def test_a_caller_of_each_tier_sees_exactly_the_tools_of_the_table(
    tier: Tier, tmp_path: Path, store: SqliteStore
) -> None:
    own: Registry[Tool] = Registry("tool")
    for name in _list_own():
        own.add(name, TOOLS[name], TOOLS.origin(name))
    agent = await GateAgent.create(tmp_path, store, FOLDERS[tier], tools=own)
    expected = {name for deepest, names in TABLE.items() if deepest >= tier for name in names.split()}
    expected -= {"search_web"}  # no service is set
    expected -= {"escalate_group"} if tier is Tier.ROOT else set()  # nobody is above it

    assert {tool.name for tool in await agent.dispatch.visible_to(agent.caller)} == expected
    assert {each["name"] for each in json.loads(await agent.dispatch.listed_for(agent.caller))} == expected
    for name in set(own) - expected:
        answer = await agent.call(name)
        assert (answer.code, answer.text) == (INVALID_PARAMS, f"Unknown tool: {name}")


async def test_a_search_is_offered_where_a_service_is_set(tmp_path: Path, store: SqliteStore) -> None:
    config = Config({"search.service": "searxng", "search.url": "http://localhost:1"})
    agent = await GateAgent.create(tmp_path, store, "acme/eng", config=config)
    assert "search_web" in {tool.name for tool in await agent.dispatch.visible_to(agent.caller)}
