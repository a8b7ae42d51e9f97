"""`router.sock`: one per session, newline-delimited JSON-RPC. Every accepted connection acts as the session's caller.

A peer that is not of this sandbox, and a ninth connection, are closed without a byte. A client that does not read is
not read, and no call that only reads is begun for it. A message beyond the limit is answered and skipped; the
connection lives. Many at once are worked through a few at a time, so that everybody else has their turn in between. A
caller that sends faster than its rate is not read until it is within it again, and one that does not stop is reported.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from gatepost.core import log
from gatepost.core.process.acceptor import Acceptor
from gatepost.core.process.unix_sockets import bind_unix, is_hung_up, peer_pid, remove_at_exit
from gatepost.core.token_bucket import Rate, TokenBucket
from gatepost.gate.dispatch import Dispatch
from gatepost.gate.mcp_protocol import McpProtocol, Outflow, SubmitTurn
from gatepost.jsonrpc.messages import render_error
from gatepost.jsonrpc.protocol import INVALID_REQUEST
from gatepost.tools.call import Caller

LARGEST_MESSAGE = 2 * 1024 * 1024  # what is larger is a file, and files go by their names
MOST_CONNECTIONS = 8
MOST_READS = 8  # calls of one caller that only read and run at once; the others wait
# Bytes of what a caller says: an effect is written several times over, and everybody's commits wait for the disk. What
# is larger than its rate is read, and the debt is waited for.
ARGUMENTS = Rate(per_second=1024 * 1024, burst=512 * 1024, patience_s=float("inf"))
MOST_LINES = 32  # of one caller in one turn of the loop …
LONGEST_S = 0.005  # … and for how long no further one is begun

CALLS = Rate(per_second=200, burst=2000, patience_s=60)  # messages of one session
CONNECTIONS = Rate(per_second=50, burst=200, patience_s=60)
FLOOD = f"the agent sends more than {CALLS.per_second:g} tool messages a second"

_KEPT = 64 * 1024  # of a connection's buffer, between messages
_HIGH = 1024 * 1024  # unread answers beyond which a client is not read
_JOINED = 64 * 1024  # above that, a newline of its own is cheaper than a copy
_TOO_LARGE = render_error(None, INVALID_REQUEST, f"a message may have at most {LARGEST_MESSAGE} bytes")

_log = log.get("gate")


class ToolConnection(asyncio.BufferedProtocol):
    """One client. Bytes are received into a kept buffer; each line becomes a message."""

    def __init__(self, tools: "ToolSocket") -> None:
        self._tools = tools
        self._buffer = bytearray(_KEPT)
        self._start = self._seen = self._end = 0  # the unfinished line, how far it was searched, what is filled
        self._skipping = False  # the rest of a message that was too large
        self._outflow = Outflow(tools.reads, lambda: tools.unread)
        self._over = False  # the client has said all that it will
        self._in_line = False  # lines wait for a later turn of the loop
        self._transport: asyncio.Transport | None = None
        self.conversation: McpProtocol | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # uvloop's has no such base
        self._transport = transport
        if not self._tools.admit(self, peer_pid(transport.get_extra_info("socket"))):
            transport.abort()
            return
        transport.set_write_buffer_limits(high=_HIGH)
        self.conversation = self._tools.make_protocol(self, self._outflow)

    def connection_lost(self, exc: Exception | None) -> None:
        self._tools.leave(self)
        self._tools.count_bytes(self._end - self._start)  # of a message that was begun: more of them are no way around
        if self.conversation is not None:
            self.conversation.cancel_all()

    def close(self) -> None:
        """Close the connection. Bytes that were sent still arrive."""
        self._tools.dequeue(self)
        if self.conversation is not None:
            self.conversation.finish()
            self.conversation.cancel_all()
        if self._transport is not None:
            self._transport.close()

    # Reading.

    def get_buffer(self, sizehint: int) -> memoryview:
        if self._end == len(self._buffer):
            kept = self._end - self._start
            larger = self._buffer if self._start else bytearray(min(2 * len(self._buffer), LARGEST_MESSAGE + _KEPT))
            larger[:kept] = self._buffer[self._start : self._end]
            self._buffer = larger
            self._seen, self._start, self._end = self._seen - self._start, 0, kept
        return memoryview(self._buffer)[self._end :]

    def buffer_updated(self, nbytes: int) -> None:
        self._end += nbytes
        if self._tools.has_queue:
            self._stand_in_line()
        else:
            self._read_lines()

    def eof_received(self) -> bool:
        """A client that has closed its half only is still answered; one that is gone is not worked for."""
        self._over = True
        if self._transport is None or is_hung_up(self._transport.get_extra_info("socket")):
            return False
        self._read_lines()
        self.rested()
        return True

    def _read_lines(self) -> None:
        if self._in_line:
            return
        left, until = MOST_LINES, time.monotonic() + LONGEST_S
        while not self._outflow.is_full:
            at = self._buffer.find(b"\n", self._seen, self._end)
            if at < 0:
                break
            if not left or time.monotonic() > until or self._tools.is_slowed:
                self._stand_in_line()
                return
            left -= 1
            self._tools.count_message(at - self._start)
            self._handle_line(at)
            self._start = self._seen = at + 1
            self._skipping = False
        else:
            return  # the rest waits in the buffer until the client reads
        self._seen = self._end
        if self._over or self._skipping or self._end - self._start > LARGEST_MESSAGE:
            self._tools.count_bytes(self._end - self._start)
            self._handle_line(self._end)
            self._skipping = not self._over
            self._start = self._end  # what has no end is made once, too, however often is looked for more
        if self._start == self._end:
            self._forget()
        if self._tools.is_slowed:
            self._stand_in_line()

    def _stand_in_line(self) -> None:
        """Nothing more is read meanwhile: the buffer must not grow by what nobody has looked at."""
        if not self._in_line:
            self._in_line = True
            if self._transport is not None:
                self._transport.pause_reading()
            self._tools.enqueue(self)

    def resume(self) -> None:
        self._in_line = False
        self._read_lines()
        self._read_on()
        self.rested()

    def _read_on(self) -> None:
        if self._outflow.is_full or self._over or self._in_line or self._transport is None:
            return
        if not self._transport.is_closing():
            self._transport.resume_reading()

    def _handle_line(self, end: int) -> None:
        """The line from `_start` to `end`, if there is anything in it and it is not the tail of a skipped one."""
        if self._skipping or self.conversation is None:
            return
        if end - self._start > LARGEST_MESSAGE:
            self.send(_TOO_LARGE)
            return
        line = bytes(memoryview(self._buffer)[self._start : end])
        if line and not line.isspace():
            self.conversation.receive(line)

    def _forget(self) -> None:
        self._start = self._seen = self._end = 0
        if len(self._buffer) > _KEPT:
            self._buffer = bytearray(_KEPT)

    # Writing.

    @property
    def waiting(self) -> int:
        """Bytes that this client has not read."""
        return self._transport.get_write_buffer_size() if self._transport is not None else 0

    def pause_writing(self) -> None:
        self._outflow.set_full(True)
        if self._transport is not None:
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        self._outflow.set_full(False)
        self._read_lines()
        self._read_on()
        self.rested()

    def send(self, message: bytes) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        if len(message) < _JOINED:
            self._transport.write(message + b"\n")
        else:
            self._transport.write(message)
            self._transport.write(b"\n")

    def rested(self) -> None:
        busy = self.conversation is not None and self.conversation.busy
        waits = self._outflow.is_full or self._in_line
        if self._over and not busy and not waits and self._transport is not None:
            self._transport.close()


class ToolSocket:
    """The tools of one caller. Open it before its sandbox starts, close it after the sandbox has ended."""

    def __init__(
        self,
        dispatch: Dispatch,
        caller: Caller,
        owns: Callable[[int], bool],
        on_submit_turn: SubmitTurn | None = None,
        on_flood: Callable[[str], None] | None = None,
        rate: Rate = CALLS,
    ) -> None:
        """`on_flood`: what becomes of a caller that does not stop; without it, nothing is slowed."""
        self._dispatch, self._caller, self._owns, self._submit = dispatch, caller, owns, on_submit_turn
        self._connections: set[ToolConnection] = set()
        self._server: Acceptor | None = None
        self._file = ExitStack()
        self._revoked = False
        self._refused = 0  # connections
        self.reads = asyncio.Semaphore(MOST_READS)
        self._queue: deque[ToolConnection] = deque()  # whose messages wait, who came first before the others
        self._called: asyncio.Handle | None = None  # the first of them has its turn soon
        self._on_flood, self._rate = on_flood, rate
        self._bucket: TokenBucket | None = None
        self._volume = TokenBucket(ARGUMENTS, 0.0)
        self._slowed_until = 0.0

    async def open(self, path: Path, uid: int | None = None) -> None:
        """Listen at `path`, which is `uid`'s alone from the first moment."""
        listener = bind_unix(path, uid)
        self._file.enter_context(remove_at_exit(path))
        now, bucket = asyncio.get_running_loop().time(), None
        if self._on_flood is not None:
            self._bucket, bucket = TokenBucket(self._rate, now), TokenBucket(CONNECTIONS, now)
            self._volume = TokenBucket(ARGUMENTS, now)
        self._server = Acceptor(listener, lambda: ToolConnection(self), bucket=bucket)

    async def close(self) -> None:
        """Nobody new comes in, everybody leaves, and the file goes if it is still ours."""
        if self._server is not None:
            self._server.close()
            self._server = None
        for connection in tuple(self._connections):
            connection.close()
        if self._called is not None:
            self._called.cancel()
        self._file.close()
        if self._refused > 1:
            _log.warning("connections were refused", folder=self._caller.folder, number=self._refused)

    def tools_changed(self) -> None:
        for conversation in self._conversations():
            conversation.tools_changed()

    def revoke(self) -> None:
        """Every further call is refused, and those in flight end with an error."""
        self._revoked = True
        for conversation in self._conversations():
            conversation.revoke()

    def admit(self, connection: ToolConnection, pid: int) -> bool:
        if self._server is None or len(self._connections) >= MOST_CONNECTIONS:
            return self._refuse("a connection too many was closed", pid)
        if pid <= 0 or not self._owns(pid):
            return self._refuse("a foreign process was turned away", pid)
        self._connections.add(connection)
        return True

    def _refuse(self, what: str, pid: int) -> bool:
        """The first is told at once, how many there were at the end: who connects in a loop does not fill the log."""
        self._refused += 1
        if self._refused == 1:
            _log.warning(what, folder=self._caller.folder, pid=pid, most=MOST_CONNECTIONS)
        return False

    def leave(self, connection: ToolConnection) -> None:
        self._connections.discard(connection)
        self.dequeue(connection)

    # One line for all connections of a caller: having several is no advantage over other callers.

    @property
    def has_queue(self) -> bool:
        return bool(self._queue)

    def enqueue(self, connection: ToolConnection) -> None:
        self._queue.append(connection)
        self._call_next()

    def _call_next(self) -> None:
        if self._queue and self._called is None:
            loop = asyncio.get_running_loop()
            wait = self._slowed_until - loop.time()
            self._called = loop.call_later(wait, self._next) if wait > 0 else loop.call_soon(self._next)

    def _next(self) -> None:
        self._called = None
        if self._queue:
            self._queue.popleft().resume()
            self._call_next()

    @property
    def is_slowed(self) -> bool:
        return self._slowed_until > 0 and asyncio.get_running_loop().time() < self._slowed_until

    def count_message(self, size: int) -> None:
        """Having several connections is no advantage here either."""
        if self._bucket is None or self._on_flood is None:
            return
        now = asyncio.get_running_loop().time()
        wait = max(self._bucket.charge(1, now), self._volume.charge(size, now))
        self._slowed_until = now + wait if wait else 0.0
        if self._bucket.is_flooded(now):
            on_flood, self._on_flood = self._on_flood, None
            on_flood(FLOOD)

    def count_bytes(self, size: int) -> None:
        """Count bytes that make no whole message: they are read at the same rate as if they did."""
        if self._bucket is not None and size:
            now = asyncio.get_running_loop().time()
            self._slowed_until = max(self._slowed_until, now + self._volume.charge(size, now))

    def dequeue(self, connection: ToolConnection) -> None:
        if connection in self._queue:
            self._queue.remove(connection)

    @property
    def unread(self) -> int:
        """Bytes of answers that wait on its connections."""
        return sum(connection.waiting for connection in self._connections)

    def make_protocol(self, with_: ToolConnection, outflow: Outflow) -> McpProtocol:
        conversation = McpProtocol(self._dispatch, self._caller, with_.send, self._submit, with_.rested, outflow)
        if self._revoked:
            conversation.revoke()
        return conversation

    def _conversations(self) -> list[McpProtocol]:
        found = (connection.conversation for connection in self._connections)
        return [conversation for conversation in found if conversation is not None]
