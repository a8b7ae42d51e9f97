"""The bridge itself: it reads the client's messages, keeps their order where it matters, and ends in good order.

Every request is answered exactly once, on every path; one that the client has cancelled gets no answer from the bridge.
"""

from __future__ import annotations

import select

from gatepost.jsonrpc.plain_json import encode_ascii
from gatepost.jsonrpc.protocol import INVALID_REQUEST, JsonRpcFailure, render_id_in_use
from gatepost.serve.agents.bridge.gateway import FAREWELL_S, GatewayExchange
from gatepost.serve.agents.bridge.http import TAIL_S, BridgeFailure, BridgeHttpClient
from gatepost.serve.agents.bridge.loop import PollCondition, PollLoop, PollWait, now
from gatepost.serve.agents.bridge.messages import ClientMessage, MalformedLine, render_error
from gatepost.serve.agents.bridge.stdio import StdoutWriter, log, read_lines

PATIENCE_S = 10.0  # how long answers may take after stdin has ended
MOST_AT_ONCE = 256  # requests that hold a connection; the others wait


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
