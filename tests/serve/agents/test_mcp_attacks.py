"""Clients of MCP over HTTP that leave, do not read, or send half: nothing is lost, kept for ever, or done twice."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from gatepost.core.errors import Unavailable
from gatepost.gate.mcp_protocol import MOST_IN_FLIGHT
from gatepost.serve.agents import mcp_endpoint
from gatepost.serve.agents.http_session import McpHttpSession
from gatepost_testing.clients.mcp_http_client import (
    BOTH,
    ENVELOPE,
    INITIALIZE,
    McpHttpClient,
    make_call_params,
    make_request,
)
from gatepost_testing.gate_agent import GateAgent
from gatepost_testing.sample_tools import SlowToolEvents
from gatepost_testing.waiting import PATIENCE_S, until

WAIT = json.dumps(make_request("tools/call", make_call_params("wait"), 7)).encode()
MODERN = {"mcp-protocol-version": "2026-07-28", "mcp-method": "subscriptions/listen"}


@pytest.fixture
async def old(web: McpHttpClient) -> McpHttpClient:
    await web.initialize()
    return web


def session_of(web: McpHttpClient) -> McpHttpSession:
    return web.endpoint.sessions[web.session["mcp-session-id"]]


def head(web: McpHttpClient, size: int, accept: str = BOTH, **more: str) -> bytes:
    given = {
        "host": "localhost",
        "content-type": "application/json",
        "content-length": str(size),
        **web.session,
        **more,
    }
    lines = [
        f"POST {web.address} HTTP/1.1",
        f"accept: {accept}",
        *(f"{name}: {value}" for name, value in given.items()),
    ]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


@contextlib.asynccontextmanager
async def connect(web: McpHttpClient) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_unix_connection(str(web.path))
    try:
        yield reader, writer
    finally:
        writer.transport.abort()


async def read_head(reader: asyncio.StreamReader) -> bytes:
    return await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), PATIENCE_S)


@pytest.mark.parametrize("modern", [False, True])
@pytest.mark.parametrize("tool", ["measure", "echo"])
async def test_a_call_that_breaks_is_answered(
    old: McpHttpClient, agent: GateAgent, monkeypatch: pytest.MonkeyPatch, modern: bool, tool: str
) -> None:
    async def broken(caller: Any) -> Any:
        raise Unavailable("the store", "it is away")

    monkeypatch.setattr(agent.dispatch, "_turn_of", broken)
    call = make_call_params(tool, text="x")
    asking = old.modern("tools/call", call) if modern else old.post(make_request("tools/call", call, 7))
    answer = (await asyncio.wait_for(asking, PATIENCE_S)).json()
    assert answer["result"]["isError"] is True and "it is away" in answer["result"]["content"][0]["text"]


async def test_calls_whose_clients_left_are_bounded(old: McpHttpClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mcp_endpoint, "MOST_IN_FLIGHT", 3)
    assert MOST_IN_FLIGHT > 3
    refused = 0
    for number in range(6):
        body = json.dumps(make_request("tools/call", make_call_params("wait"), number)).encode()
        async with connect(old) as (reader, writer):
            writer.write(head(old, len(body)) + body)
            refused += b"text/event-stream" not in await read_head(reader)
    assert (len(session_of(old).calls), refused) == (3, 3)


async def test_no_call_begins_in_a_session_that_was_ended(old: McpHttpClient) -> None:
    async with connect(old) as (reader, writer):
        writer.write(head(old, len(WAIT)) + WAIT[:20])
        await until(lambda: old.endpoint._posting, "the request to begin")
        assert (await old.client.delete(old.address, headers=old.session)).status_code == 200
        writer.write(WAIT[20:])
        assert b" 404 " in await read_head(reader)
    assert not SlowToolEvents.entered.is_set()


@pytest.mark.parametrize("modern", [False, True])
async def test_a_call_that_has_just_begun_is_answered_when_the_gateway_stops(old: McpHttpClient, modern: bool) -> None:
    call = make_call_params("wait")
    asking = old.modern("tools/call", call) if modern else old.post(make_request("tools/call", call, 7))
    answering = asyncio.create_task(asking)
    await asyncio.wait_for(SlowToolEvents.entered.wait(), PATIENCE_S)
    await old.endpoint.close()
    assert "is stopping" in (await asyncio.wait_for(answering, PATIENCE_S)).text


async def test_a_body_that_ends_when_the_gateway_has_stopped_starts_nothing(
    old: McpHttpClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mcp_endpoint, "FAREWELL_S", 0.0)
    async with connect(old) as (reader, writer):
        writer.write(head(old, len(WAIT)) + WAIT[:20])
        await until(lambda: old.endpoint._posting, "the request to begin")
        await old.endpoint.close()
        writer.write(WAIT[20:])
        assert b" 503 " in await read_head(reader)
    assert not SlowToolEvents.entered.is_set()


@pytest.mark.parametrize("ends", ["cancel", "delete"])
async def test_a_reader_that_does_not_read_keeps_no_call(old: McpHttpClient, ends: str) -> None:
    session = session_of(old)
    more_than_buffers_hold = {"number": 1000, "padding": 20_000}
    call = make_call_params("count_to", {"progressToken": 1}, **more_than_buffers_hold)
    body = json.dumps(make_request("tools/call", call, 7)).encode()
    async with connect(old) as (_, writer):
        writer.write(head(old, len(body)) + body)
        await until(lambda: old.endpoint._writing, "the stream to open")
        if ends == "cancel":
            told = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}}
            assert (await old.post(told)).status_code == 202
        else:
            await old.client.delete(old.address, headers=old.session)
        await until(lambda: not session.calls and not old.endpoint._late, "the call to end")


async def test_a_body_that_was_cut_is_not_taken_for_a_whole_one(old: McpHttpClient) -> None:
    async with connect(old) as (_, writer):
        writer.write(head(old, len(WAIT) + 50) + WAIT)
        await until(lambda: old.endpoint._posting, "the request to begin")
    await until(lambda: not old.endpoint._posting, "the request to end")
    assert not SlowToolEvents.entered.is_set()


async def test_a_client_may_accept_in_two_lines(old: McpHttpClient) -> None:
    body = json.dumps(make_request("ping")).encode()
    async with connect(old) as (reader, writer):
        writer.write(head(old, len(body), "application/json\r\naccept: text/event-stream") + body)
        assert b" 200 " in await read_head(reader)


async def test_subscriptions_to_nothing_count_as_well(web: McpHttpClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mcp_endpoint, "MOST_LISTENING", 2)
    body = json.dumps(make_request("subscriptions/listen", {"_meta": ENVELOPE, "notifications": {}}, 5)).encode()
    async with contextlib.AsyncExitStack() as stack:
        opened = []
        for _ in range(4):
            reader, writer = await stack.enter_async_context(connect(web))
            writer.write(head(web, len(body), **MODERN) + body)
            opened.append(b"text/event-stream" in await read_head(reader))
    assert opened == [True, True, False, False]


async def test_one_caller_does_not_take_the_sessions_of_all(
    web: McpHttpClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mcp_endpoint, "MOST_SESSIONS", 5)
    monkeypatch.setattr(mcp_endpoint, "MOST_OF_CALLER", 4)
    for _ in range(6):
        made = await web.post(make_request("initialize", INITIALIZE, 0), address="/mcp/groups/acme")
        assert made.status_code == 200
    assert (await web.post(make_request("initialize", INITIALIZE, 0))).status_code == 200
    assert len(web.endpoint.sessions) == 5


async def test_an_old_event_of_an_id_that_is_used_again_leads_to_its_own_stream(old: McpHttpClient) -> None:
    call = make_call_params("count_to", {"progressToken": 1}, number=2)
    first = (await old.post(make_request("tools/call", call, 7))).text
    event = next(line for line in first.splitlines() if line.startswith("id:")).removeprefix("id:").strip()
    asking = asyncio.create_task(old.post(make_request("tools/call", make_call_params("wait"), 7)))
    await until(lambda: old.endpoint._writing, "the second call to become a stream")
    async with old.streamed("GET", None, {**old.session, "last-event-id": event}) as stream:
        rest = [line async for line in stream.aiter_lines() if line.startswith("data: {")]
    SlowToolEvents.opened.set()
    assert "waited" in (await asyncio.wait_for(asking, PATIENCE_S)).text
    assert rest and not any("waited" in line for line in rest)
