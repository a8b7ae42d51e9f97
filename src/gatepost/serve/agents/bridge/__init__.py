"""stdio ⇄ Streamable HTTP, for MCP clients that start their servers as a process.

    gatepost bridge --url unix:PATH:/mcp/agents [--token-file FILE]

Messages pass as they are; the bridge reads only what the transport needs. Every request is answered exactly once, on
every path; one that the client has cancelled gets no answer from the bridge. stdout carries messages alone, stderr the
rest.

It imports a small part of the standard library: an agent waits for it at every start. `http.client` and `threading`
would make that start five times as long. Threads with an HTTP client like ours need a fifth more of the processor, and
twice the time when many calls come at once.
"""

from __future__ import annotations

import os
import select
import stat
import sys

from gatepost.jsonrpc.bridge_command import bridge_command
from gatepost.jsonrpc.errors import INVALID_REQUEST, JsonRpcFailure, render_id_in_use
from gatepost.jsonrpc.plain_json import encode_ascii
from gatepost.serve.agents.bridge.client import (
    ClientMessage,
    MalformedLine,
    StdoutWriter,
    log,
    read_lines,
    render_error,
)
from gatepost.serve.agents.bridge.gateway import FAREWELL_S, GatewayExchange
from gatepost.serve.agents.bridge.http import TAIL_S, USAGE, BridgeFailure, BridgeHttpClient
from gatepost.serve.agents.bridge.loop import PollCondition, PollLoop, PollWait, now

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
else:
    import _signal as signal  # the other one makes enumerations at every start

PATIENCE_S = 10.0  # how long answers may take after stdin has ended
MOST_AT_ONCE = 256  # requests that hold a connection; the others wait


def command(url: str, token_file: str = "") -> list[str]:
    return bridge_command(__name__, "--url", url, *(["--token-file", token_file] if token_file else []))


def read_token(path: str) -> str:
    """The token in a file that nobody else can read. Raises ValueError with what is wrong."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from None
    with open(fd, encoding="ascii", errors="replace") as file:
        facts = os.fstat(fd)
        if not stat.S_ISREG(facts.st_mode):
            raise ValueError(f"{path} is not a file")
        if facts.st_mode & 0o077:
            raise ValueError(f"others can read {path}; `chmod 600` it, and make a new token if they may have")
        token = file.read(4096).strip()
    if not token or not all("!" <= each <= "~" for each in token):
        raise ValueError(f"{path} holds no token: one line of plain characters")
    return token


def parse_options(arguments: list[str]) -> tuple[str, str]:
    """(url, token file). Raises ValueError."""
    words = [part for each in arguments for part in (each.split("=", 1) if each.startswith("--") else [each])]
    given = dict(zip(words[::2], words[1::2], strict=False))
    if len(words) % 2 or given.keys() - {"--url", "--token-file"} or "--url" not in given:
        raise ValueError(USAGE)
    return given["--url"], given.get("--token-file", "")


def main(arguments: list[str]) -> int:
    try:
        url, token_file = parse_options(arguments)
        http = BridgeHttpClient(url, read_token(token_file) if token_file else "")
    except ValueError as error:
        sys.stderr.write(f"gatepost bridge: {error}\n")
        return 2
    bridge = StdioHttpBridge(http)
    waking, woken = os.pipe()
    os.set_blocking(woken, False)
    signal.set_wakeup_fd(woken, warn_on_full_buffer=False)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: None)
    bridge.run(waking)
    return 0


class StdioHttpBridge:
    """One thread: each message is a task, so a client that reads slowly slows the gateway's stream."""

    def __init__(self, http: BridgeHttpClient, source: int = 0, sink: int = 1) -> None:
        self._loop = PollLoop()
        self._out = StdoutWriter(self._loop, sink, self._end)
        self._gateway = GatewayExchange(self._loop, http, self._out)
        self._source, self._reading, self._ending = source, True, False
        self._running: set[ClientMessage] = set()
        self._handshake: ClientMessage | None = None
        self._at_once = 0
        self._changed, self._freed = PollCondition(self._loop), PollCondition(self._loop)

    def run(self, signalled: int) -> None:
        """Until stdin ends, nobody reads stdout, or a signal has written to the descriptor `signalled`."""
        self._loop.run(self._run(signalled))

    async def _wait_for_signal(self, signalled: int) -> None:
        await PollWait(signalled, select.POLLIN)
        self._end()

    def _end(self) -> None:
        self._ending = True
        self._changed.notify()

    async def _read(self) -> None:
        await read_lines(self._source, self.receive)
        self._reading = False
        self._changed.notify()

    async def _run(self, signalled: int) -> None:
        """From the first line to the DELETE."""
        self._loop.spawn(self._wait_for_signal(signalled))
        reader = self._read()
        self._loop.spawn(reader)
        await self._changed.until(lambda: self._ending or not self._reading)
        self._loop.cancel(reader)
        await self._changed.until(lambda: self._ending or not self._is_busy(), now() + PATIENCE_S)
        for message in list(self._gateway.pending.values()):
            self._gateway.fail(message, BridgeFailure("the bridge ended before there was an answer"))
            self._loop.cancel(message.task)
        self._gateway.stop_listening()
        await self._out.drain(now() + FAREWELL_S)
        await self._gateway.end_session()

    def _is_busy(self) -> bool:
        """A message runs that has an end, be it a notification."""
        return any(not message.is_subscription and not message.cancelled for message in self._running)

    def receive(self, line: bytes) -> None:
        """Take one line of the client. No line ends the bridge; blank lines are skipped."""
        if not line.strip():
            return
        try:
            message = ClientMessage(line)
        except MalformedLine as error:
            log(f"a line of {len(line)} bytes: {error}")
            self._out.add(render_error(error.request, error.to_json()))
            return
        if message.method == "notifications/cancelled" and not self._cancel(message.params.get("requestId")):
            return
        pending = self._gateway.pending
        for key, request in message.owed.items():
            if key in pending:
                failure = JsonRpcFailure(INVALID_REQUEST, render_id_in_use(request))
                self._out.add(render_error(request, failure.to_json()))
                return
        pending.update(dict.fromkeys(message.owed, message))
        if message.version or message.method == "initialize":
            self._gateway.envelope_version = message.version
        before = self._handshake
        if message.is_handshake:
            self._handshake = message
        self._running.add(message)
        message.task = self._process(message, before)
        self._loop.spawn(message.task)

    def _cancel(self, request: object) -> bool:
        """True: send the cancellation to the gateway. On the stateless wire, hanging up has that meaning."""
        message = self._gateway.pending.get(encode_ascii(request))
        if message is None:
            return not self._gateway.envelope_version
        message.cancelled = True
        if message.sent and not message.version:
            self._loop.spawn(self._cancel_later(message))
            return True
        self._loop.cancel(message.task)
        return False

    async def _cancel_later(self, message: ClientMessage) -> None:
        """A cancelled request may be answered, and need not be."""
        await PollWait(until=now() + TAIL_S)
        self._loop.cancel(message.task)

    async def _process(self, message: ClientMessage, before: ClientMessage | None) -> None:
        """One message, from the handshake before it to its answer."""
        counted = False
        try:
            if before is not None and not before.done:
                await self._changed.until(lambda: before.done)
            if message.owed and not message.is_subscription:
                if self._at_once >= MOST_AT_ONCE:
                    await self._freed.until(lambda: self._at_once < MOST_AT_ONCE)
                self._at_once, counted = self._at_once + 1, True
            await self._gateway.send(message)
        except BridgeFailure as failure:
            self._gateway.fail(message, failure)
        finally:
            message.done = True
            self._running.discard(message)
            self._at_once -= counted
            for key in message.owed:
                self._gateway.pending.pop(key, None)
            if message.is_handshake or not self._reading:
                self._changed.notify()
            self._freed.notify()
