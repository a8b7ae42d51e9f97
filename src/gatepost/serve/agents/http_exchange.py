"""One HTTP request of MCP and its answer: JSON, a refusal, or a stream of events.

Since 2026-07-28 an intermediary may route by headers alone, so a header that contradicts the body is refused.
"""

import asyncio
import base64
import binascii
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
from starlette.types import Receive, Scope, Send

from gatepost.gate.mcp_messages import CallParams, McpParams
from gatepost.jsonrpc.messages import JsonRpcMessage, render_error
from gatepost.jsonrpc.protocol import (
    HANDSHAKE_VERSIONS,
    HEADER_MISMATCH,
    VERSION,
    JsonRpcFailure,
    check_version,
    read_envelope,
)
from gatepost.serve.agents.event_stream import EventStream
from gatepost.serve.agents.http_session import McpHttpSession
from gatepost.tools.call import Caller

_EVENTS = [
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
]
ARGUMENT = "x-mcp-header"  # in a property's schema: the argument must also be a header of this name
PREFIX = "mcp-param-"
ONCE = (b"mcp-session-id", b"mcp-protocol-version", b"mcp-method", b"mcp-name")  # readers of a second one may differ
OLDEST_VERSION = "2025-03-26"  # spoken by a client that names none

_VERSIONS = frozenset(version.encode() for version in HANDSHAKE_VERSIONS)
_ENCODED = re.compile(r"=\?base64\?(.*)\?=")
_DECIMAL = re.compile(r"-?[0-9]{1,300}(\.0+)?")


class McpHeaders:
    """The headers of a request that MCP looks at."""

    __slots__ = ("found", "twice")

    def __init__(self, scope: Scope) -> None:
        self.found: dict[bytes, bytes] = {}
        self.twice: set[bytes] = set()
        for name, value in scope["headers"]:
            given = value.strip(b" \t")  # the HTTP parser leaves the blanks around a value
            if name in self.found:
                self.twice.add(name)
                given = b"%b, %b" % (self.found[name], given) if name == b"accept" else given
            self.found[name] = given

    @property
    def session(self) -> str | None:
        given = self.found.get(b"mcp-session-id")
        return None if given is None else given.decode("latin-1")

    @property
    def version(self) -> str:
        return self.found.get(b"mcp-protocol-version", OLDEST_VERSION.encode()).decode("latin-1")

    @property
    def old(self) -> bool:
        """Return True if it is of the revisions that have sessions."""
        version = self.found.get(b"mcp-protocol-version")
        return version is None or version in _VERSIONS

    @property
    def last_event(self) -> str:
        return self.found.get(b"last-event-id", b"").decode("latin-1")

    @property
    def sends_json(self) -> bool:
        return _media_type(self.found.get(b"content-type", b"")) == b"application/json"

    @property
    def accepts_json(self) -> bool:
        return self._accepts(b"application/json", b"application/*")

    @property
    def accepts_events(self) -> bool:
        return self._accepts(b"text/event-stream", b"text/*")

    def _accepts(self, wanted: bytes, family: bytes) -> bool:
        accept = self.found.get(b"accept", b"")
        if wanted in accept and b";" not in accept:  # as nearly every client writes it
            return True
        return any(_media_type(each) in (wanted, family, b"*/*") for each in accept.split(b","))

    def find_twice(self) -> str | None:
        """A header that may be there once only, and is there twice."""
        return next((name.decode() for name in ONCE if name in self.twice), None)


def _media_type(value: bytes) -> bytes:
    return value.partition(b";")[0].strip().lower()


def check_envelope(head: McpHeaders, message: JsonRpcMessage, params: McpParams) -> None:
    """JsonRpcFailure: the envelope of the 2026 revision is not whole, or the headers do not say the same."""
    version = read_envelope(params.meta)
    if version != head.version:
        raise _mismatch("mcp-protocol-version", f"params._meta's {VERSION}")
    if head.found.get(b"mcp-method") != (message.method or "").encode():
        raise _mismatch("mcp-method", "the method of the body")
    if isinstance(params, CallParams) and _decode(head.found.get(b"mcp-name")) != params.name:
        raise _mismatch("mcp-name", "the tool that the body names")
    check_version(version)


def _mismatch(header: str, other: str) -> JsonRpcFailure:
    return JsonRpcFailure(HEADER_MISMATCH, f"the header {header} does not say the same as {other}")


def _decode(value: bytes | None) -> str | None:
    """The text of a header. None: there is none, or its base64 is not in the one form that clients write."""
    text = None if value is None else value.decode("latin-1")
    encoded = _ENCODED.fullmatch(text) if text is not None else None
    if encoded is None:
        return text
    try:
        raw = base64.b64decode(encoded[1], validate=True)
        return raw.decode() if base64.b64encode(raw).decode() == encoded[1] else None
    except (binascii.Error, UnicodeDecodeError):
        return None


# Arguments that are headers, too.


def find_argument_headers(schema: Mapping[str, Any]) -> dict[tuple[str, ...], tuple[str, str]]:
    """The header and the type of each argument that must also be a header, by its path in the arguments."""
    return {path: (PREFIX + name.lower(), kind) for path, name, kind in _walk(schema, ())}


def _walk(schema: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str, str]]:
    """Only plain properties count: any other place of a schema may or may not apply."""
    if path and isinstance(name := schema.get(ARGUMENT), str) and isinstance(kind := schema.get("type"), str):
        yield path, name, kind
    properties = schema.get("properties")
    for key, each in properties.items() if isinstance(properties, dict) else ():
        if isinstance(each, dict):
            yield from _walk(each, (*path, key))


def check_argument_headers(
    wanted: Mapping[tuple[str, ...], tuple[str, str]], arguments: object, head: McpHeaders
) -> None:
    """JsonRpcFailure: an argument and its header are not both there, or not the same."""
    for path, (header, kind) in wanted.items():
        value, name = _find(arguments, path), header.encode()
        given, where = head.found.get(name), f"the argument {'.'.join(path)}"
        if name in head.twice:
            raise JsonRpcFailure(HEADER_MISMATCH, f"the header {header} is there twice")
        text = _render(value)
        if (given is None) != (text is None) or (text is not None and not _is_same(_decode(given), text, kind)):
            raise _mismatch(header, where)


def _find(arguments: object, path: tuple[str, ...]) -> object:
    for key in path:
        arguments = arguments.get(key) if isinstance(arguments, dict) else None
    return arguments


def _render(value: object) -> str | None:
    """An argument as a header has it. None: it has none."""
    if isinstance(value, bool):
        return "true" if value else "false"
    try:
        return str(value) if isinstance(value, str | int | float) else None
    except ValueError:  # too many digits
        return None


def _is_same(given: str | None, text: str, kind: str) -> bool:
    if given is not None and kind == "integer" and _DECIMAL.fullmatch(given) and _DECIMAL.fullmatch(text):
        return int(given.partition(".")[0]) == int(text.partition(".")[0])
    return given == text


class ArgumentHeaders:
    """Arguments that must also be headers, by tool. Looked for once in each list of tools."""

    def __init__(self) -> None:
        self._listed = b""
        self._found: dict[str, Mapping[tuple[str, ...], tuple[str, str]]] = {}

    def find(self, tool: str, listed: bytes) -> Mapping[tuple[str, ...], tuple[str, str]] | None:
        if self._listed is not listed:
            self._listed, self._found = listed, {}
            for each in msgspec.json.decode(listed) if b'"%b"' % ARGUMENT.encode() in listed else ():
                self._found[each["name"]] = find_argument_headers(each["inputSchema"])
        return self._found.get(tool)


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
