"""The protocol core, line by line, on both wires; and the official SDK's server beside it as the oracle."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import mcp_types
import pytest
from mcp.server.lowlevel import Server
from mcp.server.runner import serve_dual_era_loop
from mcp.shared.message import SessionMessage
from mcp_types.jsonrpc import jsonrpc_message_adapter

from gatepost import __version__
from gatepost.access.tiers import Tier
from gatepost.core.errors import Unavailable
from gatepost.core.registry import Registry
from gatepost.gate.mcp_messages import LARGEST_META
from gatepost.gate.mcp_protocol import MOST_IN_FLIGHT, MOST_LISTENING, MOST_WAITING, McpProtocol, SubmitTurn
from gatepost.jsonrpc.messages import LONGEST_ID
from gatepost.jsonrpc.protocol import REVOKED, TOO_MANY
from gatepost.store.engine.sqlite_store import SqliteStore
from gatepost.tools.call import ToolCall
from gatepost.tools.contract import Tool, tool
from gatepost_testing.gate_agent import GateAgent
from gatepost_testing.waiting import PATIENCE_S

SMALL: Registry[Tool] = Registry("tool")
META = "io.modelcontextprotocol/"
ENVELOPE = {META + "protocolVersion": "2026-07-28", META + "clientCapabilities": {}}
INITIALIZE = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}


@dataclass(frozen=True, slots=True)
class Pair:
    text: str
    size: int


@tool(tier=Tier.WORKER, group="x", effects=(), registry=SMALL)
async def echo(call: ToolCall, text: str) -> str:
    """Say it again."""
    return text


@tool(tier=Tier.WORKER, group="x", effects=(), registry=SMALL)
async def measure(call: ToolCall, text: str) -> Pair:
    """Say how long it is."""
    return Pair(text, len(text))


@tool(tier=Tier.WORKER, group="x", effects=(), registry=SMALL)
async def fail(call: ToolCall) -> str:
    """Be away."""
    raise Unavailable("the moon", "it is day")


@tool(tier=Tier.WORKER, group="x", effects=(), registry=SMALL)
async def forever(call: ToolCall) -> str:
    """Never end."""
    await asyncio.Event().wait()
    return ""


@tool(tier=Tier.WORKER, group="x", effects=(), registry=SMALL)
async def count_to(call: ToolCall, number: int) -> str:
    """Count."""
    for at in range(number):
        call.progress(at + 1, number, f"at {at + 1}")
    return "done"


@tool(tier=Tier.WORKER, group="x", effects=(), quick=True, registry=SMALL)
async def haste(call: ToolCall, wait: bool) -> str:
    """Be quick, or say so and wait all the same."""
    if wait:
        await asyncio.Event().wait()
    return "at once"


class Talk:
    """A conversation whose answers are kept."""

    def __init__(self, agent: GateAgent, submit_turn: SubmitTurn | None = None) -> None:
        self.said: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.core = McpProtocol(
            agent.dispatch, agent.caller, lambda line: self.said.put_nowait(json.loads(line)), submit_turn
        )

    def tell(self, **message: object) -> None:
        self.core.receive(json.dumps({"jsonrpc": "2.0", **message}).encode())

    async def hear(self) -> dict[str, Any]:
        return await asyncio.wait_for(self.said.get(), PATIENCE_S)

    async def ask(self, method: str, params: dict[str, Any] | None = None, request: int | str = 1) -> dict[str, Any]:
        message: dict[str, Any] = {"id": request, "method": method}
        if params is not None:
            message["params"] = params
        self.tell(**message)
        return await self.hear()

    def quiet(self) -> bool:
        return self.said.empty()


@pytest.fixture
async def agent(tmp_path: Path, store: SqliteStore) -> GateAgent:
    return await GateAgent.create(tmp_path, store, tools=SMALL)


@pytest.fixture
async def old(agent: GateAgent) -> Talk:
    """On the 2025 wire."""
    talk = Talk(agent)
    await talk.ask("initialize", INITIALIZE, 0)
    return talk


@pytest.fixture
async def new(agent: GateAgent) -> Talk:
    """On the 2026 wire."""
    talk = Talk(agent)
    await talk.ask("server/discover", {"_meta": ENVELOPE}, 0)
    return talk


def called(name: str, meta: dict[str, Any] | None = None, **arguments: object) -> dict[str, Any]:
    return {"name": name, "arguments": arguments, **({"_meta": meta} if meta else {})}


@pytest.mark.parametrize(
    ("asked", "given"),
    [
        ("2024-11-05", "2024-11-05"),
        ("2025-03-26", "2025-03-26"),
        ("2025-06-18", "2025-06-18"),
        ("2025-11-25", "2025-11-25"),
        ("2026-07-28", "2025-11-25"),
        ("1999-01-01", "2025-11-25"),
    ],
)
async def test_the_handshake_agrees_on_a_version(asked: str, given: str, agent: GateAgent) -> None:
    answer = await Talk(agent).ask("initialize", {**INITIALIZE, "protocolVersion": asked})
    assert answer["result"] == {
        "protocolVersion": given,
        "capabilities": {"tools": {"listChanged": True}},
        "serverInfo": {"name": "gatepost", "version": __version__},
    }


async def test_discover_answers_with_the_envelopes_version(agent: GateAgent) -> None:
    answer = await Talk(agent).ask("server/discover", {"_meta": ENVELOPE})
    result = answer["result"]
    assert result["supportedVersions"] == ["2026-07-28"]
    assert result["resultType"] == "complete"
    assert result["ttlMs"] == 0 and result["cacheScope"] == "private"
    assert result["_meta"][META + "serverInfo"]["name"] == "gatepost"


async def test_the_list_is_stamped_on_the_2026_wire_only(old: Talk, new: Talk) -> None:
    plain = (await old.ask("tools/list"))["result"]
    stamped = (await new.ask("tools/list", {"_meta": ENVELOPE}))["result"]
    assert set(plain) == {"tools"}
    assert plain["tools"] == stamped["tools"]
    assert stamped["resultType"] == "complete" and stamped["cacheScope"] == "private"


async def test_a_text_and_a_structure_come_back_as_content(old: Talk, new: Talk) -> None:
    text = (await old.ask("tools/call", called("echo", text="hi")))["result"]
    pair = (await old.ask("tools/call", called("measure", text="hi")))["result"]
    modern = (await new.ask("tools/call", called("measure", ENVELOPE, text="hi")))["result"]
    assert text == {"content": [{"type": "text", "text": "hi"}], "isError": False}
    assert pair["structuredContent"] == {"text": "hi", "size": 2}
    assert json.loads(pair["content"][0]["text"]) == pair["structuredContent"]
    assert modern["resultType"] == "complete"
    assert modern["_meta"][META + "serverInfo"] == {"name": "gatepost", "version": __version__}


async def test_a_failing_tool_is_a_result_that_a_model_can_read(old: Talk) -> None:
    result = (await old.ask("tools/call", called("fail")))["result"]
    assert result["isError"] is True
    assert result["content"][0]["text"] == "the moon is unavailable: it is day"


@pytest.mark.parametrize("params", [called("nothing"), {}, {"name": 1}, []])
async def test_a_call_that_cannot_be_is_minus_32602(params: Any, old: Talk) -> None:
    assert (await old.ask("tools/call", params))["error"]["code"] == -32602


@pytest.mark.parametrize("params", [called("echo"), called("echo", text=1), called("echo", tex="a")])
async def test_arguments_that_do_not_fit_are_a_result_that_a_model_can_read(params: Any, old: Talk) -> None:
    result = (await old.ask("tools/call", params))["result"]
    assert result["isError"] is True and "echo takes text" in result["content"][0]["text"]


@pytest.mark.parametrize("arguments", ["absent", None])
async def test_arguments_may_be_left_out(arguments: str | None, old: Talk) -> None:
    params = {"name": "fail"} if arguments == "absent" else {"name": "fail", "arguments": arguments}
    assert (await old.ask("tools/call", params))["result"]["isError"] is True


@pytest.mark.parametrize(
    ("line", "code", "request_id"),
    [
        (b"{bad", -32700, None),
        (b"", -32700, None),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping"', -32700, None),
        (b'{"method":"\xff"}', -32700, None),
        (b'{"params":' + b"[" * 100_000, -32700, None),
        (b"[]", -32600, None),
        (b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]', -32600, None),
        (b"1", -32600, None),
        (b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}', -32600, None),
        (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', -32600, None),
        (b'{"jsonrpc":"1.0","id":1,"method":"ping"}', -32600, 1),
        (b'{"id":1,"method":"ping"}', -32600, 1),
        (b'{"jsonrpc":"2.0","id":1}', -32600, 1),
        (b'{"jsonrpc":"2.0","id":"a","method":"no/such"}', -32601, "a"),
        (b'{"jsonrpc":"2.0","id":1,"method":"tools/list","params":7}', -32602, 1),
    ],
)
async def test_a_bad_line_gets_its_error_and_the_connection_lives(
    line: bytes, code: int, request_id: int | str | None, old: Talk
) -> None:
    old.core.receive(line)
    answer = await old.hear()
    assert answer["error"]["code"] == code
    assert answer["id"] == request_id
    assert (await old.ask("ping", request=2))["result"] == {}


async def test_answers_and_unknown_notifications_are_taken_silently(old: Talk) -> None:
    for message in (
        {"id": 1, "result": {}},
        {"id": 1, "error": {"code": 1, "message": ""}},
        {"method": "notifications/initialized"},
        {"method": "notifications/nothing", "params": 7},
        {"method": "notifications/cancelled", "params": {"requestId": 77}},
        {"method": "notifications/cancelled", "params": "bad"},
    ):
        old.tell(**message)
    assert (await old.ask("ping"))["result"] == {}
    assert old.quiet()


async def test_nothing_but_ping_works_before_a_wire_is_chosen(agent: GateAgent) -> None:
    talk = Talk(agent)
    assert (await talk.ask("ping"))["result"] == {}
    for method in ("tools/list", "tools/call"):
        answer = await talk.ask(method, called("echo", text="x"))
        assert answer["error"]["code"] == -32602
        assert "initialize" in answer["error"]["message"]


async def test_a_refused_probe_leaves_the_handshake_open(agent: GateAgent) -> None:
    talk = Talk(agent)
    future = {**ENVELOPE, META + "protocolVersion": "2031-01-01"}
    refused = await talk.ask("server/discover", {"_meta": future})
    assert refused["error"]["code"] == -32022
    assert refused["error"]["data"] == {"supported": ["2026-07-28"], "requested": "2031-01-01"}
    assert "result" in await talk.ask("initialize", INITIALIZE)


@pytest.mark.sqlite(reason="a server is never asked on the loop")
async def test_a_quick_call_is_answered_before_receive_returns(old: Talk) -> None:
    await old.ask("tools/list")  # from here on it is known what the caller sees
    old.tell(id=1, method="tools/call", params=called("haste", wait=False))
    assert not old.quiet()
    assert (await old.hear())["result"]["content"][0]["text"] == "at once"
    assert not old.core.busy


async def test_a_quick_call_that_waits_all_the_same_can_be_cancelled(old: Talk) -> None:
    old.tell(id=1, method="tools/call", params=called("haste", wait=True))
    assert old.core.busy
    old.tell(method="notifications/cancelled", params={"requestId": 1})
    assert not old.core.busy
    assert (await old.ask("ping"))["result"] == {}
    assert old.quiet()


async def test_a_call_that_was_cancelled_is_never_answered(old: Talk) -> None:
    old.tell(id=5, method="tools/call", params=called("forever"))
    await asyncio.sleep(0)
    old.tell(method="notifications/cancelled", params={"requestId": 5})
    assert not old.core.busy
    assert (await old.ask("tools/call", called("echo", text="next"), 5))["result"]["content"][0]["text"] == "next"
    assert old.quiet()


async def test_an_id_in_flight_is_refused_a_second_time_and_free_afterwards(old: Talk) -> None:
    old.tell(id="x", method="tools/call", params=called("forever"))
    refused = await old.ask("tools/call", called("echo", text="x"), "x")
    assert refused["error"]["code"] == -32600
    assert "already in use" in refused["error"]["message"]
    assert (await old.ask("ping", request=1))["id"] == 1


@pytest.mark.slow
async def test_a_slow_call_holds_nobody_up_and_too_many_are_refused(old: Talk) -> None:
    for number in range(MOST_IN_FLIGHT - 1):
        old.tell(id=number, method="tools/call", params=called("forever"))
    assert "result" in await old.ask("tools/call", called("echo", text="quick"), "quick")
    old.tell(id="last", method="tools/call", params=called("forever"))
    assert (await old.ask("tools/call", called("echo", text="x"), "more"))["error"]["code"] == TOO_MANY
    old.core.cancel_all()


async def test_what_waits_is_bounded_by_its_bytes_too(old: Talk) -> None:
    part = "x" * (MOST_WAITING // 4)
    for number in range(3):
        old.tell(id=number, method="tools/call", params={**called("forever"), "more": part})
    refused = await old.ask("tools/call", {**called("forever"), "more": part}, "more")
    assert refused["error"]["code"] == TOO_MANY and "bytes" in refused["error"]["message"]
    assert "result" in await old.ask("tools/call", called("echo", text="small"), "small")
    old.core.cancel_all()


async def test_ends_of_turns_count_as_calls_in_flight(agent: GateAgent) -> None:
    async def never(session_id: str, params: dict[str, object]) -> dict[str, object]:
        await asyncio.Event().wait()
        return {}

    talk = Talk(agent, never)
    for number in range(MOST_IN_FLIGHT):
        talk.tell(id=number, method="submit_turn", params={"turn_id": "t"})
    assert (await talk.ask("submit_turn", {"turn_id": "t"}, "more"))["error"]["code"] == TOO_MANY
    talk.core.cancel_all()


@pytest.mark.parametrize("request_id", ["x" * (LONGEST_ID + 1), 2**60])
async def test_an_id_is_short_because_it_is_kept(new: Talk, request_id: int | str) -> None:
    listen = {"notifications": {}, "_meta": ENVELOPE}
    refused = await new.ask("subscriptions/listen", listen, request_id)
    assert (refused["id"], refused["error"]["code"]) == (None, -32600)
    assert "params" in await new.ask("subscriptions/listen", listen, "x" * LONGEST_ID)


async def test_subscriptions_are_counted(new: Talk) -> None:
    listen = {"notifications": {"toolsListChanged": True}, "_meta": ENVELOPE}
    for number in range(MOST_LISTENING):
        assert "params" in await new.ask("subscriptions/listen", listen, number)
    assert (await new.ask("subscriptions/listen", listen, "more"))["error"]["code"] == TOO_MANY
    new.tell(method="notifications/cancelled", params={"requestId": 0})
    assert "params" in await new.ask("subscriptions/listen", listen, "more")


@pytest.mark.parametrize("method", ["tools/list", "tools/call", "server/discover", "subscriptions/listen"])
async def test_a_large_meta_is_refused_before_it_is_made_into_objects(new: Talk, method: str) -> None:
    meta = {**ENVELOPE, "a": "x" * LARGEST_META}
    refused = await new.ask(method, {"name": "echo", "arguments": {"text": "x"}, "_meta": meta}, 1)
    assert refused["error"]["code"] == -32602 and str(LARGEST_META) in refused["error"]["message"]


@pytest.mark.parametrize("token", ["tok", 7, 0])
async def test_progress_is_told_with_the_callers_token(token: int | str, old: Talk, new: Talk) -> None:
    for talk, meta in ((old, {}), (new, ENVELOPE)):
        talk.tell(id=1, method="tools/call", params=called("count_to", {**meta, "progressToken": token}, number=2))
        first, second, answer = await talk.hear(), await talk.hear(), await talk.hear()
        assert first["method"] == "notifications/progress"
        assert first["params"] == {"progressToken": token, "progress": 1, "total": 2, "message": "at 1"}
        assert second["params"]["progress"] == 2
        assert answer["id"] == 1


async def test_without_a_token_there_is_no_progress(old: Talk) -> None:
    assert "result" in await old.ask("tools/call", called("count_to", number=3))


async def test_a_change_of_tools_is_told_on_both_wires(old: Talk, new: Talk, agent: GateAgent) -> None:
    untold = Talk(agent)
    new.tell(
        id="sub", method="subscriptions/listen", params={"notifications": {"toolsListChanged": True}, "_meta": ENVELOPE}
    )
    acknowledged = await new.hear()
    assert acknowledged["method"] == "notifications/subscriptions/acknowledged"
    assert acknowledged["params"]["notifications"] == {"toolsListChanged": True}
    for talk in (old, new, untold):
        talk.core.tools_changed()
    assert await old.hear() == {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}
    told = await new.hear()
    assert told["params"]["_meta"] == {META + "subscriptionId": "sub"}
    assert untold.quiet()

    new.tell(method="notifications/cancelled", params={"requestId": "sub"})
    new.core.tools_changed()
    assert new.quiet()


async def test_a_subscription_ends_in_good_order(new: Talk) -> None:
    await new.ask("subscriptions/listen", {"notifications": {}, "_meta": ENVELOPE}, 9)
    new.core.tools_changed()
    new.core.finish()
    ended = await new.hear()
    assert ended["id"] == 9
    assert ended["result"]["_meta"][META + "subscriptionId"] == 9


async def test_what_is_revoked_answers_everything_with_an_error(old: Talk) -> None:
    old.tell(id=1, method="tools/call", params=called("forever"))
    await asyncio.sleep(0)
    old.core.revoke()
    pending = await old.hear()
    assert (pending["id"], pending["error"]["code"]) == (1, REVOKED)
    for method in ("tools/call", "tools/list", "ping", "submit_turn"):
        assert (await old.ask(method, called("echo", text="x")))["error"]["code"] == REVOKED


# submit_turn, which needs no handshake and is nowhere listed.


def ending(turns: dict[str, int]) -> SubmitTurn:
    async def end(session_id: str, params: dict[str, object]) -> dict[str, object]:
        turn_id = str(params["turn_id"])
        turns[turn_id] = turns.get(turn_id, 0) + 1
        if turn_id == "t-broken":
            raise RuntimeError("secret detail")
        if turn_id == "t-away":
            raise Unavailable("the store")
        return {"ok": True}

    return end


async def test_arizuko_31_submit_turn_twice_answers_ok_twice(agent: GateAgent) -> None:
    turns: dict[str, int] = {}
    talk = Talk(agent, ending(turns))
    for _ in range(2):
        answer = await talk.ask("submit_turn", {"turn_id": "t-1", "status": "success", "result": "x"})
        assert answer["result"] == {"ok": True}
    assert turns == {"t-1": 2}


@pytest.mark.parametrize("params", [{}, {"turn_id": 7}, {"turn_id": ""}, [], "x"])
async def test_arizuko_31_submit_turn_without_a_turn_is_minus_32602(params: Any, agent: GateAgent) -> None:
    assert (await Talk(agent, ending({})).ask("submit_turn", params))["error"]["code"] == -32602


async def test_arizuko_31_submit_turn_is_not_listed_and_not_there_where_nobody_takes_it(old: Talk) -> None:
    assert "submit_turn" not in {each["name"] for each in (await old.ask("tools/list"))["result"]["tools"]}
    assert (await old.ask("submit_turn", {"turn_id": "t-1"}))["error"]["code"] == -32601


async def test_a_turn_that_cannot_be_ended_is_minus_32603_without_its_inside(agent: GateAgent) -> None:
    talk = Talk(agent, ending({}))
    away = await talk.ask("submit_turn", {"turn_id": "t-away"})
    broken = await talk.ask("submit_turn", {"turn_id": "t-broken"})
    assert away["error"] == {"code": -32603, "message": "the store is unavailable"}
    assert broken["error"]["code"] == -32603
    assert "secret detail" not in broken["error"]["message"]


# The oracle: the same requests to the SDK's own server give the same kind of answer.

Request = tuple[str, dict[str, Any] | None]
SCENARIOS: dict[str, list[Request]] = {
    "handshake": [("initialize", INITIALIZE), ("tools/list", None), ("tools/list", {}), ("ping", None)],
    "handshake with an old version": [
        ("initialize", {**INITIALIZE, "protocolVersion": "2024-11-05"}),
        ("tools/list", {}),
    ],
    "handshake with a bad body": [("initialize", {}), ("ping", None)],
    "nothing before the handshake": [("tools/list", {}), ("ping", None)],
    "unknown methods": [("initialize", INITIALIZE), ("no/such", {}), ("prompts/list", {}), ("resources/list", {})],
    "a tool": [("initialize", INITIALIZE), ("tools/call", called("echo", text="hi"))],
    "a call without a name": [("initialize", INITIALIZE), ("tools/call", {"arguments": {}})],
    "the envelope": [("server/discover", {"_meta": ENVELOPE}), ("tools/list", {"_meta": ENVELOPE})],
    "the envelope, and a tool at once": [("tools/call", called("echo", ENVELOPE, text="hi"))],
    "no ping in 2026": [("server/discover", {"_meta": ENVELOPE}), ("ping", {"_meta": ENVELOPE})],
    "an envelope left out": [("server/discover", {"_meta": ENVELOPE}), ("tools/list", {})],
    "an envelope without capabilities": [
        ("server/discover", {"_meta": ENVELOPE}),
        ("tools/list", {"_meta": {META + "protocolVersion": "2026-07-28"}}),
    ],
    "an envelope of the future": [
        ("server/discover", {"_meta": ENVELOPE}),
        ("tools/list", {"_meta": {**ENVELOPE, META + "protocolVersion": "2031-01-01"}}),
    ],
    "a handshake after the envelope": [("server/discover", {"_meta": ENVELOPE}), ("initialize", INITIALIZE)],
    "an envelope after the handshake": [("initialize", INITIALIZE), ("tools/list", {"_meta": ENVELOPE})],
}


async def sdk_answers(requests: list[Request]) -> list[dict[str, Any]]:
    async def list_tools(context: Any, params: Any) -> mcp_types.ListToolsResult:
        schema = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
        return mcp_types.ListToolsResult(tools=[mcp_types.Tool(name="echo", description="", input_schema=schema)])

    async def call_tool(context: Any, params: Any) -> mcp_types.CallToolResult:
        text = mcp_types.TextContent(type="text", text=params.arguments["text"])
        return mcp_types.CallToolResult(content=[text])

    server: Server[Any] = Server("oracle", on_list_tools=list_tools, on_call_tool=call_tool)
    to_server, server_reads = anyio.create_memory_object_stream[SessionMessage | Exception](10)
    server_writes, from_server = anyio.create_memory_object_stream[SessionMessage](10)
    answers = []
    async with anyio.create_task_group() as tasks:
        serve: Callable[[], Awaitable[None]] = lambda: serve_dual_era_loop(  # noqa: E731
            server, server_reads, server_writes, lifespan_state=None
        )
        tasks.start_soon(serve)
        for number, (method, params) in enumerate(requests, 1):
            message = {
                "jsonrpc": "2.0",
                "id": number,
                "method": method,
                **({} if params is None else {"params": params}),
            }
            await to_server.send(SessionMessage(jsonrpc_message_adapter.validate_python(message)))
            with anyio.fail_after(PATIENCE_S):
                answer = await from_server.receive()
            answers.append(answer.message.model_dump(by_alias=True, mode="json", exclude_none=True))
        tasks.cancel_scope.cancel()
    for stream in (to_server, server_reads, server_writes, from_server):
        await stream.aclose()
    return answers


def shape(answer: dict[str, Any]) -> tuple[int, object, object, object]:
    """Return what must agree: the id, the error's code, the chosen version, the kind of result."""
    result = answer.get("result", {})
    code = answer.get("error", {}).get("code")
    return answer["id"], code, result.get("protocolVersion"), (result.get("resultType"), result.get("content"))


@pytest.mark.parametrize("name", sorted(SCENARIOS))
async def test_our_answers_agree_with_the_sdks_server(name: str, agent: GateAgent) -> None:
    talk = Talk(agent)
    ours = [await talk.ask(method, params, number) for number, (method, params) in enumerate(SCENARIOS[name], 1)]
    theirs = await sdk_answers(SCENARIOS[name])
    assert [shape(answer) for answer in ours] == [shape(answer) for answer in theirs]
