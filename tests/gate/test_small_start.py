"""A turn starts with a dozen tools: what is offered is less than what may be called, and call_tool is no way around."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import msgspec
import pytest
from msgspec import Meta

from gatepost.access.grants import parse
from gatepost.access.policy import AccessRules, GroupPolicy
from gatepost.access.tiers import Tier
from gatepost.core.errors import Unavailable
from gatepost.core.records import replace
from gatepost.core.registry import Registry, load_package
from gatepost.core.settings import Config
from gatepost.flow import grant_changes
from gatepost.flow.requests.held_calls import HeldCalls
from gatepost.gate.call_explanation import explain
from gatepost.gate.dispatch import INVALID_PARAMS, Dispatch
from gatepost.gate.mcp_protocol import McpProtocol
from gatepost.gate.policies import TOOL_GROUPS
from gatepost.gate.tool_list import shorten_schema
from gatepost.gate.unlocked_tools import MOST_UNLOCKED, UnlockedTools
from gatepost.store.engine.sqlite_store import SqliteStore
from gatepost.store.rights import audit, waiting_requests
from gatepost.store.sessions import groups, sessions
from gatepost.tools.call import Caller, ToolCall
from gatepost.tools.contract import TOOLS, Tool, tool
from gatepost_testing.gate_agent import GateAgent

load_package("gatepost.tools")

CORE = {
    *("reply", "send", "send_file", "ask_user_question", "schedule_task", "list_tasks", "cancel_task"),
    *("find_messages", "remember", "recall", "find_tools", "call_tool", "fetch"),
}
LARGEST_LIST = 10_000  # bytes of what a session of a world begins with; the whole list has 92,000


async def offer(agent: GateAgent, changed: list[int] | None = None) -> Caller:
    """The agent as its own session calls, with a list of its own."""
    session = await agent.store.read(sessions.get, agent.session.id)
    assert session is not None
    told = changed if changed is not None else []
    unlocked = UnlockedTools(agent.store, session, lambda: told.append(1))
    agent.caller = replace_caller(agent.caller, unlocked)
    return agent.caller


def replace_caller(caller: Caller, unlocked: UnlockedTools | None, **more: Any) -> Caller:
    return Caller(caller.folder, caller.session_id, caller.provider, offered=unlocked, **more)


async def list_names(agent: GateAgent) -> list[str]:
    return [each["name"] for each in json.loads(await agent.dispatch.listed_for(agent.caller))]


async def use(agent: GateAgent, tool: str, arguments: object) -> Any:
    return await agent.call("call_tool", name=tool, arguments=arguments)


@asynccontextmanager
async def writing_behind(dispatch: Dispatch) -> AsyncIterator[None]:
    task = asyncio.create_task(dispatch.run())
    await asyncio.sleep(0)
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def test_a_session_starts_with_the_core_and_an_operator_sees_all(tmp_path: Path, store: SqliteStore) -> None:
    agent = await GateAgent.create(tmp_path, store, "acme")
    whole = await list_names(agent)
    await offer(agent)
    assert set(await list_names(agent)) == CORE
    assert {"pin_message", "add_route"} < set(whole) and set(whole) > CORE


async def test_the_list_of_a_session_keeps_within_its_bytes(tmp_path: Path, store: SqliteStore) -> None:
    agent = await GateAgent.create(tmp_path, store, "acme")
    await offer(agent)
    listed = await agent.dispatch.listed_for(agent.caller)
    assert len(listed) <= LARGEST_LIST
    assert not [each["name"] for each in json.loads(listed) if "outputSchema" in each]


async def test_a_tool_that_is_not_listed_is_called_by_its_name_and_its_older_ones(
    tmp_path: Path, store: SqliteStore
) -> None:
    agent = await GateAgent.create(tmp_path, store)
    await offer(agent)
    assert not (await agent.call("inspect_messages")).failed
    assert not (await agent.call("get_groups")).failed


async def test_what_was_found_joins_the_list_and_stays_after_a_restart(tmp_path: Path, store: SqliteStore) -> None:
    agent = await GateAgent.create(tmp_path, store)
    told: list[int] = []
    await offer(agent, told)
    found = await agent.call("find_tools", query="pin a message")
    assert "pin_message" in [each["name"] for each in json.loads(found.text)["tools"]]
    assert "pin_message" in await list_names(agent)
    assert told == [1]

    await agent.call("find_tools", query="pin a message")
    assert told == [1], "nothing is new"
    await offer(agent)
    assert "pin_message" in await list_names(agent)


async def test_a_new_conversation_starts_small_again(tmp_path: Path, store: SqliteStore) -> None:
    agent = await GateAgent.create(tmp_path, store)
    await offer(agent)
    await agent.call("find_tools", query="pin a message")
    await store.write(sessions.remove_conversations, agent.session.id, agent.deps.clock.now())
    await offer(agent)
    assert "pin_message" not in await list_names(agent)


async def test_the_list_of_a_session_is_bounded(tmp_path: Path, store: SqliteStore) -> None:
    agent = await GateAgent.create(tmp_path, store)
    unlocked = UnlockedTools(store, agent.session, lambda: None, ("set_title",))
    for number in range(MOST_UNLOCKED + 5):
        await unlocked.unlock([f"t{number}"])
    assert len(unlocked.names) == MOST_UNLOCKED + 1
    assert "t4" not in unlocked.names and {"t5", "t44", "set_title"} <= set(unlocked.names)
    session = await store.read(sessions.get, agent.session.id)
    assert session is not None and len(session.unlocked.split()) == MOST_UNLOCKED


async def test_only_the_clients_of_the_session_that_found_are_told(tmp_path: Path, store: SqliteStore) -> None:
    agent = await GateAgent.create(tmp_path, store)
    lines: list[bytes] = []
    session = await store.read(sessions.get, agent.session.id)
    assert session is not None
    protocols: list[McpProtocol] = []
    unlocked = UnlockedTools(store, session, lambda: [each.tools_changed() for each in protocols])
    caller = replace_caller(agent.caller, unlocked)
    quiet = asyncio.Event()
    protocol = McpProtocol(agent.dispatch, caller, lines.append, quiet=quiet.set)
    protocols.append(protocol)
    protocol.receive(
        b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},'
        b'"clientInfo":{"name":"t","version":"1"}}}'
    )
    protocol.receive(
        b'{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"find_tools","arguments":{"query":"pin"}}}'
    )
    await quiet.wait()
    methods = [msgspec.json.decode(line).get("method", "answer") for line in lines]
    assert methods == ["answer", "notifications/tools/list_changed", "answer"]


async def test_what_a_tier_may_not_call_is_not_found(tmp_path: Path, store: SqliteStore) -> None:
    agent = await GateAgent.create(tmp_path, store, "acme/eng/sre")
    await offer(agent)
    everything = json.loads((await agent.call("find_tools")).text)["subjects"]
    names = {name for each in everything.values() for name in each}
    assert "add_route" not in names and "get_work" in names
    found = json.loads((await agent.call("find_tools", query="add_route")).text)
    assert "add_route" not in [each["name"] for each in found.get("tools", [])]
    assert (await use(agent, "add_route", {})).text == "Unknown tool: add_route"


async def test_a_rule_stands_in_what_is_found(tmp_path: Path, store: SqliteStore) -> None:
    agent = await GateAgent.create(tmp_path, store, rules=(parse("hold pin_message(targetId=7)"),))
    found = json.loads((await agent.call("find_tools", query="pin_message")).text)["tools"]
    assert "hold pin_message(targetId=7)" in found[0]["description"]


@pytest.mark.parametrize("rule", ["!find_tools", "hold find_tools", "hold *"])
async def test_without_find_tools_nothing_is_hidden(rule: str, tmp_path: Path, store: SqliteStore) -> None:
    agent = await GateAgent.create(tmp_path, store, rules=(parse(rule),))
    await offer(agent)
    assert "pin_message" in await list_names(agent)


@pytest.mark.parametrize(("cut", "has", "has_not"), [("all", "pin_message", ""), ("history", "get_thread", "send")])
async def test_an_option_of_the_group_restores_the_list_or_cuts_it(
    cut: str, has: str, has_not: str, tmp_path: Path, store: SqliteStore
) -> None:
    agent = await GateAgent.create(tmp_path, store)
    await store.write(groups.update, "acme/eng", {"options": json.dumps({"tool_groups": cut})})
    agent.deps.events.tools("acme/eng")
    await offer(agent)
    names = await list_names(agent)
    assert has in names and has_not not in names


async def test_the_setting_restores_the_list_for_all(tmp_path: Path, store: SqliteStore) -> None:
    agent = await GateAgent.create(tmp_path, store, config=Config({TOOL_GROUPS.name: ("all",)}))
    await offer(agent)
    assert "pin_message" in await list_names(agent)


async def test_find_tools_names_the_subjects_of_what_is_hidden(tmp_path: Path, store: SqliteStore) -> None:
    agent = await GateAgent.create(tmp_path, store)
    await offer(agent)
    listed = json.loads(await agent.dispatch.listed_for(agent.caller))
    (told,) = [each["description"] for each in listed if each["name"] == "find_tools"]
    assert "Subjects: cost, groups, history, memory, messages," in told


async def test_a_store_that_is_away_does_not_keep_an_agent_from_finding(tmp_path: Path, store: SqliteStore) -> None:
    agent = await GateAgent.create(tmp_path, store)
    told: list[int] = []

    class AwayStore:
        async def write(self, *args: object, **more: object) -> None:
            raise Unavailable("the database", "it is away")

    unlocked = UnlockedTools(AwayStore(), agent.session, lambda: told.append(1))  # type: ignore[arg-type]
    await unlocked.unlock(["pin_message"])
    assert (set(unlocked.names), told) == ({"pin_message"}, [1])


# call_tool is the very same gate.


async def test_a_call_by_call_tool_is_the_call_itself_in_the_audit(tmp_path: Path, store: SqliteStore) -> None:
    agent = await GateAgent.create(tmp_path, store)
    async with writing_behind(agent.dispatch):
        assert not (await use(agent, "send", {"text": "hush hush"})).failed
        assert not (await use(agent, "send_message", '{"message": "as text"}')).failed
    assert [action for action, _ in await agent.audited()] == ["send", "send"]
    assert "hush" not in json.dumps(await store.read(audit.list_latest, 10), default=str)


@pytest.mark.parametrize("rule", ["!send", "!speak", "!call_tool(name=send)", "!send(text=no*)"])
async def test_a_denial_is_not_evaded_by_call_tool(rule: str, tmp_path: Path, store: SqliteStore) -> None:
    agent = await GateAgent.create(tmp_path, store, rules=(parse(rule),))
    answer = await use(agent, "send", {"text": "no"})
    assert answer.failed
    assert agent.woken == []


@pytest.mark.parametrize("rule", ["hold send", "hold speak", "hold call_tool", "hold *", "hold send(text=no*)"])
async def test_a_hold_is_not_evaded_by_call_tool(rule: str, tmp_path: Path, store: SqliteStore) -> None:
    agent = await GateAgent.create(tmp_path, store)
    deps = agent.deps
    holder = HeldCalls(store, deps.clock, deps.config, deps.events, deps.channels, "", deps.home.media)  # type: ignore[arg-type]
    agent.dispatch = Dispatch(TOOLS, replace(deps, holder=holder))
    await store.write(grant_changes.add_rule, "acme/eng", rule, "test", deps.clock.now())
    answer = await use(agent, "send", {"text": "no"})
    assert json.loads(answer.structured or b"{}")["status"] == "pending"
    (held,) = await store.read(waiting_requests.list_pending)
    assert (held.tool, held.input["text"]) == ("send", "no")


async def test_a_replay_has_no_effect_by_call_tool_and_may_find(tmp_path: Path, store: SqliteStore) -> None:
    agent = await GateAgent.create(tmp_path, store)
    agent.caller = replace_caller(agent.caller, None, replays=True)
    assert "this is a replay" in (await use(agent, "send", {"text": "no"})).text
    assert not (await use(agent, "get_work", {})).failed
    assert not (await agent.call("find_tools", query="pin")).failed


async def test_reads_by_call_tool_wait_like_reads(tmp_path: Path, store: SqliteStore) -> None:
    agent = await GateAgent.create(tmp_path, store)
    await agent.dispatch.visible_to(agent.caller)
    read, said = b'{"name":"inspect_messages"}', b'{"name":"send","arguments":{"text":"a"}}'
    assert await agent.dispatch.only_reads(agent.caller, "call_tool", read)
    assert not await agent.dispatch.only_reads(agent.caller, "call_tool", said)
    assert not agent.dispatch.is_quick(agent.caller, "call_tool")


async def test_before_a_call_the_runner_is_asked_by_the_name_that_its_provider_announced(
    tmp_path: Path, store: SqliteStore
) -> None:
    agent = await GateAgent.create(tmp_path, store)
    asked: list[str] = []

    async def before(tool: str, call_id: str) -> None:
        asked.append(tool)

    agent.caller = replace_caller(agent.caller, None, before_call=before)
    await use(agent, "send", {"text": "a"})
    await use(agent, "get_work", {})
    assert asked == ["call_tool"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"name": "call_tool", "arguments": {"name": "send"}}, "it cannot call itself"),
        ({"arguments": {}}, "missing required field `name`"),
        ({"name": "send", "arguments": {"txt": "a"}}, "did you mean text?"),
        ({"name": "send", "arguments": [1]}, "Invalid arguments for send"),
        ({"name": "nothing"}, "Unknown tool: nothing"),
    ],
)
async def test_a_call_that_cannot_be_is_a_result_that_a_model_can_mend(
    arguments: dict[str, Any], words: str, tmp_path: Path, store: SqliteStore
) -> None:
    agent = await GateAgent.create(tmp_path, store)
    answer = await agent.call("call_tool", **arguments)
    assert answer.failed and answer.code == 0
    assert words in answer.text


async def test_an_unknown_tool_stays_an_error_of_the_protocol(tmp_path: Path, store: SqliteStore) -> None:
    agent = await GateAgent.create(tmp_path, store)
    assert (await agent.call("nothing")).code == INVALID_PARAMS


# Names of parameters.


@pytest.mark.parametrize("name", ["chatJid", "chat_jid", "targetJid", "jid", "room"])
@pytest.mark.parametrize("tool", ["send", "schedule_task", "inspect_messages", "engage"])
async def test_each_tool_takes_its_room_by_every_name(name: str, tool: str, tmp_path: Path, store: SqliteStore) -> None:
    agent = await GateAgent.create(tmp_path, store)
    more = {"send": {"text": "a"}, "schedule_task": {"text": "a", "cron": "+20m"}}.get(tool, {})
    answer = await agent.call(tool, **{name: "fake:room/none"}, **more)
    assert "fake:room/none" in answer.text and "no route" in answer.text


async def test_a_room_by_two_names_is_refused(tmp_path: Path, store: SqliteStore) -> None:
    agent = await GateAgent.create(tmp_path, store)
    answer = await agent.call("send", text="a", chatJid="fake:room/1", jid="fake:room/2")
    assert answer.failed and "unknown field" in answer.text


def test_every_schema_calls_the_room_of_a_call_chatJid() -> None:
    by_name = {tool.scoped_by for tool in (TOOLS[name] for name in TOOLS) if tool.scope and tool.scope.value == "room"}
    assert by_name == {"chatJid"}


@pytest.mark.parametrize("rule", ["!schedule_task(targetJid=fake:*)", "!schedule_task(chatJid=fake:*)"])
async def test_a_rule_may_name_the_room_as_it_was_called(rule: str, tmp_path: Path, store: SqliteStore) -> None:
    agent = await GateAgent.create(tmp_path, store, rules=(parse(rule),))
    answer = await agent.call("schedule_task", text="a", cron="+20m")
    assert "a rule of this gateway forbids it" in answer.text


@pytest.mark.parametrize("name", ["chatJid", "targetJid"])
def test_an_explanation_reads_the_room_by_every_name(name: str) -> None:
    rules = AccessRules(rules={"acme": (parse("!schedule_task(targetJid=fake:*)"),)})
    allowed, _ = explain(TOOLS["schedule_task"], GroupPolicy("acme", rules), {name: "fake:room/1", "text": "a"})
    assert not allowed


class Pace(StrEnum):
    SLOW = "slow"
    FAST = "fast"


def test_a_session_is_spared_what_goes_without_saying() -> None:
    own: Registry[Tool] = Registry("tool")

    @tool(tier=Tier.WORKER, group="x", read_only=True, registry=own)
    async def look(
        call: ToolCall,
        word: str = "",
        many: bool = False,
        number: Annotated[int, Meta(le=2**53)] = 0,
        most: Annotated[int, Meta(le=9)] = 7,
        pace: Pace = Pace.SLOW,
    ) -> str:
        """Look."""
        return word

    shown = shorten_schema(own["look"])
    assert shown == {
        "type": "object",
        "properties": {
            "word": {"type": "string"},
            "many": {"type": "boolean"},
            "number": {"type": "integer", "default": 0},
            "most": {"type": "integer", "maximum": 9, "default": 7},
            "pace": {"enum": ["fast", "slow"], "default": "slow"},
        },
    }
    assert own["look"].listed["inputSchema"]["properties"]["word"]["default"] == ""
