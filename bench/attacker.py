"""attacker: a provider that does from inside its sandbox what a hostile agent would, until it is ended.

A plug-in of the bench and of tests/flows/test_neighbours.py. The prompt names the attack. An attack is a function here;
a new one is found by its name. The standard library, and the sockets that every session has.
"""

import array
import asyncio
import json
import os
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

from gatepost.inside.providers.contract import Batch, Event, ProviderContext, Text, TurnResult, provider

RUN = Path("/run/gatepost")
HELLO = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}},
}


class Tools:
    """router.sock, spoken by hand: many calls may be under way."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer, self._last = reader, writer, 0

    @classmethod
    async def open(cls) -> "Tools":
        made = cls(*await asyncio.open_unix_connection(str(RUN / "router.sock"), limit=8 * 1024 * 1024))
        made.send_raw(json.dumps(HELLO).encode())
        await made.answer()
        made.send_raw(b'{"jsonrpc":"2.0","method":"notifications/initialized"}')
        return made

    def send_raw(self, line: bytes) -> None:
        self._writer.write(line + b"\n")

    def send(self, tool: str, **arguments: Any) -> None:
        self._last += 1
        call = {"name": tool, "arguments": arguments}
        self.send_raw(json.dumps({"jsonrpc": "2.0", "id": self._last, "method": "tools/call", "params": call}).encode())

    async def answer(self) -> bytes:
        await self._writer.drain()
        line = await self._reader.readline()
        if not line:
            raise ConnectionError("the gateway hung up")
        return line

    async def call(self, tool: str, **arguments: Any) -> bytes:
        self.send(tool, **arguments)
        return await self.answer()


async def hostile_pattern() -> None:
    """A route whose pattern an engine could unroll for ever."""
    tools = await Tools.open()
    while True:
        await tools.call("add_route", route={"match": "text=/(?:){4000000000}/", "target": "evil"})


async def heavy_routes() -> None:
    """Many globs, each hard to compare."""
    tools = await Tools.open()
    heavy = "/".join(["*a*a*a*a*a*a*b"] * 8)
    routes = [{"match": f"room={heavy}{number}", "target": "evil"} for number in range(190)]
    while True:
        await tools.call("set_routes", routes=routes)


async def wide_calls() -> None:
    """Small bodies with very many values in them."""
    tools = await Tools.open()
    values = b"[" + b",".join([b"0"] * 85_000) + b"]"
    line = (
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"set_work","arguments":{"text":%b}}}' % values
    )
    while True:
        tools.send_raw(line)
        await tools.answer()


async def refused_calls() -> None:
    """Calls that nobody may make, as fast as the socket takes them."""
    tools = await Tools.open()
    while True:
        for _ in range(50):
            tools.send("network_allow", host="evil.example")
        for _ in range(50):
            await tools.answer()


async def many_files() -> None:
    """Sixty files at once, each sparse and large."""
    agent = Path("/workspace/agent")
    with (agent / "big.bin").open("wb") as file:
        file.truncate(19 * 1024 * 1024)
    tools = await Tools.open()
    while True:
        for _ in range(60):
            tools.send("send_file", filepath="big.bin")
        for _ in range(60):
            await tools.answer()


async def backticks() -> None:
    """Words that are hard to degrade."""
    tools = await Tools.open()
    while True:
        await tools.call("send", text="`" * 4000)


async def wide_table() -> None:
    """Markdown that is hard to render."""
    tools = await Tools.open()
    table = "|" * 10_000 + "\n" + "|-" * 5_000
    while True:
        await tools.call("send", text=table)


def _runner_socket() -> socket.socket:
    """The runner's own connection: provider and runner are one principal."""
    for name in os.listdir("/proc/self/fd"):
        try:
            found = socket.socket(fileno=os.dup(int(name)))
            if found.family == socket.AF_UNIX and str(found.getpeername()).endswith("runner.sock"):
                return found
        except OSError:
            continue
    raise LookupError("runner.sock")


async def _shout(frame: bytes) -> None:
    sock = _runner_socket()
    sock.setblocking(True)
    while True:
        await asyncio.to_thread(sock.sendall, frame)


async def ping_flood() -> None:
    """Pings without end."""
    await _shout(b'{"type":"ping"}\n' * 1000)


async def wide_frame() -> None:
    """One frame that names half a million rows."""
    rows = b",".join([b"1"] * 520_000)
    await _shout(b'{"type":"begun","id":1,"turn":"t","epoch":0,"rows":[%b]}\n' % rows)


async def egress_refusals() -> None:
    """Connections to hosts that are not allowed, each another one."""
    number = 0
    while True:
        number += 1
        reader, writer = await asyncio.open_unix_connection(str(RUN / "egress.sock"))
        writer.write(f"CONNECT h{number}.example:443 HTTP/1.1\r\n\r\n".encode())
        await reader.read()
        writer.close()


async def _post(body: bytes, head: bytes) -> None:
    """One request to a model, for which nobody has a key; whatever becomes of it."""
    reader, writer = await asyncio.open_unix_connection(str(RUN / "egress.sock"))
    try:
        writer.write(b"POST /anthropic/v1/messages HTTP/1.1\r\nhost: x\r\n" + head + b"\r\n\r\n" + body)
        async with asyncio.timeout(10):
            await reader.read()
    except (OSError, TimeoutError):
        pass
    finally:
        writer.close()


async def _many_posts(body: bytes, head: bytes) -> None:
    async def one() -> None:
        while True:
            await _post(body, head)

    await asyncio.gather(*(one() for _ in range(16)))


async def tiny_chunks() -> None:
    """Bodies in chunks of one byte."""
    await _many_posts(b"1\r\nx\r\n" * 200_000, b"transfer-encoding: chunked")


async def large_integers() -> None:
    """Numbers that are long to read and to write."""
    numbers = ",".join(["9" * 4300] * 60)
    body = f'{{"model":"m","max_tokens":1,"messages":[],"metadata":{{"n":[{numbers}]}}}}'.encode()
    await _many_posts(body, b"content-type: application/json\r\ncontent-length: %d" % len(body))


async def wide_bodies_out() -> None:
    """Requests to a model with as many values as pass."""
    part = b'{"type":"text","text":"x"}'
    body = b'{"model":"m","max_tokens":1,"messages":[{"role":"user","content":[%b]}]}' % b",".join([part] * 28_000)
    await _many_posts(body, b"content-type: application/json\r\ncontent-length: %d" % len(body))


async def endless_body() -> None:
    """A request that is refused, and goes on."""
    piece = bytes(256 * 1024)

    async def one() -> None:
        while True:
            _, writer = await asyncio.open_unix_connection(str(RUN / "egress.sock"))
            try:
                writer.write(b"PUT http://h.example/ HTTP/1.1\r\nhost: h.example\r\ncontent-length: 9000000000\r\n\r\n")
                for _ in range(4000):
                    writer.write(piece)
                    await writer.drain()
            except OSError:
                pass
            writer.close()

    await asyncio.gather(*(one() for _ in range(16)))


async def long_answers() -> None:
    """Answers that are large when they are shown as text, and that nobody reads."""
    tools = await Tools.open()
    for number in range(100):
        await tools.call("send", text=f"{number}" + "&" * 90_000)
    for _ in range(200):
        tools.send("inspect_messages", limit=200)
    await asyncio.Event().wait()


async def own_messages() -> None:
    """Messages of an agent to itself."""
    tools = await Tools.open()
    while True:
        await tools.call("inject_message", content="again " * 10)


async def sent_descriptors() -> None:
    """Descriptors whose closing takes long, sent along with nothing."""

    def lingering() -> int:
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            listener.listen()
            client = socket.create_connection(listener.getsockname())
            there, _ = listener.accept()
            there.detach()  # stays open and reads nothing
        client.setblocking(False)
        try:
            while True:
                client.send(bytes(65536))
        except BlockingIOError:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 5))
            return client.detach()

    with socket.socket(socket.AF_UNIX) as line:
        line.connect(str(RUN / "router.sock"))
        while True:
            handle = lingering()
            try:
                line.sendmsg([b"\n"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [handle]))])
            except OSError:
                await asyncio.sleep(0.01)
            await asyncio.to_thread(os.close, handle)


async def endless_lines() -> None:
    """Messages without an end, on every connection to the tools."""
    piece = bytes(1024 * 1024)

    async def one() -> None:
        _, writer = await asyncio.open_unix_connection(str(RUN / "router.sock"))
        while True:
            writer.write(piece)
            await writer.drain()

    await asyncio.gather(*(one() for _ in range(8)))


async def unread_welcomes() -> None:
    """A runner that says hello without end and reads nothing."""
    await _shout(b'{"type":"hello","protocol":1,"pid":1}\n' * 1000)


async def busy_loop() -> None:
    """Nothing but work: what the machine itself shares out."""
    while True:
        sum(range(100_000))


ATTACKS: dict[str, Callable[[], Awaitable[None]]] = {
    each.__name__: each
    for each in (
        hostile_pattern,
        heavy_routes,
        wide_calls,
        refused_calls,
        many_files,
        backticks,
        wide_table,
        ping_flood,
        wide_frame,
        egress_refusals,
        tiny_chunks,
        large_integers,
        wide_bodies_out,
        endless_body,
        long_answers,
        own_messages,
        sent_descriptors,
        endless_lines,
        unread_welcomes,
        busy_loop,
    )
}


@provider("attacker")
class Attacker:
    def __init__(self, place: ProviderContext) -> None:
        self._started = place.agent / "started"

    async def query(self, batch: Batch, resume: str) -> AsyncIterator[Event]:
        name = next((word for item in batch.items for word in item.text.split() if word in ATTACKS), "")
        yield Text(f"attacking: {name or 'nothing'}")
        if name:
            self._started.write_text(name)
            await ATTACKS[name]()
        yield TurnResult()

    async def push(self, batch: Batch) -> None:
        raise NotImplementedError("one at a time")

    async def interrupt(self) -> None:
        """A hostile agent goes on."""

    async def answer(self, request: str, verdict: str, input: dict[str, Any]) -> None:
        raise LookupError("nobody was asked")

    async def set_mode(self, mode: str) -> None:
        raise NotImplementedError("there is one mode")

    async def fork(self, conversation: str) -> str:
        raise NotImplementedError("there is one attacker")

    async def close(self) -> None:
        pass
