"""Rules and rows from the store, at the gate: they hold at once, and older names obey the same ones."""

import json
from pathlib import Path
from typing import Any

from gatepost.core.registry import load_package
from gatepost.flow import grant_changes
from gatepost.gate.call_explanation import explain
from gatepost.gate.dispatch import INVALID_PARAMS
from gatepost.gate.policies import Policies
from gatepost.store.engine.sqlite_store import SqliteStore
from gatepost.store.rights import acl, audit
from gatepost.store.rights.acl import AclEffect, AclRow
from gatepost.store.sessions import groups, sessions
from gatepost.tools.contract import TOOLS
from gatepost_testing.gate_agent import ROOM, GateAgent

load_package("gatepost.tools")
NOW = 1_000_000


async def seen(agent: GateAgent) -> set[str]:
    return {each["name"] for each in json.loads(await agent.dispatch.listed_for(agent.caller))}


async def test_a_rule_holds_from_the_next_call_on_and_so_does_its_end(tmp_path: Path, store: SqliteStore) -> None:
    agent = await GateAgent.create(tmp_path, store, "acme/eng")
    assert "send" in await seen(agent)

    await store.write(grant_changes.add_rule, "acme/eng", "!send", "operator", NOW)
    agent.deps.events.tools(None)
    assert "send" not in await seen(agent)
    assert (await agent.call("send", text="hi")).code == INVALID_PARAMS

    await store.write(acl.remove_rule, "acme/eng", "!send")
    agent.deps.events.tools(None)
    assert "send" in await seen(agent)
    assert not (await agent.call("send", text="hi")).failed


async def test_a_rule_about_rooms_refuses_that_room_alone_and_stands_in_the_description(
    tmp_path: Path, store: SqliteStore
) -> None:
    agent = await GateAgent.create(tmp_path, store, "acme/eng")
    await store.write(groups.add, "acme", "acme", "scripted", NOW)
    await store.write(grant_changes.add_rule, "acme", f"!send(jid={ROOM})", "operator", NOW)
    agent.deps.events.tools(None)

    answer = await agent.call("send", text="hi")
    assert answer.failed and "a rule of this gateway forbids it" in answer.text
    told = {each["name"]: each["description"] for each in json.loads(await agent.dispatch.listed_for(agent.caller))}
    assert f"!send(jid={ROOM})" in told["send"]
    assert (await agent.audited())[-1:] == []  # a denial is written behind …
    await agent.dispatch.audit.flush()
    assert (await agent.audited())[-1] == ("send", "refused")  # … and it is written


async def test_a_predicate_knows_the_platform_the_room_and_the_person_of_the_turn(
    tmp_path: Path, store: SqliteStore
) -> None:
    agent = await GateAgent.create(tmp_path, store, "acme/eng")
    for predicate in ("platform=fake", f"room={ROOM}", "user=fake:user/1"):
        row = AclRow(id=0, principal="folder:acme/eng", action="mcp:send", effect=AclEffect.DENY, predicate=predicate)
        made = await store.write(grant_changes.add_row, row, NOW)
        agent.deps.events.tools(None)
        assert (await agent.call("send", text="hi")).failed, predicate
        await store.write(acl.remove, made.id)
    agent.deps.events.tools(None)
    assert not (await agent.call("send", text="hi")).failed


async def test_an_older_name_is_hidden_and_does_what_it_did_with_its_own_parameters(
    tmp_path: Path, store: SqliteStore
) -> None:
    agent = await GateAgent.create(tmp_path, store, "acme/eng")
    assert "send_message" not in await seen(agent)

    answer = await agent.call("send_message", jid=ROOM, message="hello")
    assert not answer.failed, answer.text
    assert agent.woken[-1] == ("fake", ROOM)
    rows = await store.read(audit.list_latest, 1)
    assert rows[0][3] == "send"


async def test_an_older_name_obeys_the_tools_own_permission(tmp_path: Path, store: SqliteStore) -> None:
    worker = await GateAgent.create(tmp_path, store, "acme/eng/sre")
    answer = await worker.call("send_message", jid=ROOM, message="hello")
    assert (answer.code, answer.text) == (INVALID_PARAMS, "Unknown tool: send_message")


async def test_a_list_can_be_cut_to_subjects_and_what_is_cut_cannot_be_called(
    tmp_path: Path, store: SqliteStore
) -> None:
    agent = await GateAgent.create(tmp_path, store, "acme/eng")
    await store.write(groups.update, "acme/eng", {"options": {"tool_groups": "sessions, cost"}})
    agent.deps.events.group("acme/eng")

    assert {"get_work", "log_external_cost"} <= await seen(agent)
    assert "send" not in await seen(agent)
    assert (await agent.call("send", text="hi")).code == INVALID_PARAMS


async def refused(agent: GateAgent, tool: str, **arguments: Any) -> bool:
    answer = await agent.call(tool, **arguments)
    return answer.failed or bool(answer.code)


async def a_world(path: Path, store: SqliteStore, *rules: str, rows: tuple[AclRow, ...] = ()) -> GateAgent:
    agent = await GateAgent.create(path, store, "acme")
    for folder in ("acme/eng", "acme/hr", "beta", "beta/secret"):
        await store.write(groups.add, folder, folder, "scripted", NOW)
    for rule in rules:
        await store.write(grant_changes.add_rule, "acme", rule, "operator", NOW)
    for row in rows:
        await store.write(grant_changes.add_row, row, NOW)
    agent.deps.events.tools(None)
    return agent


def deny(principal: str, action: str, scope: str = "**") -> AclRow:
    return AclRow(id=0, principal=principal, action=action, scope=scope, effect=AclEffect.DENY)


async def test_a_rule_sees_every_kind_of_value_and_a_default_is_not_said(tmp_path: Path, store: SqliteStore) -> None:
    agent = await a_world(
        tmp_path, store, "!set_group_open(open=true)", "!list_sessions(limit)", "!post", "post(!media)"
    )
    assert await refused(agent, "set_group_open", open=True)
    assert not await refused(agent, "set_group_open", open=False)
    assert await refused(agent, "list_sessions", limit=5)
    assert not await refused(agent, "list_sessions")
    (agent.deps.home.group("acme") / "f.txt").write_text("x")
    assert await refused(agent, "post", content="x", media=["f.txt"])


async def test_a_denial_is_not_evaded_by_a_comma(tmp_path: Path, store: SqliteStore) -> None:
    agent = await a_world(tmp_path, store, "!inject_message(content=*deploy*)")
    assert await refused(agent, "inject_message", content="deploy, now (quickly)")
    assert not await refused(agent, "inject_message", content="rest")


async def test_every_group_that_a_call_is_about_is_judged(tmp_path: Path, store: SqliteStore) -> None:
    agent = await a_world(tmp_path, store, rows=(deny("folder:acme", "mcp:set_routes", "acme/hr"),))
    assert await refused(agent, "set_routes", routes=[{"target": "acme/hr"}, {"target": "acme/eng"}])
    assert not await refused(agent, "set_routes", routes=[{"target": "acme/eng"}])


async def test_a_person_who_is_denied_something_cannot_have_an_agent_do_it(tmp_path: Path, store: SqliteStore) -> None:
    agent = await a_world(tmp_path, store, rows=(deny("fake:user/1", "mcp:send"),))
    assert await refused(agent, "send", text="hi")
    assert not await refused(agent, "reply", text="hi")


async def test_a_denial_about_a_group_also_hides_its_conversations(tmp_path: Path, store: SqliteStore) -> None:
    agent = await a_world(
        tmp_path,
        store,
        rows=(deny("folder:acme", "mcp:read_session", "acme/hr"), deny("folder:acme", "mcp:send", "acme/hr")),
    )
    below = await store.write(sessions.find_or_add, "per-thread", "acme/hr", "fake", "fake:room/7", "", NOW)
    assert await refused(agent, "read_session", sessionId=below.id)
    assert await refused(agent, "send", text="hi", chatJid="fake:room/7")
    assert not await refused(agent, "read_session", sessionId=agent.session.id)


async def test_rows_about_other_worlds_are_told_to_nobody(tmp_path: Path, store: SqliteStore) -> None:
    agent = await a_world(tmp_path, store, rows=(deny("fake:group/beta-board", "mcp:send_file", "beta/secret"),))
    assert "beta" not in (await agent.dispatch.listed_for(agent.caller)).decode()


async def test_the_explanation_and_the_gate_agree(tmp_path: Path, store: SqliteStore) -> None:
    forbidden = ("!list_sessions(limit)", "!read_session(level=messages)")
    agent = await a_world(tmp_path, store, *forbidden, rows=(deny(ROOM, "mcp:send"),))
    policy = await Policies(store, agent.deps.events, agent.deps.config)("acme")
    for name, arguments in (
        ("list_sessions", {}),
        ("list_sessions", {"limit": 5}),
        ("send", {"text": "x", "chatJid": ROOM}),
        ("reply", {"text": "x", "chatJid": ROOM}),
        ("read_session", {"sessionId": agent.session.id}),
        ("read_session", {"sessionId": agent.session.id, "level": "timeline"}),
    ):
        allowed, _ = explain(TOOLS[name], policy, arguments)
        assert allowed is not await refused(agent, name, **arguments), (name, arguments)


def allow(principal: str, action: str, scope: str, params: str = "") -> AclRow:
    return AclRow(id=0, principal=principal, action=action, scope=scope, params=params)


async def a_manager(path: Path, store: SqliteStore, *rows: AclRow) -> tuple[GateAgent, dict[str, str]]:
    """A group beside others of its world, and a conversation of each of those."""
    agent = await GateAgent.create(path, store, "acme/manager")
    found: dict[str, str] = {}
    for folder in ("acme", "acme/eng", "acme/eng/sre", "acme/hr", "beta/eng"):
        await store.write(groups.add, folder, folder, "scripted", NOW)
        room = f"fake:room/{folder}"
        found[folder] = (await store.write(sessions.find_or_add, "per-thread", folder, "fake", room, "", NOW)).id
    for row in rows:
        await store.write(grant_changes.add_row, row, NOW)
    agent.deps.events.tools(None)
    return agent, found


async def listed(agent: GateAgent) -> set[str]:
    answer = json.loads((await agent.call("list_sessions")).structured or b"{}")
    return {each["folder"] for each in answer["sessions"]}


async def test_a_row_lets_a_manager_read_messages_of_other_groups_and_no_timeline(
    tmp_path: Path, store: SqliteStore
) -> None:
    manager = "folder:acme/manager"
    rows = (
        allow(manager, "mcp:list_sessions", "acme/eng/**"),
        allow(manager, "mcp:read_session", "acme/eng/**", "level=messages"),
    )
    agent, of = await a_manager(tmp_path, store, *rows)

    assert await listed(agent) == {"acme/manager", "acme/eng", "acme/eng/sre"}
    assert not await refused(agent, "read_session", sessionId=of["acme/eng/sre"])
    assert not await refused(agent, "read_session", sessionId=of["acme/eng"], level="messages")
    assert await refused(agent, "read_session", sessionId=of["acme/eng"], level="timeline")
    assert await refused(agent, "read_session", sessionId=agent.session.id)  # its tier does not give its own
    for folder in ("acme", "acme/hr", "beta/eng"):
        assert "no session named" in (await agent.call("read_session", sessionId=of[folder])).text


async def test_a_row_lets_a_supervisor_read_timelines_and_a_denial_takes_a_part_back(
    tmp_path: Path, store: SqliteStore
) -> None:
    agent, of = await a_manager(
        tmp_path,
        store,
        allow("folder:acme/manager", "mcp:read_session", "acme/**"),
        deny("folder:acme/manager", "mcp:read_session", "acme/hr"),
    )
    for level in ("messages", "timeline"):
        assert not await refused(agent, "read_session", sessionId=of["acme/eng"], level=level)
        assert not await refused(agent, "read_session", sessionId=of["acme"], level=level)
        assert await refused(agent, "read_session", sessionId=of["acme/hr"], level=level)
    assert await listed(agent) == {"acme/manager"}  # a tool of its own, with a row of its own


async def test_no_row_reaches_another_world_and_only_one_that_names_the_tool_reaches_beside(
    tmp_path: Path, store: SqliteStore
) -> None:
    manager = "folder:acme/manager"
    rows = (
        allow(manager, "mcp:list_sessions", "beta/**"),
        allow(manager, "mcp:*", "**"),
        allow(manager, "mcp:send", "acme/eng"),
    )
    agent, of = await a_manager(tmp_path, store, *rows)
    assert await listed(agent) == {"acme/manager"}
    assert await refused(agent, "read_session", sessionId=of["acme/eng"])
    assert await refused(agent, "read_session", sessionId=of["beta/eng"])
    assert await refused(agent, "send", text="hi", chatJid="fake:room/acme/eng")


async def test_a_person_who_is_denied_a_group_does_not_read_it_through_a_manager(
    tmp_path: Path, store: SqliteStore
) -> None:
    agent, of = await a_manager(
        tmp_path,
        store,
        allow("folder:acme/manager", "mcp:read_session", "acme/**"),
        deny("fake:user/1", "mcp:read_session", "acme/eng"),
    )
    assert await refused(agent, "read_session", sessionId=of["acme/eng"])
    assert not await refused(agent, "read_session", sessionId=of["acme/hr"])


async def test_a_rule_about_the_usual_level_holds_for_a_call_that_names_none(
    tmp_path: Path, store: SqliteStore
) -> None:
    agent = await a_world(tmp_path, store, "!read_session(level=messages)")
    assert await refused(agent, "read_session", sessionId=agent.session.id)
    assert not await refused(agent, "read_session", sessionId=agent.session.id, level="timeline")
