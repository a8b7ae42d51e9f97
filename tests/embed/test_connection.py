"""Every call is answered once, whatever its function raises; and nobody waits for what cannot come."""

import asyncio
import json
import os
import struct
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from gatepost.embed import ToolError, ToolHost, bridge
from gatepost_testing.waiting import PATIENCE_S

Serving = Callable[..., Any]


class Stubborn(Exception):
    def __str__(self) -> str:
        raise KeyboardInterrupt


class Foreign(BaseException):
    pass


def first(items: list[str]) -> str:
    return next(item for item in items if item.startswith("a"))


def exits() -> str:
    sys.exit(2)


def interrupts() -> str:
    raise KeyboardInterrupt


def generator_exit() -> str:
    raise GeneratorExit


def foreign() -> str:
    raise Foreign("of no kind")


def undecodable() -> str:
    raise FileNotFoundError(2, "no such file", os.fsdecode(b"/x/\xff"))


def undecodable_word() -> str:
    raise ToolError(os.fsdecode(b"no \xff here"))


def undecodable_result() -> dict[str, str]:
    return {"name": os.fsdecode(b"\xff")}


def stubborn() -> str:
    raise Stubborn


async def cancels_inside() -> str:
    inner = asyncio.ensure_future(asyncio.Event().wait())
    inner.cancel()
    await inner
    return "never"


async def cancels_itself() -> str:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await asyncio.Event().wait()
    return "never"


async def generator_exit_async() -> str:
    raise GeneratorExit


async def foreign_async() -> str:
    raise Foreign("of no kind")


async def stops_async() -> str:
    return str(next(iter(())))


async def echo(text: str) -> str:
    return text


ODD: list[tuple[Callable[..., object], str]] = [
    (first, "first raised StopIteration"),
    (exits, "exits raised SystemExit"),
    (interrupts, "interrupts raised KeyboardInterrupt"),
    (generator_exit, "generator_exit raised GeneratorExit"),
    (foreign, "foreign raised Foreign"),
    (undecodable, "no such file"),
    (undecodable_word, "no ? here"),
    (undecodable_result, "surrogates not allowed"),
    (stubborn, "cannot be told"),
    (cancels_inside, "cancelled within the program"),
    (cancels_itself, "cancelled within the program"),
    (generator_exit_async, "GeneratorExit"),
    (foreign_async, "of no kind"),
    (stops_async, "StopIteration"),
]


async def test_whatever_a_function_raises_its_call_is_answered_and_the_bridge_ends(serving: Serving) -> None:
    async with serving(*(function for function, _ in ODD), echo) as served:
        client = served.client
        asked = {
            client.begin(function.__name__, **({"items": ["b"]} if function is first else {})): words
            for function, words in ODD
        }
        for request, words in asked.items():
            result = (await client.answer(request))["result"]
            assert result["isError"], words
            assert words in result["content"][0]["text"]
        assert await client.text("echo", text="still here") == "still here"
        client.process.stdin.close()  # nothing is owed, so it does not wait
        assert await asyncio.wait_for(client.process.wait(), PATIENCE_S) == 0
    said = [line["id"] for line in client.lines]
    assert len(said) == len(set(said))


@pytest.mark.parametrize("function", [function for function, _ in ODD if function is not first])
async def test_calls_without_ids_are_answered_too_and_so_are_those_behind_them(
    function: Callable[..., object],
) -> None:
    async with ToolHost([function, echo]) as host:
        reader, writer = await asyncio.open_unix_connection(host.socket_path)
        for name, arguments in ((function.__name__, {}), ("echo", {"text": "next"})):
            payload = json.dumps({"method": "call_tool", "params": {"name": name, "arguments": arguments}}).encode()
            writer.write(struct.pack(">I", len(payload)) + payload)
        answers = [await _read(reader), await _read(reader)]
        assert all(b"error" in each.lower() or b"next" in each for each in answers)
        writer.close()


@pytest.mark.parametrize("word", [KeyboardInterrupt, SystemExit])
def test_what_ends_the_program_ends_it_but_the_call_is_answered_first(word: type[BaseException]) -> None:
    async def ends() -> str:
        raise word

    answers: list[bytes] = []

    async def ask() -> None:
        async with ToolHost([ends]) as host:
            reader, writer = await asyncio.open_unix_connection(host.socket_path)
            payload = b'{"id":7,"method":"call_tool","params":{"name":"ends"}}'
            writer.write(struct.pack(">I", len(payload)) + payload)
            try:
                await asyncio.Event().wait()
            finally:
                answers.append(await _read(reader))
                writer.close()

    with pytest.raises(word):
        asyncio.run(ask())
    assert answers[0].startswith(b'{"id":7,"error":')


async def test_a_bridge_whose_input_has_ended_does_not_wait_for_ever_and_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bridge, "PATIENCE_S", 0.0)
    begun = asyncio.Event()

    async def forever() -> str:
        begun.set()
        await asyncio.Event().wait()
        return "never"

    async with ToolHost([forever]) as host:
        described = json.loads(host.schema_path.read_bytes())
        (source, lines), (answers, sink) = os.pipe(), os.pipe()
        served = asyncio.ensure_future(
            asyncio.to_thread(
                bridge.serve, bridge.McpBridge(bridge.ToolHostSocket(str(host.socket_path)), described), source, sink
            )
        )
        opening = {"protocolVersion": "2025-11-25", "capabilities": {}}
        os.write(lines, _line(1, "initialize", opening) + _line(2, "tools/call", {"name": "forever"}))
        await _soon(begun.wait())
        os.close(lines)
        await _soon(served)
        os.close(sink)
        with os.fdopen(answers, "rb") as file:
            last = json.loads(file.read().splitlines()[-1])
        os.close(source)
    assert last["id"] == 2
    assert "before there was an answer" in last["result"]["content"][0]["text"]


def _line(request: int, method: str, params: dict[str, object]) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": request, "method": method, "params": params}).encode() + b"\n"


async def _read(reader: asyncio.StreamReader) -> bytes:
    size = struct.unpack(">I", await asyncio.wait_for(reader.readexactly(4), PATIENCE_S))[0]
    return await reader.readexactly(size)


async def _soon(what: Awaitable[object]) -> None:
    await asyncio.wait_for(what, PATIENCE_S)
