"""Socket Mode: connections that we open, envelopes that we acknowledge once they are durable.

The platform asks for a new connection every few hours. The next one is opened before the old one is left, so that
there is always somebody to deliver to; what the old one still brings is handled, too.
"""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import websockets
from websockets.asyncio.client import ClientConnection, connect

from gatepost.channels.contract import ChannelEnded, EndReason
from gatepost.channels.kit.backoff import Backoff
from gatepost.channels.kit.room_queues import RoomQueues
from gatepost.channels.slack.rest import APPS, SlackHttp
from gatepost.core.errors import Unavailable
from gatepost.messages.text import may_stop

LARGEST_FRAME = 4 * 1024 * 1024
OPEN_S = 20.0
LEAVE_S = 30.0
OTHERS_PINGS = 4  # for so many pings a connection that we lost may still be counted; then it is another program's
LASTING_S = 30.0  # a connection that held so long was a good one

HandleEnvelope = Callable[[str, dict[str, Any]], Awaitable[None]]


class SocketMode:
    def __init__(
        self,
        http: SlackHttp,
        queues: RoomQueues,
        handle: HandleEnvelope,
        beat: Callable[[], None],
        ping_s: float,
    ) -> None:
        """`handle` gets the kind of an envelope and its payload, and returns when it is durable."""
        self._http, self._queues, self._handle, self._beat, self._ping_s = http, queues, handle, beat, ping_s
        self._others_since: float | None = None
        self._open = set[asyncio.Task[None]]()

    async def run(self) -> None:
        """Until cancelled, or until an error that no new connection mends."""
        backoff = Backoff()
        try:
            while True:
                begun, leaving = time.monotonic(), asyncio.Event()
                task = asyncio.create_task(self._serve(leaving))
                self._open.add(task)
                await _wait_any(leaving, task)
                for done in [each for each in self._open if each.done()]:
                    self._open.discard(done)
                    _raise_ended(done)
                if time.monotonic() - begun > LASTING_S:
                    backoff.reset()
                if not leaving.is_set():
                    await backoff.wait()
        finally:
            for each in self._open:
                each.cancel()
            await asyncio.gather(*self._open, return_exceptions=True)

    async def _serve(self, leaving: asyncio.Event) -> None:
        """One connection. `leaving` is set when the platform wants us to open another."""
        try:
            async with await _open(self._http) as socket:
                await self._converse(socket, leaving)
        except websockets.ConnectionClosed:
            return
        except (OSError, TimeoutError, websockets.InvalidHandshake, websockets.InvalidURI) as error:
            raise Unavailable("Slack's socket", type(error).__name__) from None

    async def _converse(self, socket: ClientConnection, leaving: asyncio.Event) -> None:
        async with asyncio.timeout(OPEN_S):
            self._check_hello(json.loads(await socket.recv()))
        pulse = asyncio.create_task(self._send_pings(socket))
        try:
            async for text in socket:
                self._beat()
                frame = json.loads(text)
                if frame.get("type") == "disconnect":
                    if frame.get("reason") == "link_disabled":
                        raise ChannelEnded(
                            EndReason.SETTING, "Socket Mode is switched off for the app", f"switch it on at {APPS}"
                        )
                    leaving.set()
                    asyncio.get_running_loop().call_later(LEAVE_S, pulse.cancel)
                elif frame.get("envelope_id"):
                    await self._queue(socket, frame)
        finally:
            pulse.cancel()
            await asyncio.gather(pulse, return_exceptions=True)

    def _check_hello(self, hello: dict[str, Any]) -> None:
        """A connection that we left without a word may still be counted for a while, but not again and again."""
        self._beat()
        own = sum(1 for each in self._open if not each.done())
        if int(hello.get("num_connections") or 1) <= max(own, 1):
            self._others_since = None
            return
        now = time.monotonic()
        self._others_since = self._others_since or now
        if now - self._others_since >= OTHERS_PINGS * self._ping_s:
            raise _make_others_error()
        raise Unavailable("Slack's socket", "another connection of this app is open")

    async def _queue(self, socket: ClientConnection, frame: dict[str, Any]) -> None:
        payload = frame.get("payload") or {}
        job = partial(self._receive, socket, frame, payload)
        await self._queues.put(find_room(payload), job, urgent=is_urgent(payload))

    async def _receive(self, socket: ClientConnection, frame: dict[str, Any], payload: dict[str, Any]) -> None:
        await self._handle(str(frame.get("type")), payload)
        with suppress(websockets.ConnectionClosed):  # not acknowledged: it comes again, and is known
            await socket.send(json.dumps({"envelope_id": frame["envelope_id"]}))

    async def _send_pings(self, socket: ClientConnection) -> None:
        """A connection that does not answer is dead, whatever the network says."""
        with suppress(TimeoutError, websockets.ConnectionClosed):
            while True:
                answered = await socket.ping()
                async with asyncio.timeout(self._ping_s):
                    await answered
                self._beat()
                await asyncio.sleep(self._ping_s)
        await socket.close()


async def check_alone(http: SlackHttp) -> None:
    """Raise ChannelEnded if the app has another connection. Ours is left at once; an event that came by it is not
    acknowledged, so Slack delivers it again to the other."""
    try:
        async with await _open(http) as socket, asyncio.timeout(OPEN_S):
            hello = json.loads(await socket.recv())
    except (OSError, TimeoutError, ValueError, websockets.WebSocketException) as error:
        raise Unavailable("Slack's socket", type(error).__name__) from None
    if int(hello.get("num_connections") or 1) > 1:
        raise _make_others_error()


async def _open(http: SlackHttp) -> connect:
    answer = await http.act("apps.connections.open", {}, "open a socket", reads=True)
    url = _check_url(str(answer.get("url") or ""), http)
    return connect(url, max_size=LARGEST_FRAME, open_timeout=OPEN_S, close_timeout=1, ping_interval=None, proxy=None)


def _make_others_error() -> ChannelEnded:
    return ChannelEnded(
        EndReason.SECOND_POLLER,
        "another program receives the events of this app, too",
        "stop it, or make an app of its own for it",
    )


def find_room(payload: dict[str, Any]) -> str:
    """Return what must stay in order with it."""
    event = payload.get("event") or {}
    where = payload.get("container") or event.get("item") or event.get("assistant_thread") or {}
    found = event.get("channel") or where.get("channel") or where.get("channel_id") or payload.get("channel_id")
    return str(found or "")


def is_command(payload: dict[str, Any]) -> bool:
    return isinstance(payload.get("command"), str)


def is_urgent(payload: dict[str, Any]) -> bool:
    """Return True for what may be an order to stop, and for a slash command, whose answer the platform expects soon."""
    if is_command(payload):
        return True
    event = payload.get("event") or {}
    return event.get("type") in ("message", "app_mention") and may_stop(event.get("text"))


async def _wait_any(leaving: asyncio.Event, task: asyncio.Task[None]) -> None:
    asked = asyncio.create_task(leaving.wait())
    try:
        await asyncio.wait({asked, task}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        asked.cancel()


def _raise_ended(task: asyncio.Task[None]) -> None:
    error = None if task.cancelled() else task.exception()
    if error is not None and not isinstance(error, Unavailable | TimeoutError):
        raise error


def _check_url(url: str, http: SlackHttp) -> str:
    """A socket is opened without a token in a header, but not in the clear where the API is not."""
    parts = urlsplit(url)
    if parts.scheme != "wss" and not (parts.scheme == "ws" and http.base_url.startswith("http://")):
        raise Unavailable("Slack's socket", "its address is not one of a secure socket")
    return url
