"""The byte pump between stdio and the tool socket, as a real process."""

import asyncio
import json
import os
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters

from gatepost.access.tiers import Tier
from gatepost.core.registry import Registry
from gatepost.gate.tool_answers import LARGEST_ANSWER
from gatepost.gate.tool_socket import LARGEST_MESSAGE, ToolSocket
from gatepost.inside import bridge
from gatepost.store.engine.sqlite_store import SqliteStore
from gatepost.tools.call import ToolCall
from gatepost.tools.contract import Tool, tool
from gatepost_testing.gate_agent import GateAgent
from gatepost_testing.waiting import PATIENCE_S

SMALL: Registry[Tool] = Registry("tool")
INITIALIZE = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
SCRIPT = [sys.executable, "-I", "-S", bridge.__file__]
MODULE = [sys.executable, "-m", "gatepost.inside.bridge", "--socket"]
COMMAND = [
    sys.executable,
    "-c",
    "import sys; from gatepost.cli.main import main; sys.exit(main())",
    "bridge",
    "--socket",
]


class Gate:
    opened: asyncio.Event


@tool(tier=Tier.WORKER, group="x", effects=(), registry=SMALL)
async def echo(call: ToolCall, text: str) -> str:
    """Say it again."""
    return text


@tool(tier=Tier.WORKER, group="x", effects=(), registry=SMALL)
async def wait(call: ToolCall) -> str:
    """Wait for the test."""
    await Gate.opened.wait()
    return "waited"


@dataclass
class Served:
    tools: ToolSocket
    path: Path


@pytest.fixture
async def served(tmp_path: Path, store: SqliteStore) -> AsyncIterator[Served]:
    Gate.opened = asyncio.Event()
    agent = await GateAgent.create(tmp_path, store, tools=SMALL)
    tools = ToolSocket(agent.dispatch, agent.caller, lambda pid: True)
    await tools.open(tmp_path / "router.sock")
    yield Served(tools, tmp_path / "router.sock")
    await tools.close()


def line(method: str, params: object = None, request: int | None = 1) -> bytes:
    message = {"jsonrpc": "2.0", "method": method, "params": {} if params is None else params}
    if request is not None:
        message["id"] = request
    return json.dumps(message).encode() + b"\n"


def called(name: str, **arguments: object) -> dict[str, object]:
    return {"name": name, "arguments": arguments}


async def start(command: list[str], path: Path, limit: int = 2**25) -> Process:
    return await asyncio.create_subprocess_exec(
        *command, os.fspath(path), stdin=PIPE, stdout=PIPE, stderr=PIPE, limit=limit
    )


async def through(command: list[str], path: Path, data: bytes) -> tuple[list[dict[str, Any]], bytes, int | None]:
    """(answers, stderr, exit code) of one run, from first byte to last."""
    process = await start(command, path)
    out, errors = await asyncio.wait_for(process.communicate(data), PATIENCE_S)
    return [json.loads(each) for each in out.splitlines()], errors, process.returncode


@pytest.mark.parametrize("command", [SCRIPT, MODULE, COMMAND], ids=["script", "module", "gatepost bridge"])
async def test_paseo_30_two_requests_and_a_notification_give_exactly_two_lines(
    command: list[str], served: Served
) -> None:
    data = (
        line("initialize", INITIALIZE, 1)
        + line("notifications/initialized", request=None)
        + line("tools/list", None, 2)
    )
    answers, errors, code = await through(command, served.path, data)
    assert [answer["id"] for answer in answers] == [1, 2]
    assert {each["name"] for each in answers[1]["result"]["tools"]} == {"echo", "wait"}
    assert (errors, code) == (b"", 0)


async def test_paseo_31_a_bad_line_between_good_ones_gives_one_minus_32700(served: Served) -> None:
    data = line("initialize", INITIALIZE, 1) + b"{bad\n" + line("tools/list", None, 2)
    answers, _, code = await through(SCRIPT, served.path, data)
    assert [answer["id"] for answer in answers] == [1, None, 2]
    assert answers[1]["error"]["code"] == -32700
    assert code == 0


async def test_a_missing_socket_is_one_line_on_stderr_and_exit_1(tmp_path: Path) -> None:
    for command in (SCRIPT, COMMAND):
        answers, errors, code = await through(command, tmp_path / "nothing.sock", b"")
        assert (answers, code) == ([], 1)
        assert errors.count(b"\n") == 1
        assert b"nothing.sock cannot be reached" in errors


@pytest.mark.parametrize("arguments", [[], ["a", "b"], ["--help"]])
async def test_misuse_is_told_in_one_line(arguments: list[str]) -> None:
    process = await asyncio.create_subprocess_exec(*SCRIPT, *arguments, stdin=PIPE, stdout=PIPE, stderr=PIPE)
    _, errors = await asyncio.wait_for(process.communicate(), PATIENCE_S)
    assert process.returncode == 2
    assert errors.startswith(b"usage: ")


async def test_answers_that_come_after_stdin_ended_are_passed_on(served: Served) -> None:
    process = await start(SCRIPT, served.path)
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(line("initialize", INITIALIZE, 0) + line("tools/call", called("wait"), 1))
    await asyncio.wait_for(process.stdout.readline(), PATIENCE_S)
    process.stdin.close()
    Gate.opened.set()
    answer = json.loads(await asyncio.wait_for(process.stdout.readline(), PATIENCE_S))
    assert answer["result"]["content"][0]["text"] == "waited"
    assert await asyncio.wait_for(process.wait(), PATIENCE_S) == 0


async def test_a_quick_call_overtakes_a_slow_one_and_a_cancelled_one_is_not_answered(served: Served) -> None:
    process = await start(SCRIPT, served.path)
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(line("initialize", INITIALIZE, 0) + line("tools/call", called("wait"), 1))
    process.stdin.write(line("tools/call", called("echo", text="quick"), 2))
    for expected in (0, 2):
        assert json.loads(await asyncio.wait_for(process.stdout.readline(), PATIENCE_S))["id"] == expected
    process.stdin.write(line("notifications/cancelled", {"requestId": 1}, None) + line("ping", None, 3))
    assert json.loads(await asyncio.wait_for(process.stdout.readline(), PATIENCE_S))["id"] == 3
    process.stdin.close()
    assert await asyncio.wait_for(process.stdout.read(), PATIENCE_S) == b""
    assert await asyncio.wait_for(process.wait(), PATIENCE_S) == 0


async def test_the_largest_messages_go_through_both_ways_at_once(served: Served) -> None:
    text, long = "x" * (LARGEST_MESSAGE - 200), "y" * (LARGEST_ANSWER - 200)
    data = line("initialize", INITIALIZE, 0) + line("tools/call", called("echo", text=text), 1) * 3
    data += line("tools/call", called("echo", text=long), 2)
    process = await start(SCRIPT, served.path)
    out, _ = await asyncio.wait_for(process.communicate(data), 60)
    sizes = [len(each) for each in out.splitlines()]
    # The same id in flight is refused, and so is an answer of that size; what is answered is whole.
    assert max(sizes) > len(long)
    assert all(json.loads(each) for each in out.splitlines())
    assert process.returncode == 0


async def test_when_the_gateway_hangs_up_the_bridge_ends_and_says_so(served: Served) -> None:
    process = await start(SCRIPT, served.path)
    assert process.stdin is not None and process.stdout is not None and process.stderr is not None
    process.stdin.write(line("ping"))
    await asyncio.wait_for(process.stdout.readline(), PATIENCE_S)
    await served.tools.close()
    assert await asyncio.wait_for(process.wait(), PATIENCE_S) == 1
    assert await process.stderr.read() == b"gatepost bridge: the gateway closed the connection\n"


@pytest.mark.parametrize("data", [b"", line("ping") * 5000], ids=["nothing", "much"])
async def test_whoever_is_turned_away_is_always_told_why(data: bytes, tmp_path: Path) -> None:
    """Whether our words, their end or the hang-up comes first."""

    async def turn_away(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    server = await asyncio.start_unix_server(turn_away, tmp_path / "closed.sock")
    for _ in range(5):
        answers, errors, code = await through(SCRIPT, tmp_path / "closed.sock", data)
        assert (answers, code) == ([], 1)
        assert errors.decode() == (
            "gatepost bridge: the gateway closed the connection: only processes of that session's sandbox may connect\n"
        )
    server.close()


async def test_when_the_client_stops_reading_for_good_the_bridge_ends(served: Served) -> None:
    read, write = os.pipe()
    process = await asyncio.create_subprocess_exec(
        *SCRIPT, os.fspath(served.path), stdin=PIPE, stdout=write, stderr=PIPE
    )
    os.close(write)
    assert process.stdin is not None
    os.close(read)
    process.stdin.write(line("ping"))
    assert await asyncio.wait_for(process.wait(), PATIENCE_S) == 0


async def test_a_client_that_writes_much_and_reads_late_is_not_stuck(tmp_path: Path) -> None:
    """Both directions full at once: the bridge must go on with whichever can."""
    path, size = tmp_path / "raw.sock", 4 * 1024 * 1024
    served: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def flood(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"y" * size)
        served.set_result(len(await reader.readexactly(size)))
        await writer.drain()
        await reader.read()
        writer.close()

    server = await asyncio.start_unix_server(flood, path)
    process = await start(SCRIPT, path, limit=1024)
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(b"x" * size)
    assert await asyncio.wait_for(served, PATIENCE_S) == size
    process.stdin.close()
    assert len(await asyncio.wait_for(process.stdout.read(), PATIENCE_S)) == size
    assert await asyncio.wait_for(process.wait(), PATIENCE_S) == 0
    server.close()


@pytest.mark.parametrize(("mode", "version"), [("auto", "2026-07-28"), ("legacy", "2025-11-25")])
async def test_the_sdks_client_works_through_the_bridge_on_either_wire(mode: Any, version: str, served: Served) -> None:
    server = StdioServerParameters(command=SCRIPT[0], args=[*SCRIPT[1:], os.fspath(served.path)])
    async with Client(server, mode=mode) as client:
        assert client.protocol_version == version
        answer = await client.call_tool("echo", {"text": "through"})
        assert answer.content[0].text == "through"  # type: ignore[union-attr]


def test_the_bridge_imports_nothing_but_the_standard_library() -> None:
    source = Path(bridge.__file__).read_text()
    imported = {each.split()[1] for each in source.splitlines() if each.startswith(("import ", "from "))}
    assert imported == {"_socket", "_thread", "os", "select", "sys", "time"}
