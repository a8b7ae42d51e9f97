"""One HTTP request of MCP and its answer: JSON, a refusal, or a stream of events."""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass

from starlette.types import Receive, Send

from gatepost.jsonrpc.messages import render_error
from gatepost.serve.agents.event_stream import EventStream
from gatepost.serve.agents.http_session import McpHttpSession
from gatepost.serve.agents.mcp_headers import McpHeaders
from gatepost.tools.call import Caller

_EVENTS = [
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
]


class ClientLeft(Exception):
    """The client has left before its request was whole."""


@dataclass(slots=True)
class HttpExchange:
    """One request, and whatever is known of it so far."""

    receive: Receive
    send: Send
    head: McpHeaders
    caller: Caller
    session: McpHttpSession | None

    async def answer(self, status: int, body: bytes) -> None:
        await send_answer(self.send, status, body, self._name_session())

    async def refuse(self, status: int, code: int, text: str, *more: tuple[bytes, bytes]) -> None:
        await send_answer(self.send, status, render_error(None, code, text), more)

    async def write_events(self, stream: EventStream, first: Iterable[bytes] = ()) -> bool:
        """Send a stream to its end. False: the client has left before."""
        reader = stream.attach(first)
        left = asyncio.get_running_loop().create_task(_wait_until_left(self.receive))
        left.add_done_callback(lambda _: stream.detach(reader))
        try:
            headers = [*_EVENTS, *self._name_session()]
            await self.send({"type": "http.response.start", "status": 200, "headers": headers})
            while (events := await stream.read_next(reader)) is not None:
                await self.send({"type": "http.response.body", "body": events, "more_body": True})
            await self.send({"type": "http.response.body", "body": b""})
            return not left.done()
        finally:
            left.cancel()
            stream.detach(reader)

    def _name_session(self) -> list[tuple[bytes, bytes]]:
        return [] if self.session is None else [(b"mcp-session-id", self.session.name.encode())]

    async def read_body(self, largest: int) -> bytes | None:
        """The whole body; None: it is too large. One whose length already shows that is not read at all."""
        said = self.head.found.get(b"content-length", b"0")
        if said.isdigit() and int(said) > largest:
            return None
        first = await self.receive()
        if first["type"] == "http.disconnect":
            raise ClientLeft
        if not first.get("more_body"):
            body: bytes = first.get("body", b"")
            return body
        chunks, size, more = [first["body"]], len(first["body"]), True
        while more:
            message = await self.receive()
            if message["type"] == "http.disconnect":
                raise ClientLeft
            chunks.append(message.get("body", b""))
            size, more = size + len(chunks[-1]), message.get("more_body", False)
            if size > largest:
                return None
        return b"".join(chunks)


async def send_answer(send: Send, status: int, body: bytes, more: Iterable[tuple[bytes, bytes]] = ()) -> None:
    headers = [(b"content-length", b"%d" % len(body)), *more]
    if body:
        headers.append((b"content-type", b"application/json"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def _wait_until_left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
