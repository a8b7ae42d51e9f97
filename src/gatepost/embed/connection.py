"""One connection of a bridge: frames of four bytes of length and JSON, in both directions.

A request with an id is a task of its own and is answered under that id; requests without one are answered in order. No
input and no error of a function ends the connection. Every request is answered once; one that its client has cancelled
is not answered.
"""

import asyncio
import logging
import re
from collections import deque
from collections.abc import Awaitable, Callable
from threading import get_ident
from typing import Any

import msgspec

from gatepost.embed.results import ToolError, render, render_error
from gatepost.embed.tool import Progress
from gatepost.jsonrpc.protocol import render_id_in_use

LIMIT = 10_485_760  # bytes of one message
MOST_IN_FLIGHT = 256  # calls of one connection
CHUNK = 64 * 1024
HIGH_WATER = 4 * 1024 * 1024

RequestId = int | str
Run = Callable[[str, bytes, Progress], Awaitable[object]]

_ID_FIRST = re.compile(rb'\s*\{\s*"id"\s*:\s*(-?\d{1,18}|"[^"\\]{0,200}")\s*[,}]')
_TEXT = b'{"content":[{"type":"text","text":%b}],"isError":false}'  # what most functions come to
_encode = msgspec.json.Encoder().encode
_log = logging.getLogger("gatepost.embed")


class ToolNotFoundError(LookupError):
    """There is no tool of that name."""


class MessageSizeError(ValueError):
    """A message is larger than LIMIT."""

    def __init__(self, what: str, size: int) -> None:
        super().__init__(f"{what} has {size:,} bytes; at most {LIMIT:,} can be sent")


class _Request(msgspec.Struct):
    method: str
    id: int | str | None = None
    params: msgspec.Raw = msgspec.Raw(b"{}")


class _Call(msgspec.Struct):
    name: str
    arguments: msgspec.Raw = msgspec.Raw(b"{}")
    progress: bool = False


class _CallRequest(msgspec.Struct, tag_field="method", tag="call_tool"):
    """A call with an id, read at one go: what nearly every message is."""

    id: int | str
    params: _Call


class _Cancel(msgspec.Struct):
    id: int | str


_read_request = msgspec.json.Decoder(_Request).decode
_read_usual = msgspec.json.Decoder(_CallRequest).decode
_read_call = msgspec.json.Decoder(_Call).decode
_read_cancel = msgspec.json.Decoder(_Cancel).decode


class ToolHostConnection(asyncio.BufferedProtocol):
    """`is_open` says whether the host still serves: one that was accepted just before it stopped must not stay."""

    def __init__(self, run: Run, living: "set[ToolHostConnection]", is_open: Callable[[], bool]) -> None:
        self._run, self._living, self._is_open = run, living, is_open
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._kept = bytearray(CHUNK)  # asyncio would make a new one for every read
        self._buffer = bytearray()
        self._skip = 0  # bytes of a message that is too large, still to come
        self._refused: tuple[RequestId | None, int] = (None, 0)
        self._running: dict[RequestId, asyncio.Task[None]] = {}
        self._waiting: deque[_Call | msgspec.Raw] = deque()  # params of calls without ids
        self._ordered: asyncio.Task[None] | None = None
        self.closed: asyncio.Future[None] = self._loop.create_future()

    @property
    def tasks(self) -> list[asyncio.Task[None]]:
        return [*self._running.values(), *([self._ordered] if self._ordered else [])]

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    # Called by asyncio.

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # uvloop's is its own
        if not self._is_open():
            return transport.abort()
        self._transport = transport
        transport.set_write_buffer_limits(high=HIGH_WATER)
        self._living.add(self)
        return None

    def connection_lost(self, exc: Exception | None) -> None:
        for task in self.tasks:
            task.cancel()
        self._living.discard(self)
        self._transport = None
        if not self.closed.done():
            self.closed.set_result(None)

    def pause_writing(self) -> None:
        """Stop reading from a client that does not read its answers."""
        if self._transport is not None:
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        if self._transport is not None:
            self._transport.resume_reading()

    def get_buffer(self, sizehint: int) -> bytearray:
        return self._kept

    def buffer_updated(self, nbytes: int) -> None:
        kept = self._kept
        if not self._buffer and not self._skip and int.from_bytes(kept[:4], "big") == nbytes - 4:
            return self._receive(kept[4:nbytes])  # just one message, whole, as nearly always
        return self._receive_parts(kept[:nbytes])

    def _receive_parts(self, data: bytearray) -> None:
        buffer = self._buffer
        buffer += data
        start, end = 0, len(buffer)
        while end - start >= 4 or self._skip:
            if self._skip:
                taken = min(self._skip, end - start)
                start, self._skip = start + taken, self._skip - taken
                if self._skip:
                    break
                request, size = self._refused
                self._fail(request, MessageSizeError("the request", size))
                continue
            size = int.from_bytes(buffer[start : start + 4], "big")
            if size > LIMIT:
                if end - start < 300:  # where its id would stand
                    break
                self._refused, self._skip = (_id_of(bytes(buffer[start + 4 : start + 300])), size), size
                start += 4
                continue
            if end - start < 4 + size:
                break
            payload = bytes(buffer[start + 4 : start + 4 + size])
            start += 4 + size
            self._receive(payload)
        del buffer[:start]
        return

    # Requests.

    def _receive(self, payload: bytes | bytearray) -> None:
        try:
            usual = _read_usual(payload)
        except (ValueError, RecursionError):
            return self._receive_any(payload)
        return self._call(usual.id, usual.params)

    def _receive_any(self, payload: bytes | bytearray) -> None:
        """Receive a request that is not a plain call, or that is malformed."""
        try:
            request = _read_request(payload)
        except (ValueError, RecursionError) as error:
            return self._fail(_id_of(payload), ValueError(f"not a request: {error}"))
        if request.method == "call_tool":
            return self._call(request.id, request.params)
        if request.method == "cancel":
            return self._cancel(request.params)
        return self._fail(request.id, ValueError(f"unknown method {request.method[:80]!r}"))

    def _call(self, request: RequestId | None, params: _Call | msgspec.Raw) -> None:
        if request is None:
            self._waiting.append(params)
            if self._ordered is None:
                self._ordered = self._loop.create_task(self._in_order())
        elif request in self._running:
            self._fail(request, ValueError(render_id_in_use(request)))
        elif len(self._running) >= MOST_IN_FLIGHT:
            self._fail(request, ValueError(f"{MOST_IN_FLIGHT} calls are in flight; wait for an answer"))
        else:
            self._running[request] = self._loop.create_task(self._answer(request, params))

    def _cancel(self, params: msgspec.Raw) -> None:
        try:
            task = self._running.pop(_read_cancel(params).id, None)
        except ValueError:
            return  # it asks for no answer, so it gets none
        if task is not None:
            task.cancel()

    async def _in_order(self) -> None:
        try:
            while self._waiting:
                await self._answer(None, self._waiting.popleft())
        finally:
            self._ordered = None
            while self._waiting:  # this task was ended: no turn comes for them
                self._waiting.popleft()
                self._fail(None, RuntimeError("the call was not begun: the one before it ended the program's task"))

    async def _answer(self, request: RequestId | None, params: _Call | msgspec.Raw) -> None:
        """Run a function and answer its request, also if the function fails."""
        try:
            call = params if isinstance(params, _Call) else _read_call(params)
            progress: Progress = _ignore_progress
            if call.progress and request is not None:
                progress = self._progress(request)
            try:
                answer = await self._run(call.name, bytes(call.arguments), progress)
                result = _TEXT % _encode(answer) if type(answer) is str else _encode(render(answer))
            except ToolError as error:
                result = _encode(render_error(_error_text(error)))
            payload = _envelope(request, b'"result":' + result)
            if len(payload) > LIMIT:
                raise MessageSizeError(f"the answer of {call.name}", len(payload))
        except BaseException as error:  # the dispatching loop: a tool's fault goes to its caller
            self._finish(request, _error(request, error))
            if isinstance(error, KeyboardInterrupt | SystemExit):
                self._loop.call_soon(_raise, error)  # the program means itself; of the task, asyncio would complain
            elif isinstance(error, asyncio.CancelledError) and _is_cancelled():
                raise
            _log.debug("a call failed", exc_info=True)
            return
        self._finish(request, payload)

    def _finish(self, request: RequestId | None, payload: bytes) -> None:
        if request is not None:
            if self._running.get(request) is not asyncio.current_task():
                return  # cancelled, though the function ignored it
            del self._running[request]
        self._send(payload)

    def _progress(self, request: RequestId) -> Progress:
        here, task = get_ident(), asyncio.current_task()

        def send(payload: bytes) -> None:
            if self._running.get(request) is task:
                self._send(payload)

        def progress(done: float, total: float | None = None, message: str = "") -> None:
            details = {"progress": done, "total": total, "message": message or None}
            some = {key: value for key, value in details.items() if value is not None}
            payload = _envelope(request, b'"progress":' + _encode(some))
            if get_ident() == here:
                send(payload)  # at once: later the call may have ended
            else:
                self._loop.call_soon_threadsafe(send, payload)

        return progress

    # Answers.

    def _fail(self, request: RequestId | None, error: Exception) -> None:
        self._send(_error(request, error))

    def _send(self, payload: bytes) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        if len(payload) < 65536:
            self._transport.write(len(payload).to_bytes(4, "big") + payload)
        else:
            self._transport.write(len(payload).to_bytes(4, "big"))
            self._transport.write(payload)


def _ignore_progress(done: float, total: float | None = None, message: str = "") -> None:
    """Nobody asked for progress."""


def _envelope(request: RequestId | None, rest: bytes) -> bytes:
    """The id stands first: whoever cannot read the rest still knows whose it is."""
    if isinstance(request, int):
        return b'{"id":%d,%b}' % (request, rest)
    return b"{%b}" % rest if request is None else b'{"id":%b,%b}' % (_encode(request), rest)


def _error(request: RequestId | None, error: BaseException) -> bytes:
    details: dict[str, Any] = {
        "message": _error_text(error)[:100_000] or "no reason given",
        "type": type(error).__name__,
    }
    return _envelope(request, b'"error":' + _encode(details))


def _error_text(error: BaseException) -> str:
    """Return what an exception says, in signs that can be sent; what it is, if it cannot say it."""
    if isinstance(error, asyncio.CancelledError):
        return "the call was cancelled within the program that offers the tool"
    try:
        return str(error).encode("utf-8", "replace").decode()
    except BaseException as worse:  # noqa: BLE001  the tool's own code, too
        return f"its reason cannot be told: reading it raised {type(worse).__name__}"


def _is_cancelled() -> bool:
    """Return True if the task itself was, and not something that its function waited for."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _raise(error: BaseException) -> None:
    raise error


def _id_of(payload: bytes | bytearray) -> RequestId | None:
    """The id of a request that cannot be read, if it stands at its head."""
    found = _ID_FIRST.match(payload)
    return msgspec.json.decode(found[1], type=int | str) if found else None
