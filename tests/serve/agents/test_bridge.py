"""The bridge between stdio and Streamable HTTP, as a real process: against a scripted server that plays each fault. The
numbers are those of the acceptance checks."""

import asyncio
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from gatepost.serve.agents import bridge
from gatepost.serve.agents.bridge.http import parse_url
from gatepost_testing.waiting import PATIENCE_S

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

    async def vanish(self) -> None:
        """Stop, and be gone for good: nobody can send to a connection that is still to be closed."""
        await self.stop()
        await self.until(lambda: self.hung_up == self.connections)

    async def until(self, true: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE_S), self.changed:
            await self.changed.wait_for(true)

    async def told_more_than(self, count: int) -> None:
        await self.until(lambda: self.methods().count("notifications/other") > count)

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
        found = await asyncio.wait_for(self.stdout.readline(), PATIENCE_S)
        assert found.endswith(b"\n"), "the bridge has ended"
        heard: dict[str, Any] = json.loads(found)
        return heard

    async def open(self) -> None:
        self.say(READY)
        assert (await self.hear())["id"] == 0

    async def end(self) -> tuple[list[dict[str, Any]], str, int | None]:
        """(what else it said, stderr, exit code) after stdin has ended."""
        out, errors = await asyncio.wait_for(self.process.communicate(b""), PATIENCE_S)
        return [json.loads(each) for each in out.splitlines()], errors.decode(), self.process.returncode


@contextlib.asynccontextmanager
async def bridged(
    url: str, token_file: str = "", limit: int = 2**25, patience_s: float = PATIENCE_S
) -> AsyncIterator[Bridged]:
    """`patience_s`: how long it waits for answers when its client has ended."""
    words = bridge.command(url, token_file)
    command = [each.replace("sys.exit", f"bridge.PATIENCE_S = {patience_s}; sys.exit") for each in words]
    process = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE, stderr=PIPE, limit=limit)
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


async def test_paseo_30_two_requests_and_a_notification_give_exactly_two_lines(server: Server) -> None:
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


async def test_paseo_30_the_version_is_learnt_from_an_event_stream_as_well(server: Server) -> None:
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


async def test_paseo_31_a_bad_line_between_good_ones_gives_one_minus_32700(server: Server) -> None:
    answers, errors, code = await through(server.url, READY + b"{bad\n\n" + line("tools/list", 1))
    assert sorted(str(answer["id"]) for answer in answers) == ["0", "1", "None"]
    (bad,) = [answer for answer in answers if answer["id"] is None]
    assert bad["error"]["code"] == -32700
    assert "{bad" not in errors
    assert code == 0


@pytest.mark.parametrize(
    ("bad", "request_id"),
    [
        (b'{"id":"\\ud800"}', "\ud800"),
        (b"7", None),
        (b"[]", None),
        (b'{"id":4}', 4),
        (b'{"id":true,"method":"x"}', None),
    ],
)
async def test_paseo_31_what_is_no_message_gets_minus_32600(server: Server, bad: bytes, request_id: object) -> None:
    answers, _, _ = await through(server.url, bad + b"\n")
    assert [(answer["id"], answer["error"]["code"]) for answer in answers] == [(request_id, -32600)]


async def test_paseo_32_a_missing_socket_is_told_to_the_right_request_and_the_next_one_works(
    tmp_path: Path,
) -> None:
    served = Server(tmp_path / "control.sock")
    async with bridged(served.url) as client:
        client.say(READY)
        away = await client.hear()
        assert (away["id"], away["error"]["code"]) == (0, -32603)
        assert "gatepost up" in away["error"]["message"]
        await served.start()
        client.say(called(1, text="hello"))
        assert (await client.hear())["result"]["echo"]["arguments"] == {"text": "hello"}
        rest, told, code = await client.end()
    assert (rest, code) == ([], 0)
    assert "does not know the session" not in told  # there was none to know
    await served.stop()


async def test_paseo_33_a_restarted_daemon_is_opened_once_more_with_the_clients_own_words(server: Server) -> None:
    async with bridged(server.url) as client:
        await client.open()
        client.say(called(1))
        await client.hear()
        await server.vanish()
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


@pytest.mark.parametrize("cut", ["initialize", "notifications/initialized"])
async def test_a_daemon_that_ends_while_the_session_is_opened_anew_costs_no_call(server: Server, cut: str) -> None:
    left = 2

    async def end(asked: Asked) -> None:
        nonlocal left
        left -= 1
        if not left:
            del server.plays[cut]
        server.sessions.clear()
        asked.cut()

    async with bridged(server.url) as client:
        await client.open()
        await server.until(lambda: "notifications/initialized" in server.methods())
        await server.vanish()
        server.plays[cut] = end
        await server.start()
        client.say(*(called(number) for number in range(1, 21)))
        answers = [await client.hear() for _ in range(20)]
        rest, _, code = await client.end()
    assert sorted(answer["id"] for answer in answers) == list(range(1, 21))
    assert all("result" in answer for answer in answers), answers
    assert (rest, code, left) == ([], 0, 0)


async def test_a_daemon_that_always_ends_while_the_session_is_opened_anew_is_left_and_all_are_told_the_same(
    server: Server,
) -> None:
    async def end(asked: Asked) -> None:
        asked.cut()

    async with bridged(server.url) as client:
        await client.open()
        server.sessions.clear()
        server.plays["initialize"] = end
        client.say(*(called(number) for number in range(1, 6)))
        told = {answer["error"]["message"] for answer in [await client.hear() for _ in range(5)]}
        assert told == {"the gateway hangs up whenever another session is opened; the call was not sent"}
        server.plays.clear()
        client.say(called(6))
        assert "result" in await client.hear()


async def test_a_call_to_a_daemon_that_is_being_restarted_waits_for_it(server: Server) -> None:
    async with bridged(server.url) as client:
        await client.open()
        await server.vanish()
        client.say(called(1))
        for _ in range(2):  # the answer to the second line comes after the first try of the call
            client.say(b"no message\n")
            assert (await client.hear())["error"]["code"] == -32700
        await server.start()
        assert "result" in await client.hear()


@pytest.mark.slow
async def test_a_daemon_that_stays_away_is_told_and_its_return_is_noticed(server: Server) -> None:
    async with bridged(server.url) as client:
        await client.open()
        await server.vanish()
        for number in (1, 2):
            client.say(called(number))
            answer = await client.hear()
            assert answer["id"] == number
            assert answer["error"]["message"].startswith("no gateway answers")
        await server.start()
        client.say(called(3))
        assert "result" in await client.hear()


async def test_paseo_33_so_is_one_that_says_400_for_a_session_it_does_not_know(server: Server) -> None:
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
async def test_paseo_33_a_server_that_never_knows_its_sessions_is_asked_twice_and_no_more(
    server: Server, status: int
) -> None:
    async def forgetful(asked: Asked) -> None:
        await asked.answer(status, error(None, -32600, "no such session"))

    server.plays["tools/call"] = forgetful
    answers, _, _ = await through(server.url, READY + called(1))
    assert [answer["id"] for answer in answers] == [0, 1]
    assert answers[1]["error"] == {"code": -32600, "message": "no such session"}
    assert server.methods().count("tools/call") == 2


async def test_paseo_33_a_request_at_fault_costs_nobody_the_session(server: Server) -> None:
    async def refuse(asked: Asked) -> None:
        await asked.answer(400, error(None, -32602, "no"))

    server.plays["tools/call"] = refuse
    answers, _, _ = await through(server.url, READY + called(1))
    assert answers[1] == error(1, -32602, "no")
    assert server.methods().count("initialize") == 1


async def test_paseo_34_a_stream_is_passed_on_as_it_comes(server: Server) -> None:
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


async def test_paseo_34_a_stream_that_is_cut_gives_an_error_for_its_request_and_the_next_works(
    server: Server,
) -> None:
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


async def test_paseo_34_a_stream_with_event_ids_goes_on_where_it_was_cut(server: Server) -> None:
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


@pytest.mark.slow
async def test_paseo_34_a_client_that_does_not_read_stops_the_stream(server: Server) -> None:
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
        still, before = 0, -1
        while still < 20:  # messages still go up, while nothing more comes down
            before, still = sent, still + 1 if sent == before else 0
            told = server.methods().count("notifications/other")
            client.say(line("notifications/other"))
            await server.told_more_than(told)
        assert sent < 100
        for _ in range(400):
            assert (await client.hear())["method"] == "notifications/progress"
        assert (await client.hear())["result"] == "all"


async def test_paseo_35_a_quick_call_overtakes_a_slow_one_which_is_cancelled(server: Server) -> None:
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


async def test_paseo_35_a_cancelled_request_that_nobody_answers_is_let_go_in_silence(server: Server) -> None:
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


async def test_paseo_35_what_is_in_flight_at_the_end_of_stdin_is_answered(server: Server) -> None:
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
async def test_paseo_35_a_signal_ends_it_with_every_request_answered(server: Server, number: signal.Signals) -> None:
    async def never(asked: Asked) -> None:
        await asyncio.Event().wait()

    server.plays["tools/call"] = never
    async with bridged(server.url) as client:
        await client.open()
        client.say(called(1), called(2))
        await server.until(lambda: server.methods().count("tools/call") == 2)
        client.process.send_signal(number)
        out = await asyncio.wait_for(client.stdout.read(), PATIENCE_S)
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
    assert await asyncio.wait_for(process.wait(), PATIENCE_S) == 0
    assert server.seen[-1].verb == "DELETE"


async def test_what_takes_too_long_after_the_end_of_stdin_is_answered_with_an_error(server: Server) -> None:
    async def never(asked: Asked) -> None:
        await asyncio.Event().wait()

    server.plays["tools/call"] = never
    command = [each.replace("sys.exit", "bridge.PATIENCE_S = 0.1; sys.exit") for each in bridge.command(server.url)]
    process = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE)
    out, _ = await asyncio.wait_for(process.communicate(READY + called(1)), PATIENCE_S)
    answers = [json.loads(each) for each in out.splitlines()]
    assert [(answer["id"], "error" in answer) for answer in answers] == [(0, False), (1, True)]
    assert process.returncode == 0
    assert server.seen[-1].verb == "DELETE"


# The stateless revision.


async def test_a_stateless_client_has_its_method_and_name_in_headers_and_no_session(server: Server) -> None:
    asks = {"_meta": MODERN, "name": "größe", "arguments": {}}
    data = line("server/discover", 1, {"_meta": MODERN}) + line("tools/call", 2, asks)
    answers, errors, code = await through(server.url, data)
    assert sorted(answer["id"] for answer in answers) == [1, 2]
    assert (errors, code) == ("", 0)
    heads = {asked.method: asked.headers for asked in server.seen}
    assert set(heads) == {"server/discover", "tools/call"}
    assert all(head["mcp-protocol-version"] == "2026-07-28" for head in heads.values())
    assert all("mcp-session-id" not in head for head in heads.values())
    assert [heads[method]["mcp-method"] for method in heads] == list(heads)
    assert heads["tools/call"]["mcp-name"] == "=?base64?Z3LDtsOfZQ==?="
    assert "mcp-name" not in heads["server/discover"]


async def test_a_stateless_client_cancels_by_hanging_up(server: Server) -> None:
    async def never(asked: Asked) -> None:
        await asked.begin_stream()
        await asked.event({"jsonrpc": "2.0", "method": "notifications/progress", "params": {}})

    server.plays["hold"] = never
    async with bridged(server.url) as client:
        client.say(line("hold", 1, {"_meta": MODERN}))
        assert (await client.hear())["method"] == "notifications/progress"
        client.say(line("notifications/cancelled", None, {"requestId": 1}))
        await server.until(lambda: server.hung_up == 1)
        client.say(line("tools/list", 1, {"_meta": MODERN}))  # the number is free again
        assert "result" in await client.hear()
        rest, _, code = await client.end()
    assert (rest, code) == ([], 0)
    assert "notifications/cancelled" not in server.methods()


async def test_a_stateless_client_does_not_wait_for_its_subscription_when_it_ends(server: Server) -> None:
    async def hold(asked: Asked) -> None:
        await asked.begin_stream()
        await asked.event({"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": {}})
        await asyncio.Event().wait()

    server.plays["subscriptions/listen"] = hold
    async with bridged(server.url, patience_s=2 * PATIENCE_S) as client:
        client.say(line("subscriptions/listen", "s", {"_meta": MODERN}))
        assert "acknowledged" in (await client.hear())["method"]
        rest, _, code = await client.end()
    assert [(answer["id"], answer["error"]["code"]) for answer in rest] == [("s", -32603)]
    assert code == 0


async def test_a_server_without_the_stateless_revision_is_opened_by_handshake_afterwards(server: Server) -> None:
    async def unknown(asked: Asked) -> None:
        await asked.answer(404)

    server.plays["server/discover"] = unknown
    async with bridged(server.url) as client:
        client.say(line("server/discover", "probe", {"_meta": MODERN}))
        refused = await client.hear()
        assert (refused["id"], refused["error"]["code"]) == ("probe", -32601)
        await client.open()
        client.say(called(1))
        assert "result" in await client.hear()
    assert server.seen[-1].headers["mcp-protocol-version"] == "2025-11-25"


# Server messages.


async def test_messages_of_the_server_arrive_and_the_stream_is_opened_again_where_it_ended(server: Server) -> None:
    async def stream(asked: Asked) -> None:
        last = asked.headers.get("last-event-id", "0")
        await asked.begin_stream()
        await asked.raw(b"retry: 10\n\n")
        await asked.event({"jsonrpc": "2.0", "method": "notifications/told", "params": {"after": last}}, f"{last}x")
        if last == "0":
            await asked.end_stream()
        elif last == "0x":
            asked.cut()
        else:
            await asyncio.Event().wait()

    server.plays["GET"] = stream
    async with bridged(server.url) as client:
        await client.open()
        assert [(await client.hear())["params"]["after"] for _ in range(3)] == ["0", "0x", "0xx"]
        rest, _, code = await client.end()
    assert (rest, code) == ([], 0)


async def test_a_question_of_the_server_and_its_answer_pass(server: Server) -> None:
    async def stream(asked: Asked) -> None:
        await asked.begin_stream()
        await asked.event({"jsonrpc": "2.0", "id": 1, "method": "roots/list"})
        await asyncio.Event().wait()

    server.plays["GET"] = stream
    async with bridged(server.url) as client:
        await client.open()
        assert (await client.hear())["method"] == "roots/list"
        client.say(b'{"jsonrpc":"2.0","id":1,"result":{"roots":[]}}\n')
        await server.until(lambda: any(asked.body and "result" in asked.body for asked in server.seen))
        rest, errors, code = await client.end()
    assert (rest, errors, code) == ([], "", 0)


# Answers that are not as they should be.


@pytest.mark.parametrize("status", [202, 204, 302, 401, 403, 413, 500, 503])
async def test_every_refusal_is_an_answer_to_its_request(server: Server, status: int) -> None:
    async def refuse(asked: Asked) -> None:
        await asked.answer(status, b"<html>at /srv/x.py line 3</html>" if status >= 300 else None, "text/html")

    server.plays["tools/call"] = refuse
    answers, _, code = await through(server.url, READY + called("a") + called(2.5))
    assert sorted(str(answer["id"]) for answer in answers) == ["0", "2.5", "a"]
    assert {answer["error"]["code"] for answer in answers[1:]} == {-32603}
    assert "x.py" not in str(answers)
    assert code == 0


async def test_an_error_without_an_id_is_given_the_requests_own(server: Server) -> None:
    async def refuse(asked: Asked) -> None:
        await asked.answer(413, error(None, -32600, "too large"))

    server.plays["tools/call"] = refuse
    answers, _, _ = await through(server.url, READY + called("a"))
    assert answers[1] == error("a", -32600, "too large")


async def test_a_refused_notification_prints_nothing(server: Server) -> None:
    async def refuse(asked: Asked) -> None:
        await asked.answer(500, error(None, -32603, "no"))

    server.plays["notifications/other"] = refuse
    answers, errors, code = await through(server.url, READY + line("notifications/other"))
    assert [answer["id"] for answer in answers] == [0]
    assert "notifications/other" in errors
    assert code == 0


async def test_a_second_answer_and_one_that_nobody_asked_for_are_dropped(server: Server) -> None:
    async def talkative(asked: Asked) -> None:
        await asked.begin_stream()
        await asked.event({"jsonrpc": "2.0", "id": 99, "result": "whose?"})
        await asked.event({"jsonrpc": "2.0", "id": 1, "result": "first"})
        await asked.event({"jsonrpc": "2.0", "id": 1, "result": "second"})
        await asked.end_stream()

    server.plays["tools/call"] = talkative
    answers, _, _ = await through(server.url, READY + called(1))
    assert [answer["result"] for answer in answers[1:]] == ["first"]


@pytest.mark.parametrize(
    "body", [b"", b"HTTP/1.1 200 OK\r\nContent-", b"SSH-2.0\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{"]
)
async def test_a_server_that_hangs_up_in_the_middle_leaves_no_request_open(server: Server, body: bytes) -> None:
    async def half(asked: Asked) -> None:
        asked.writer.write(body)
        await asked.writer.drain()
        asked.writer.close()

    server.plays["tools/call"] = half
    answers, _, code = await through(server.url, READY + called(1))
    assert [(answer["id"], "error" in answer) for answer in answers] == [(0, False), (1, True)]
    assert server.methods().count("tools/call") == 1  # it may have run: never sent twice
    assert code == 0


async def test_a_number_in_use_is_refused_and_the_first_request_goes_on(server: Server) -> None:
    go = asyncio.Event()

    async def slow(asked: Asked) -> None:
        await go.wait()
        await asked.result("first")

    server.plays["tools/call"] = slow
    async with bridged(server.url) as client:
        await client.open()
        client.say(called(1), called(1))
        assert (await client.hear())["error"]["code"] == -32600
        go.set()
        assert (await client.hear())["result"] == "first"


async def test_a_batch_is_answered_for_each_of_its_requests(server: Server) -> None:
    async def several(asked: Asked) -> None:
        first, second, _ = (each.get("id") for each in asked.body)
        if first == "lost":
            return await asked.answer(500)
        return await asked.answer(200, [{"jsonrpc": "2.0", "id": each, "result": 1} for each in (second, first)])

    server.plays["POST"] = several
    batch = b"[" + b",".join(line("x", each).strip() for each in (1, 2, None)) + b"]\n"
    lost = b"[" + b",".join(line("x", each).strip() for each in ("lost", "too", None)) + b"]\n"
    async with bridged(server.url) as client:
        await client.open()
        client.say(batch)
        out = await asyncio.wait_for(client.stdout.readline(), PATIENCE_S)
        assert sorted(each["id"] for each in json.loads(out)) == [1, 2]
        client.say(lost)
        assert {(await client.hear())["id"] for _ in range(2)} == {"lost", "too"}


async def test_a_batch_with_an_answer_that_nobody_asked_for_leaves_no_request_open(server: Server) -> None:
    async def mixed(asked: Asked) -> None:
        first = asked.body[0]["id"]
        await asked.answer(200, [{"jsonrpc": "2.0", "id": each, "result": 1} for each in (first, "whose?")])

    server.plays["POST"] = mixed
    batch = b"[" + b",".join(line("x", each).strip() for each in (1, 2)) + b"]\n"
    answers, _, _ = await through(server.url, READY + batch)
    assert sorted((answer["id"], "error" in answer) for answer in answers[1:]) == [(1, True), (2, True)]


async def test_many_requests_at_once_share_few_connections_and_are_each_answered(server: Server) -> None:
    count = 600
    data = READY + b"".join(called(number, n=number) for number in range(1, count + 1))
    async with bridged(server.url) as client:
        client.say(data)
        answers = [await client.hear() for _ in range(count + 1)]
        rest, errors, code = await client.end()
    assert {answer["id"]: answer["result"]["echo"]["arguments"]["n"] for answer in answers[1:]} == {
        number: number for number in range(1, count + 1)
    }
    assert (rest, errors, code) == ([], "", 0)
    assert server.connections <= bridge.MOST_AT_ONCE + 4


async def test_calls_one_after_the_other_use_one_connection(server: Server) -> None:
    async with bridged(server.url) as client:
        await client.open()
        for number in range(1, 30):
            client.say(called(number))
            await client.hear()
    assert len({asked.connection for asked in server.seen if asked.method == "tools/call"}) <= 2


@pytest.mark.slow
async def test_a_server_that_refuses_a_large_message_before_reading_it_is_heard(tmp_path: Path) -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        body = json.dumps(error(None, -32600, "too large")).encode()
        writer.write(
            b"HTTP/1.1 413 X\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body
        )
        await writer.drain()

    path = tmp_path / "control.sock"
    async with await asyncio.start_unix_server(refuse, path):
        async with bridged(f"unix:{path}:/mcp/agents") as client:
            client.say(called(1, text="x" * 20_000_000))
            assert await client.hear() == error(1, -32600, "too large")
            client.say(called(2))  # not on the connection that still waits for the rest
            assert await client.hear() == error(2, -32600, "too large")


# Where and who.


async def test_paseo_15_the_token_is_sent_from_a_file_that_only_its_owner_reads(server: Server, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("secret-1\n")
    token.chmod(0o600)
    async with bridged(server.url, str(token)) as client:
        await client.open()
        rest, _, _ = await client.end()
    assert rest == []
    assert {asked.headers["authorization"] for asked in server.seen} == {"Bearer secret-1"}


@pytest.mark.parametrize(("content", "mode"), [("t", 0o640), ("t", 0o604), ("", 0o600), ("a\r\nb", 0o600), (None, 0)])
def test_paseo_15_a_token_that_others_can_read_is_refused(tmp_path: Path, content: str | None, mode: int) -> None:
    token = tmp_path / "token"
    if content is not None:
        token.write_text(content)
        token.chmod(mode)
    done = subprocess.run(
        bridge.command("unix:/x:/y", str(token)), capture_output=True, text=True, timeout=PATIENCE_S, input=""
    )
    assert done.returncode == 2
    assert done.stdout == ""
    assert str(token) in done.stderr
    assert done.stderr.count("\n") == 1


async def test_over_tcp_it_is_the_same(tmp_path: Path) -> None:
    served = Server(tmp_path / "unused")
    listening = await asyncio.start_server(served._serve, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    async with bridged(f"http://127.0.0.1:{port}/mcp/agents") as client:
        await client.open()
        client.say(called(1))
        assert "result" in await client.hear()
        listening.close()
        rest, _, code = await client.end()
    assert (rest, code) == ([], 0)
    assert served.seen[0].headers["host"] == f"127.0.0.1:{port}"


@pytest.mark.parametrize(
    ("url", "found"),
    [
        ("unix:/a/b.sock:/mcp/agents", ("/a/b.sock", "localhost:80", "/mcp/agents")),
        ("unix:///a/b.sock:/mcp/groups/x/y", ("/a/b.sock", "localhost:80", "/mcp/groups/x/y")),
        ("unix:/a:b/c.sock", ("/a:b/c.sock", "localhost:80", "/mcp/agents")),
        ("http://localhost:7000/mcp/agents", (("localhost", 7000), "localhost:7000", "/mcp/agents")),
        ("http://[::1]:7000/x", (("::1", 7000), "[::1]:7000", "/x")),
        ("http://[::1]", (("::1", 80), "[::1]", "/mcp/agents")),
        ("http://example", (("example", 80), "example", "/mcp/agents")),
    ],
)
def test_an_address_is_read(url: str, found: object) -> None:
    assert parse_url(url) == found


@pytest.mark.parametrize("url", ["nonsense", "https://x/y", "http://", "http://u:p@h/x", "http://h:x/", "http://h/a b"])
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match=r"address|path"):
        parse_url(url)


@pytest.mark.parametrize("words", [[], ["--url"], ["--url", "unix:/x", "more"], ["--what", "x"], ["--token-file", "x"]])
def test_a_wrong_command_line_is_told_its_usage(words: list[str]) -> None:
    done = subprocess.run(
        [*bridge.command("x")[:6], *words], capture_output=True, text=True, timeout=PATIENCE_S, input=""
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "usage: gatepost bridge --url" in done.stderr


def test_the_module_and_the_command_are_the_same_program() -> None:
    url = "unix:/nowhere/control.sock:/mcp/agents"
    for words in (bridge.command(url), [sys.executable, "-m", "gatepost", "bridge", "--url", url]):
        done = subprocess.run(words, input=called(7), capture_output=True, timeout=PATIENCE_S)
        assert done.returncode == 0
        assert json.loads(done.stdout)["id"] == 7


@pytest.mark.parametrize("seed", range(4))
async def test_among_all_faults_at_once_each_request_is_answered_exactly_once(server: Server, seed: int) -> None:
    dice = random.Random(seed)
    count = 200

    async def whatever(asked: Asked) -> None:
        if asked.headers.get("mcp-session-id", "") not in server.sessions:
            return await asked.answer(404, error(None, -32600, "no such session"))
        answer = {"jsonrpc": "2.0", "id": asked.body["id"], "result": "fine"}
        match dice.randrange(9):
            case 0:
                asked.cut()
            case 1:
                server.sessions.clear()
                await asked.answer(200, answer)
            case 2:
                await asked.answer(dice.choice([400, 403, 429, 500]), error(None, dice.choice([-32602, -32000]), "no"))
            case 3 | 4:
                await asked.begin_stream()
                await asked.event({"jsonrpc": "2.0", "method": "notifications/progress", "params": {}})
                await asked.event(answer)
                if dice.random() < 0.5:
                    await asked.event(answer)
                    await asked.end_stream()
                else:
                    asked.cut()
            case 5:
                await asked.begin_stream()
                asked.cut()
            case 6:
                await asked.answer(200, answer, Connection="close")
                asked.writer.close()
            case _:
                await asked.answer(200, answer)
        return None

    server.plays["tools/call"] = whatever
    async with bridged(server.url) as client:
        client.say(READY, b"".join(called(number) for number in range(1, count // 2)))
        heard = [await client.hear()]
        while sum("id" in each for each in heard) < count // 4:
            heard.append(await client.hear())
        await server.stop()
        client.say(*(called(number) for number in range(count // 2, count)))
        await server.start()
        while sum("id" in each for each in heard) < count:
            heard.append(await client.hear())
        server.plays.clear()
        client.say(called("last"))
        while "id" not in (last := await client.hear()):
            heard.append(last)
        rest, _, code = await client.end()
    assert sorted(each["id"] for each in heard if "id" in each) == list(range(count))
    assert (last["id"], "result" in last) == ("last", True)
    assert (rest, code) == ([], 0)
