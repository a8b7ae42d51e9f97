"""The bridge between stdio and Streamable HTTP, as a real process: against a scripted server that plays each fault. The
numbers are those of the acceptance checks."""

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from gatepost.serve.agents import bridge

OPENING = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
MODERN = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}


@dataclass
class Asked:
    """A request as the server saw it, and the ways to answer it."""

    verb: str
    path: str
    headers: dict[str, str]
    body: Any
    writer: asyncio.StreamWriter
    connection: int

    @property
    def method(self) -> str:
        return str(self.body.get("method", "")) if isinstance(self.body, dict) else ""

    async def answer(self, status: int, content: object = None, kind: str = "application/json", **more: str) -> None:
        body = b"" if content is None else content if isinstance(content, bytes) else json.dumps(content).encode()
        head = f"HTTP/1.1 {status} X\r\nContent-Length: {len(body)}\r\n"
        head += f"Content-Type: {kind}\r\n" if body else ""
        head += "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in more.items())
        self.writer.write(head.encode() + b"\r\n" + body)
        await self.writer.drain()

    async def result(self, result: object, **more: str) -> None:
        await self.answer(200, {"jsonrpc": "2.0", "id": self.body["id"], "result": result}, **more)

    async def begin_stream(self, **more: str) -> None:
        extra = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in more.items())
        self.writer.write(
            f"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n{extra}\r\n".encode()
        )

    async def raw(self, data: bytes) -> None:
        self.writer.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        await self.writer.drain()

    async def event(self, content: object, event_id: str = "") -> None:
        named = f"id: {event_id}\r\n" if event_id else ""
        await self.raw(f"event: message\r\n{named}data: {json.dumps(content)}\r\n\r\n".encode())

    async def end_stream(self) -> None:
        self.writer.write(b"0\r\n\r\n")
        await self.writer.drain()

    def cut(self) -> None:
        self.writer.transport.abort()


Play = Callable[["Asked"], Awaitable[None]]


@dataclass
class Server:
    """A Streamable HTTP server with sessions; `play` answers by method name what is not as usual."""

    path: Path
    seen: list[Asked] = field(default_factory=list)
    plays: dict[str, Play] = field(default_factory=dict)
    sessions: set[str] = field(default_factory=set)
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)
    count: int = 0
    connections: int = 0
    hung_up: int = 0
    writers: set[asyncio.StreamWriter] = field(default_factory=set)
    server: asyncio.Server | None = None

    @property
    def url(self) -> str:
        return f"unix:{self.path}:/mcp/agents"

    async def start(self) -> None:
        self.server = await asyncio.start_unix_server(self._serve, self.path, limit=2**25)

    async def stop(self) -> None:
        """As a daemon that was ended: what it knew is gone."""
        if self.server is not None:
            self.server.close()
            for writer in list(self.writers):
                writer.transport.abort()
            await self.server.wait_closed()
        self.path.unlink(missing_ok=True)
        self.sessions.clear()
        self.server = None

    async def until(self, true: Callable[[], bool]) -> None:
        async with asyncio.timeout(20), self.changed:
            await self.changed.wait_for(true)

    def methods(self) -> list[str]:
        return [asked.method or asked.verb for asked in self.seen]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.writers.add(writer)
        connection = self.connections
        try:
            while asked := await self._asked(reader, writer, connection):
                async with self.changed:
                    self.seen.append(asked)
                    self.changed.notify_all()
                watch = asyncio.create_task(reader.read(1)) if asked.method.startswith("hold") else None
                await self.plays.get(asked.method or asked.verb, self._usual)(asked)
                if watch is not None and await watch == b"":
                    break
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            self.writers.discard(writer)
            writer.close()
            async with self.changed:
                self.hung_up += 1
                self.changed.notify_all()

    async def _asked(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, connection: int) -> Asked | None:
        head = await reader.readuntil(b"\r\n\r\n")
        first, *lines = head.decode().split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines) if name}
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        verb, path, _ = first.split(" ")
        return Asked(verb, path, headers, json.loads(body) if body else None, writer, connection)

    async def _usual(self, asked: Asked) -> None:
        session = asked.headers.get("mcp-session-id", "")
        if asked.method == "initialize":
            self.count += 1
            self.sessions.add(f"s{self.count}")
            await asked.result({"protocolVersion": "2025-11-25", "capabilities": {}}, Mcp_Session_Id=f"s{self.count}")
        elif "mcp-method" not in asked.headers and session not in self.sessions:
            await asked.answer(404 if session else 400, error(None, -32600, "no such session"))
        elif asked.verb == "GET":
            await asked.answer(405)
        elif asked.verb == "DELETE":
            self.sessions.discard(session)
            await asked.answer(200)
        elif "id" not in asked.body or "method" not in asked.body:
            await asked.answer(202)
        else:
            await asked.result({"echo": asked.body.get("params")})


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    served = Server(tmp_path / "control.sock")
    await served.start()
    yield served
    await served.stop()


def error(request: object, code: int, text: str) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": request, "error": {"code": code, "message": text}}


def line(method: str, request: object = None, params: object = None) -> bytes:
    message = {"jsonrpc": "2.0", "method": method, "params": {} if params is None else params}
    if request is not None:
        message["id"] = request
    return json.dumps(message).encode() + b"\n"


def called(request: object, name: str = "echo", **arguments: object) -> bytes:
    return line("tools/call", request, {"name": name, "arguments": arguments})


READY = line("initialize", 0, OPENING) + line("notifications/initialized")


class Bridged:
    """A running bridge, spoken to as a client speaks to it."""

    def __init__(self, process: Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self.process, self.stdin, self.stdout = process, process.stdin, process.stdout

    def say(self, *lines: bytes) -> None:
        self.stdin.write(b"".join(lines))

    async def hear(self) -> dict[str, Any]:
        found = await asyncio.wait_for(self.stdout.readline(), 20)
        assert found.endswith(b"\n"), "the bridge has ended"
        heard: dict[str, Any] = json.loads(found)
        return heard

    async def open(self) -> None:
        self.say(READY)
        assert (await self.hear())["id"] == 0

    async def end(self) -> tuple[list[dict[str, Any]], str, int | None]:
        """(what else it said, stderr, exit code) after stdin has ended."""
        out, errors = await asyncio.wait_for(self.process.communicate(b""), 30)
        return [json.loads(each) for each in out.splitlines()], errors.decode(), self.process.returncode


@contextlib.asynccontextmanager
async def bridged(url: str, token_file: str = "", limit: int = 2**25) -> AsyncIterator[Bridged]:
    process = await asyncio.create_subprocess_exec(
        *bridge.command(url, token_file), stdin=PIPE, stdout=PIPE, stderr=PIPE, limit=limit
    )
    try:
        yield Bridged(process)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def through(url: str, data: bytes) -> tuple[list[dict[str, Any]], str, int | None]:
    async with bridged(url) as client:
        client.say(data)
        return await client.end()


# What passes.


async def test_check_30_two_requests_and_a_notification_give_exactly_two_lines(server: Server) -> None:
    answers, errors, code = await through(server.url, READY + line("tools/list", "two"))
    assert [answer["id"] for answer in answers] == [0, "two"]
    assert (errors, code) == ("", 0)

    opening, ready, *_ = posts = [asked for asked in server.seen if asked.verb == "POST"]
    assert [asked.method for asked in posts] == ["initialize", "notifications/initialized", "tools/list"]
    assert {asked.path for asked in server.seen} == {"/mcp/agents"}
    assert "mcp-session-id" not in opening.headers
    assert "mcp-protocol-version" not in opening.headers
    for asked in (ready, posts[2]):
        assert (asked.headers["mcp-session-id"], asked.headers["mcp-protocol-version"]) == ("s1", "2025-11-25")
        assert asked.headers["accept"] == "application/json, text/event-stream"
        assert asked.headers["content-type"] == "application/json"


async def test_check_30_the_version_is_learnt_from_an_event_stream_as_well(server: Server) -> None:
    async def open_by_stream(asked: Asked) -> None:
        server.sessions.add("streamed")
        await asked.begin_stream(Mcp_Session_Id="streamed")
        await asked.event({"jsonrpc": "2.0", "id": asked.body["id"], "result": {"protocolVersion": "2025-06-18"}})
        await asked.end_stream()

    server.plays["initialize"] = open_by_stream
    answers, _, _ = await through(server.url, READY + line("tools/list", 1))
    assert [answer["id"] for answer in answers] == [0, 1]
    (listed,) = [asked for asked in server.seen if asked.method == "tools/list"]
    assert (listed.headers["mcp-session-id"], listed.headers["mcp-protocol-version"]) == ("streamed", "2025-06-18")


async def test_check_31_a_bad_line_between_good_ones_gives_one_minus_32700(server: Server) -> None:
    answers, errors, code = await through(server.url, READY + b"{bad\n\n" + line("tools/list", 1))
    assert sorted(str(answer["id"]) for answer in answers) == ["0", "1", "None"]
    (bad,) = [answer for answer in answers if answer["id"] is None]
    assert bad["error"]["code"] == -32700
    assert "{bad" not in errors
    assert code == 0


@pytest.mark.parametrize(
    ("bad", "request_id"), [(b"7", None), (b"[]", None), (b'{"id":4}', 4), (b'{"id":true,"method":"x"}', None)]
)
async def test_check_31_what_is_no_message_gets_minus_32600(server: Server, bad: bytes, request_id: object) -> None:
    answers, _, _ = await through(server.url, bad + b"\n")
    assert [(answer["id"], answer["error"]["code"]) for answer in answers] == [(request_id, -32600)]


async def test_check_32_a_missing_socket_is_told_to_the_right_request_and_the_next_one_works(tmp_path: Path) -> None:
    served = Server(tmp_path / "control.sock")
    async with bridged(served.url) as client:
        client.say(READY)
        away = await client.hear()
        assert (away["id"], away["error"]["code"]) == (0, -32603)
        assert "gatepost up" in away["error"]["message"]
        await served.start()
        client.say(called(1, text="hello"))
        assert (await client.hear())["result"]["echo"]["arguments"] == {"text": "hello"}
        rest, _, code = await client.end()
    assert (rest, code) == ([], 0)
    await served.stop()


async def test_check_33_a_restarted_daemon_is_opened_once_more_with_the_clients_own_words(server: Server) -> None:
    async with bridged(server.url) as client:
        await client.open()
        client.say(called(1))
        await client.hear()
        await server.stop()
        await server.start()
        client.say(called(2), called(3), called(4))
        answers = [await client.hear() for _ in range(3)]
        rest, _, code = await client.end()
    assert sorted(answer["id"] for answer in answers) == [2, 3, 4]
    assert all("result" in answer for answer in answers)
    assert (rest, code) == ([], 0)
    openings = [asked.body for asked in server.seen if asked.method == "initialize"]
    assert openings == [json.loads(line("initialize", 0, OPENING))] * 2
    assert server.methods().count("notifications/initialized") == 2
    assert server.seen[-1].verb == "DELETE"
    assert server.seen[-1].headers["mcp-session-id"] == "s2"


async def test_check_33_so_is_one_that_says_400_for_a_session_it_does_not_know(server: Server) -> None:
    async def old_fashioned(asked: Asked) -> None:
        if asked.headers["mcp-session-id"] == "s1":
            await asked.answer(400, error(None, -32000, "missing or invalid session"))
        else:
            await asked.result("new")

    server.plays["tools/call"] = old_fashioned
    answers, _, _ = await through(server.url, READY + called(1))
    assert [answer["id"] for answer in answers] == [0, 1]
    assert answers[1]["result"] == "new"


@pytest.mark.parametrize("status", [404, 400])
async def test_check_33_a_server_that_never_knows_its_sessions_is_asked_twice_and_no_more(
    server: Server, status: int
) -> None:
    async def forgetful(asked: Asked) -> None:
        await asked.answer(status, error(None, -32600, "no such session"))

    server.plays["tools/call"] = forgetful
    answers, _, _ = await through(server.url, READY + called(1))
    assert [answer["id"] for answer in answers] == [0, 1]
    assert answers[1]["error"] == {"code": -32600, "message": "no such session"}
    assert server.methods().count("tools/call") == 2


async def test_check_33_a_request_at_fault_costs_nobody_the_session(server: Server) -> None:
    async def refuse(asked: Asked) -> None:
        await asked.answer(400, error(None, -32602, "no"))

    server.plays["tools/call"] = refuse
    answers, _, _ = await through(server.url, READY + called(1))
    assert answers[1] == error(1, -32602, "no")
    assert server.methods().count("initialize") == 1


async def test_check_34_a_stream_is_passed_on_as_it_comes(server: Server) -> None:
    heard = asyncio.Event()

    async def progress(asked: Asked) -> None:
        await asked.begin_stream()
        for step in range(3):
            await asked.event({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progress": step}})
            await heard.wait()
            heard.clear()
        data = json.dumps({"jsonrpc": "2.0", "id": 1, "result": "ü"}, indent=1, ensure_ascii=False).encode()
        await asked.raw(b": ping\n\n" + b"".join(b"data: " + each + b"\n" for each in data.splitlines())[:20])
        await asked.raw(b"".join(b"data: " + each + b"\n" for each in data.splitlines())[20:] + b"\n")
        await asked.end_stream()

    server.plays["tools/call"] = progress
    async with bridged(server.url) as client:
        await client.open()
        client.say(called(1))
        for step in range(3):
            assert (await client.hear())["params"] == {"progress": step}
            heard.set()
        assert (await client.hear())["result"] == "ü"


async def test_check_34_a_stream_that_is_cut_gives_an_error_for_its_request_and_the_next_works(server: Server) -> None:
    async def half(asked: Asked) -> None:
        if asked.body["id"] != 1:
            return await asked.result("whole")
        await asked.begin_stream()
        await asked.event({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progress": 1}})
        asked.cut()
        return None

    server.plays["tools/call"] = half
    async with bridged(server.url) as client:
        await client.open()
        client.say(called(1))
        assert (await client.hear())["method"] == "notifications/progress"
        broken = await client.hear()
        assert (broken["id"], broken["error"]["code"]) == (1, -32603)
        client.say(called(2))
        assert (await client.hear())["result"] == "whole"


async def test_check_34_a_stream_with_event_ids_goes_on_where_it_was_cut(server: Server) -> None:
    async def polled(asked: Asked) -> None:
        await asked.begin_stream()
        await asked.raw(b"id: e7\nretry: 10\ndata:\n\n")
        asked.cut()

    async def resumed(asked: Asked) -> None:
        if "last-event-id" not in asked.headers:
            return await asked.answer(405)
        await asked.begin_stream()
        await asked.event({"jsonrpc": "2.0", "id": 1, "result": asked.headers["last-event-id"]})
        return await asked.end_stream()

    server.plays |= {"tools/call": polled, "GET": resumed}
    answers, _, _ = await through(server.url, READY + called(1))
    assert answers[1]["result"] == "e7"


async def test_check_34_a_client_that_does_not_read_stops_the_stream(server: Server) -> None:
    sent = 0
    piece = {"jsonrpc": "2.0", "method": "notifications/progress", "params": {"text": "x" * 65536}}

    async def flood(asked: Asked) -> None:
        nonlocal sent
        await asked.begin_stream()
        for _ in range(400):
            await asked.event(piece)
            sent += 1
            async with server.changed:
                server.changed.notify_all()
        await asked.event({"jsonrpc": "2.0", "id": 1, "result": "all"})
        await asked.end_stream()

    server.plays["tools/call"] = flood
    async with bridged(server.url, limit=70_000) as client:
        await client.open()
        client.say(called(1))
        await server.until(lambda: sent > 5)
        before = -1
        while before != sent:  # it stands still before all is sent
            before = sent
            client.say(line("notifications/other", None))
            await asyncio.wait_for(server_idle(server), 20)
        assert sent < 100
        for _ in range(400):
            assert (await client.hear())["method"] == "notifications/progress"
        assert (await client.hear())["result"] == "all"


async def server_idle(server: Server) -> None:
    """Ten notifications have come through, one after the other: time enough for a stream that runs."""
    count = server.methods().count("notifications/other")
    await server.until(lambda: server.methods().count("notifications/other") >= max(1, count))


async def test_check_35_a_quick_call_overtakes_a_slow_one_which_is_cancelled(server: Server) -> None:
    cancelled = asyncio.Event()

    async def work(asked: Asked) -> None:
        if asked.body["params"]["name"] == "slow":
            await cancelled.wait()
            await asked.result("stopped")
        else:
            await asked.result("quick")

    async def cancel(asked: Asked) -> None:
        await asked.answer(202)
        cancelled.set()

    server.plays |= {"tools/call": work, "notifications/cancelled": cancel}
    async with bridged(server.url) as client:
        await client.open()
        client.say(called(1, "slow"), called(2, "quick"))
        assert (await client.hear())["result"] == "quick"
        client.say(line("notifications/cancelled", None, {"requestId": 1}))
        assert (await client.hear())["result"] == "stopped"
        rest, _, code = await client.end()
    assert (rest, code) == ([], 0)
    assert server.seen[-1].verb == "DELETE"
    assert server.sessions == set()


async def test_check_35_a_cancelled_request_that_nobody_answers_is_let_go_in_silence(server: Server) -> None:
    async def never(asked: Asked) -> None:
        await asyncio.Event().wait()

    server.plays["tools/call"] = never
    async with bridged(server.url) as client:
        await client.open()
        client.say(called(1))
        await server.until(lambda: "tools/call" in server.methods())
        client.say(line("notifications/cancelled", None, {"requestId": 1}))
        rest, _, code = await client.end()
    assert (rest, code) == ([], 0)
    assert "notifications/cancelled" in server.methods()


async def test_check_35_what_is_in_flight_at_the_end_of_stdin_is_answered(server: Server) -> None:
    go = asyncio.Event()

    async def slow(asked: Asked) -> None:
        await go.wait()
        await asked.result("late")

    server.plays["tools/call"] = slow
    async with bridged(server.url) as client:
        await client.open()
        client.say(called(1))
        await server.until(lambda: "tools/call" in server.methods())
        ending = asyncio.create_task(client.end())
        go.set()
        rest, _, code = await ending
    assert [(answer["id"], answer["result"]) for answer in rest] == [(1, "late")]
    assert code == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_check_35_a_signal_ends_it_with_every_request_answered(server: Server, number: signal.Signals) -> None:
    async def never(asked: Asked) -> None:
        await asyncio.Event().wait()

    server.plays["tools/call"] = never
    async with bridged(server.url) as client:
        await client.open()
        client.say(called(1), called(2))
        await server.until(lambda: server.methods().count("tools/call") == 2)
        client.process.send_signal(number)
        out = await asyncio.wait_for(client.stdout.read(), 20)
        assert await client.process.wait() == 0
    assert sorted(json.loads(each)["id"] for each in out.splitlines()) == [1, 2]
    assert server.seen[-1].verb == "DELETE"


async def test_it_ends_when_nobody_reads_it(server: Server) -> None:
    reading, writing = os.pipe()
    process = await asyncio.create_subprocess_exec(*bridge.command(server.url), stdin=PIPE, stdout=writing)
    os.close(writing)
    assert process.stdin is not None
    process.stdin.write(READY)
    await server.until(lambda: "notifications/initialized" in server.methods())
    os.close(reading)
    assert await asyncio.wait_for(process.wait(), 20) == 0
    assert server.seen[-1].verb == "DELETE"
