"""MCP over Streamable HTTP, byte by byte: statuses, headers and bodies, in both eras of the protocol."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from gatepost import __version__
from gatepost.serve.agents import http_session, mcp_endpoint, running_call
from gatepost_testing.clients.mcp_http_client import (
    BOTH,
    ENVELOPE,
    INITIALIZE,
    LARGEST,
    McpHttpClient,
    make_call_params,
    make_request,
    parse_answer,
    parse_messages,
    serve_mcp,
)
from gatepost_testing.gate_agent import GateAgent
from gatepost_testing.sample_tools import SlowToolEvents
from gatepost_testing.waiting import PATIENCE_S, until


@pytest.fixture
async def old(web: McpHttpClient) -> McpHttpClient:
    await web.initialize()
    return web


def error_of(body: dict[str, Any]) -> tuple[int, str]:
    assert "Traceback" not in json.dumps(body)
    return body["error"]["code"], body["error"]["message"]


# Sessions of the 2025 revisions.


async def test_paseo_10_initialize_makes_a_session_of_the_chosen_version(web: McpHttpClient) -> None:
    answer = await web.initialize()
    assert answer.status_code == 200
    assert answer.headers["mcp-session-id"]
    result = parse_answer(answer)["result"]
    assert result["protocolVersion"] == "2025-11-25"
    assert result["capabilities"] == {"tools": {"listChanged": True}}
    assert result["serverInfo"] == {"name": "gatepost", "version": __version__}


@pytest.mark.parametrize("method", ["POST", "GET", "DELETE"])
async def test_paseo_11_an_unknown_session_is_404_with_a_json_rpc_error(web: McpHttpClient, method: str) -> None:
    headers = {"mcp-session-id": "nobody", "accept": BOTH, "content-type": "application/json"}
    answer = await web.client.request(method, web.address, headers=headers, json=make_request("tools/list"))
    assert answer.status_code == 404
    assert error_of(answer.json()) == (-32600, "Session not found")


@pytest.mark.parametrize("method", ["GET", "DELETE"])
async def test_paseo_12_a_stream_without_a_session_is_400(web: McpHttpClient, method: str) -> None:
    answer = await web.client.request(method, web.address, headers={"accept": BOTH})
    assert answer.status_code == 400
    assert error_of(answer.json())[0] == -32600


async def test_a_request_without_a_session_is_400(web: McpHttpClient) -> None:
    answer = await web.post(make_request("tools/list"))
    assert answer.status_code == 400
    assert "error" in answer.json()


async def test_paseo_12_a_deleted_session_is_gone(old: McpHttpClient) -> None:
    ended = await old.client.delete(old.address, headers=old.session)
    assert ended.status_code == 200
    assert (await old.post(make_request("tools/list"))).status_code == 404
    assert (await old.client.delete(old.address, headers=old.session)).status_code == 404


async def test_a_stream_that_a_client_leaves_open_ends_after_its_session(
    old: McpHttpClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mcp_endpoint, "FAREWELL_S", 0.0)
    headers = {"accept": "text/event-stream", **old.session}
    async with asyncio.timeout(PATIENCE_S), old.client.stream("GET", old.address, headers=headers) as stream:
        assert (await old.client.delete(old.address, headers=old.session)).status_code == 200
        assert [line async for line in stream.aiter_lines() if line.startswith("data:")] == []


async def test_a_session_is_of_the_group_that_it_was_made_for(old: McpHttpClient) -> None:
    assert (await old.post(make_request("tools/list"), address="/mcp/groups/acme")).status_code == 404
    assert (await old.post(make_request("tools/list"))).status_code == 200


async def test_a_group_that_is_not_there_is_404(web: McpHttpClient) -> None:
    answer = await web.post(make_request("tools/list"), address="/mcp/groups/nobody/here")
    assert answer.status_code == 404
    assert "nobody/here" in error_of(answer.json())[1]


async def test_a_session_is_in_use_as_long_as_it_is_asked(old: McpHttpClient) -> None:
    session = old.endpoint.sessions[old.session["mcp-session-id"]]
    session.seen -= http_session.IDLE_S / 2
    stale = session.seen
    assert (await old.post(make_request("tools/list"))).status_code == 200
    assert session.seen > stale


async def test_a_session_that_nobody_has_used_for_long_is_not_found(old: McpHttpClient) -> None:
    old.endpoint.sessions[old.session["mcp-session-id"]].seen -= 2 * http_session.IDLE_S
    assert (await old.post(make_request("tools/list"))).status_code == 404
    assert not old.endpoint.sessions


@pytest.mark.slow
async def test_a_session_that_nobody_uses_is_forgotten(old: McpHttpClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mcp_endpoint, "SWEPT", 1)
    name = old.session["mcp-session-id"]
    old.endpoint.sessions[name].seen -= 2 * http_session.IDLE_S
    old.session = {}
    await old.initialize()
    assert list(old.endpoint.sessions) == [old.session["mcp-session-id"]]


# Bodies.


@pytest.mark.parametrize("body", [b"{", b"\xff\xfe", b"[" * 100_000, b'{"jsonrpc":"2.0",'])
async def test_paseo_13_what_is_not_json_is_400_and_no_trace(old: McpHttpClient, body: bytes) -> None:
    for headers in ({}, {"mcp-protocol-version": "2026-07-28"}):
        answer = await old.post(body, headers)
        assert answer.status_code == 400
        assert error_of(answer.json())[0] == (-32600 if body.startswith(b"[") else -32700)  # a batch is none of ours
        assert answer.json()["id"] is None


NONE = [
    b'{"a":1}',
    b'{"jsonrpc":"1.0","id":1,"method":"tools/list"}',
    b'{"jsonrpc":"2.0","id":1}',
    b'{"jsonrpc":"2.0","id":null,"method":"tools/list"}',
    b'{"jsonrpc":"2.0","id":1,"method":"tools/list","params":[1]}',
    b'{"jsonrpc":"2.0","id":1,"result":5}',
    b'{"jsonrpc":"2.0","method":"notifications/initialized","params":"x"}',
]


@pytest.mark.parametrize("body", NONE)
async def test_what_is_no_message_is_400_in_one_sentence_of_ours(web: McpHttpClient, body: bytes) -> None:
    """Whoever sends it, with a session or without one; and what was refused names no session that is not there."""
    for headers in ({}, {"mcp-protocol-version": "2026-07-28"}):
        answer = await web.post(body, headers)
        assert (answer.status_code, error_of(answer.json())) == (400, (-32600, mcp_endpoint.NO_MESSAGE))
        assert "mcp-session-id" not in answer.headers
    await web.initialize()
    assert error_of((await web.post(body)).json()) == (-32600, mcp_endpoint.NO_MESSAGE)


async def test_what_is_refused_names_no_session_and_has_no_words_of_a_library(web: McpHttpClient) -> None:
    wrong = [
        make_request("tools/list"),
        make_request("initialize", {"protocolVersion": 5}),
        make_request("nothing"),
        make_request("tools/call", {"name": 5}),
        make_request("tools/list", {"_meta": 5}),
    ]
    for message in wrong:
        answer = await web.post(message)
        assert "mcp-session-id" not in answer.headers or answer.status_code == 200
        assert "pydantic" not in answer.text and "validation error" not in answer.text.lower()
    await web.initialize()
    for message in wrong:
        modern = {"mcp-protocol-version": "2026-07-28", "mcp-method": str(message["method"])}
        for answer in (await web.post(message), await web.post(message, modern)):
            assert "pydantic" not in answer.text and "validation error" not in answer.text.lower()
            assert len(answer.content) < 600 or "result" in parse_answer(answer)


async def test_a_batch_is_refused(old: McpHttpClient) -> None:
    answer = await old.post(b'[{"jsonrpc":"2.0","id":1,"method":"tools/list"}]')
    assert answer.status_code == 400
    assert error_of(answer.json()) == (-32600, "batches are not accepted")


async def test_paseo_13_a_large_text_is_taken_and_a_larger_one_is_413(old: McpHttpClient) -> None:
    text = "x" * (LARGEST // 2)
    answer = await old.ask("tools/call", make_call_params("echo", text=text))
    assert answer["result"]["content"][0]["text"] == text
    refused = await old.post(make_request("tools/call", make_call_params("echo", text="x" * LARGEST)))
    assert refused.status_code == 413
    assert error_of(refused.json()) == (-32600, f"a message may have at most {LARGEST} bytes")
    assert (await old.post(make_request("tools/list"))).status_code == 200


async def test_a_stream_that_grows_too_large_is_413(old: McpHttpClient) -> None:
    async def endless() -> Any:
        for _ in range(LARGEST // 65536 + 2):
            yield b" " * 65536

    headers = {"accept": BOTH, "content-type": "application/json", **old.session}
    answer = await old.client.post(old.address, content=endless(), headers=headers)
    assert answer.status_code == 413


async def test_paseo_12_accepting_json_alone_never_hangs(old: McpHttpClient) -> None:
    answer = await old.post(make_request("tools/list"), {"accept": "application/json"})
    assert answer.status_code in (200, 406)


# Calls.


async def test_tools_are_those_of_the_group(old: McpHttpClient, agent: GateAgent) -> None:
    names = [tool["name"] for tool in (await old.ask("tools/list"))["result"]["tools"]]
    assert names == [tool.name for tool in await agent.dispatch.visible_to(agent.caller)]
    assert "rule" not in names


@pytest.mark.parametrize("token", [None, "t"])
async def test_a_call_is_the_same_by_json_and_by_stream(old: McpHttpClient, token: str | None) -> None:
    meta = {"progressToken": token} if token else None
    answer = await old.ask("tools/call", make_call_params("measure", meta, text="four"))
    assert answer["result"]["structuredContent"] == {"text": "four", "size": 4}
    assert answer["result"]["isError"] is False
    failed = await old.ask("tools/call", make_call_params("fail", meta))
    assert failed["result"]["isError"] is True
    assert "the moon" in failed["result"]["content"][0]["text"]


async def test_progress_comes_before_the_answer(old: McpHttpClient) -> None:
    said = parse_messages(
        await old.post(make_request("tools/call", make_call_params("count_to", {"progressToken": "p"}, number=3)))
    )
    told = [message["params"] for message in said[:-1]]
    assert told == [{"progressToken": "p", "progress": n, "total": 3, "message": f"at {n}"} for n in (1, 2, 3)]
    assert said[-1]["result"]["content"][0]["text"] == "done"


async def test_progress_that_nobody_asked_for_is_not_told(old: McpHttpClient) -> None:
    answer = await old.post(make_request("tools/call", make_call_params("count_to", number=3)))
    assert answer.headers["content-type"] == "application/json"


async def test_a_call_that_takes_long_becomes_a_stream(old: McpHttpClient) -> None:
    asking = asyncio.create_task(old.post(make_request("tools/call", make_call_params("wait"), 7)))
    await asyncio.wait_for(SlowToolEvents.entered.wait(), PATIENCE_S)
    quick = await old.ask("tools/call", make_call_params("echo", text="meanwhile"), 8)
    assert quick["result"]["content"][0]["text"] == "meanwhile"
    await until(lambda: old.endpoint._late, "the call to be handed over")
    SlowToolEvents.opened.set()
    answer = await asyncio.wait_for(asking, PATIENCE_S)
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert parse_answer(answer)["result"]["content"][0]["text"] == "waited"


@pytest.mark.parametrize("later", [0.0, 3 * running_call.AT_ONCE_S])
async def test_a_cancelled_call_ends_whoever_has_it(old: McpHttpClient, later: float) -> None:
    asking = asyncio.create_task(old.post(make_request("tools/call", make_call_params("wait"), 7)))
    await asyncio.wait_for(SlowToolEvents.entered.wait(), PATIENCE_S)
    await asyncio.sleep(later)
    cancelled = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}}
    assert (await old.post(cancelled)).status_code == 202
    await asyncio.wait_for(SlowToolEvents.cancelled.wait(), PATIENCE_S)
    assert error_of(parse_answer(await asyncio.wait_for(asking, PATIENCE_S))) == (
        mcp_endpoint.CANCELLED,
        "Request cancelled",
    )


@pytest.mark.parametrize("second", [7, "7"])  # as names of streams, they are one
@pytest.mark.parametrize("later", [0.0, 3 * running_call.AT_ONCE_S])
async def test_an_id_in_flight_is_refused_at_once_and_the_first_goes_on(
    old: McpHttpClient, second: int | str, later: float
) -> None:
    asking = asyncio.create_task(old.post(make_request("tools/call", make_call_params("wait"), 7)))
    await asyncio.wait_for(SlowToolEvents.entered.wait(), PATIENCE_S)
    await asyncio.sleep(later)
    for method, params in (("tools/call", make_call_params("wait")), ("tools/list", {}), ("ping", None)):
        refused = await asyncio.wait_for(old.post(make_request(method, params, second)), PATIENCE_S)
        assert refused.status_code == 200
        code, text = error_of(refused.json())
        assert code == -32600 and f"{second!r} is already in use" in text and refused.json()["id"] == second
    SlowToolEvents.opened.set()
    assert parse_answer(await asyncio.wait_for(asking, PATIENCE_S))["result"]["content"][0]["text"] == "waited"
    again = await asyncio.wait_for(old.ask("tools/call", make_call_params("echo", text="free"), 7), PATIENCE_S)
    assert again["result"]["content"][0]["text"] == "free"
    assert not old.endpoint.sessions[old.session["mcp-session-id"]].flying


async def test_the_id_of_a_call_whose_client_hung_up_is_free_when_the_call_ends(old: McpHttpClient) -> None:
    headers = {"accept": BOTH, "content-type": "application/json", **old.session}
    body = json.dumps(make_request("tools/call", make_call_params("wait", {"progressToken": 1}), 7)).encode()
    async with old.client.stream("POST", old.address, content=body, headers=headers) as stream:
        async for line in stream.aiter_lines():
            if line.startswith("id:"):
                break
    session = old.endpoint.sessions[old.session["mcp-session-id"]]
    async with asyncio.timeout(PATIENCE_S):
        while session.serving:  # noqa: ASYNC110  nothing rings when a client has left
            await asyncio.sleep(0)
    assert (
        "already in use" in (await old.ask("tools/call", make_call_params("echo", text="early"), 7))["error"]["message"]
    )
    SlowToolEvents.opened.set()
    async with asyncio.timeout(PATIENCE_S):
        while session.flying:  # noqa: ASYNC110
            await asyncio.sleep(0)
    assert (await old.ask("tools/call", make_call_params("echo", text="late"), 7))["result"]["content"][0][
        "text"
    ] == "late"


@pytest.mark.slow
async def test_fifty_calls_at_once_are_each_answered_with_their_own(old: McpHttpClient) -> None:
    asking = [old.ask("tools/call", make_call_params("echo", text=f"n{n}"), n) for n in range(50)]
    answers = await asyncio.gather(*asking)
    assert [(answer["id"], answer["result"]["content"][0]["text"]) for answer in answers] == [
        (n, f"n{n}") for n in range(50)
    ]


async def test_a_client_that_lost_its_stream_continues_it(old: McpHttpClient) -> None:
    headers = {"accept": BOTH, "content-type": "application/json", **old.session}
    body = json.dumps(make_request("tools/call", make_call_params("wait", {"progressToken": 1}), 7)).encode()
    async with old.client.stream("POST", old.address, content=body, headers=headers) as stream:
        async for line in stream.aiter_lines():
            if line.startswith("id:"):
                last = line.removeprefix("id:").strip()
                break
    SlowToolEvents.opened.set()
    got: list[dict[str, Any]] = []
    async with old.client.stream("GET", old.address, headers={**headers, "last-event-id": last}) as stream:
        async for line in stream.aiter_lines():
            if line.startswith("data:") and line.removeprefix("data:").strip():
                got.append(json.loads(line.removeprefix("data:")))
                break
    assert got[0]["id"] == 7
    assert got[0]["result"]["content"][0]["text"] == "waited"


async def test_nobody_continues_a_stream_of_another_session(old: McpHttpClient) -> None:
    answer = await old.post(make_request("tools/call", make_call_params("count_to", {"progressToken": 1}, number=2)))
    first = next(line for line in answer.text.splitlines() if line.startswith("id:")).removeprefix("id:").strip()
    old.session = {}
    await old.initialize()
    headers = {"accept": BOTH, **old.session, "last-event-id": first}
    async with asyncio.timeout(PATIENCE_S), old.client.stream("GET", old.address, headers=headers) as stream:
        assert [line async for line in stream.aiter_lines() if line.startswith("data:")] == []


# The 2026 revision.


async def test_the_modern_revision_needs_no_session(web: McpHttpClient) -> None:
    found = (await web.modern("server/discover")).json()["result"]
    assert found["supportedVersions"] == ["2026-07-28"]
    assert found["capabilities"] == {"tools": {"listChanged": True}}
    listed = await web.modern("tools/list")
    assert "mcp-session-id" not in listed.headers
    assert listed.json()["result"]["cacheScope"] == "private"
    answer = (await web.modern("tools/call", make_call_params("echo", text="hi"))).json()["result"]
    assert (answer["content"][0]["text"], answer["resultType"]) == ("hi", "complete")


async def test_headers_that_contradict_the_body_are_refused(web: McpHttpClient) -> None:
    answer = await web.modern("tools/call", make_call_params("echo", text="hi"), **{"mcp-name": "measure"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, -32020)
    answer = await web.modern("tools/list", None, **{"mcp-method": "tools/call"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, -32020)


async def test_a_modern_client_that_leaves_cancels_its_call(web: McpHttpClient) -> None:
    asking = asyncio.create_task(web.modern("tools/call", make_call_params("wait")))
    await asyncio.wait_for(SlowToolEvents.entered.wait(), PATIENCE_S)
    asking.cancel()
    await asyncio.wait_for(SlowToolEvents.cancelled.wait(), PATIENCE_S)


@pytest.mark.parametrize("name", ["nothing", "rule"])
async def test_unknown_and_forbidden_look_alike_in_both_eras(old: McpHttpClient, name: str) -> None:
    before = await old.ask("tools/call", make_call_params(name))
    after = await old.modern("tools/call", make_call_params(name))
    assert error_of(before) == error_of(after.json()) == (-32602, f"Unknown tool: {name}")
    assert after.status_code == 400


async def test_bad_arguments_name_the_field(old: McpHttpClient) -> None:
    result = (await old.ask("tools/call", make_call_params("echo", text=5)))["result"]
    assert result["isError"] is True
    assert "$.text" in result["content"][0]["text"]


# Changes of the tools.


async def _first_notice(web: McpHttpClient, method: str, headers: dict[str, str], body: bytes | None, ring: Any) -> Any:
    async with (
        asyncio.timeout(PATIENCE_S),
        web.client.stream(method, web.address, content=body, headers=headers) as stream,
    ):
        async for line in _data(stream):
            if line.get("method") == "notifications/subscriptions/acknowledged":
                ring()
            elif "method" in line:
                return line
    return None


async def _data(stream: Any) -> Any:
    async for line in stream.aiter_lines():
        if line.startswith("data:") and line.removeprefix("data:").strip():
            yield json.loads(line.removeprefix("data:"))


async def test_a_change_of_the_tools_is_told_to_the_group_alone(old: McpHttpClient, agent: GateAgent) -> None:
    headers = {"accept": "text/event-stream", **old.session}
    async with asyncio.timeout(PATIENCE_S), old.client.stream("GET", old.address, headers=headers) as stream:
        agent.deps.events.tools("acme")  # somebody else's
        agent.deps.events.tools("acme/eng")
        notice = await anext(_data(stream))
    assert notice["method"] == "notifications/tools/list_changed"


async def test_a_modern_listener_is_told(web: McpHttpClient, agent: GateAgent) -> None:
    params = {"_meta": {}, "notifications": {"toolsListChanged": True}}
    body = json.dumps(make_request("subscriptions/listen", {**params, "_meta": ENVELOPE}, 5)).encode()
    headers = {
        "accept": BOTH,
        "content-type": "application/json",
        "mcp-protocol-version": "2026-07-28",
        "mcp-method": "subscriptions/listen",
    }
    notice = await _first_notice(web, "POST", headers, body, lambda: agent.deps.events.tools("acme/eng"))
    assert notice["method"] == "notifications/tools/list_changed"
    assert notice["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"] == 5


async def test_closing_ends_every_stream(agent: GateAgent, tmp_path: Path) -> None:
    async with serve_mcp(agent, tmp_path / "d.sock") as web:
        await web.initialize()
        headers = {"accept": "text/event-stream", **web.session}
        async with web.client.stream("GET", web.address, headers=headers) as stream:
            await web.endpoint.close()
            assert [line async for line in stream.aiter_lines() if line.startswith("data:")] == []


@pytest.mark.parametrize("modern", [False, True])
async def test_a_call_under_way_is_answered_when_the_gateway_stops(
    agent: GateAgent, tmp_path: Path, modern: bool
) -> None:
    async with serve_mcp(agent, tmp_path / "d.sock") as web:
        await web.initialize()
        call = make_call_params("wait")
        asking = web.modern("tools/call", call) if modern else web.post(make_request("tools/call", call, 7))
        answering = asyncio.create_task(asking)
        await asyncio.wait_for(SlowToolEvents.entered.wait(), PATIENCE_S)
        await until(lambda: web.endpoint._late, "the call to be handed over")
        await asyncio.wait_for(web.endpoint.close(), PATIENCE_S)
        answer = parse_answer(await asyncio.wait_for(answering, PATIENCE_S))
    assert answer["id"] == (1 if modern else 7)
    assert answer["result"]["isError"] is True and "is stopping" in answer["result"]["content"][0]["text"]
    assert SlowToolEvents.cancelled.is_set()


async def test_a_stopping_gateway_says_so(agent: GateAgent, tmp_path: Path) -> None:
    async with serve_mcp(agent, tmp_path / "d.sock") as web:
        await web.endpoint.close()
        answer = await web.post(make_request("initialize", INITIALIZE))
        assert answer.status_code == 503
        assert error_of(answer.json())[0] == -32603
