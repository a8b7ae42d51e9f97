"""One connection to Discord's gateway: the checks before it, the handshake, heartbeats, and what its end means.

The platform has no acknowledgement of an event. It replays the events after a number that we give when we resume, so
`session` names the last event that was read. The adapter knows which events are durable.
"""

import asyncio
import json
import random
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from enum import StrEnum
from typing import Any

import websockets
from msgspec import Struct
from websockets.asyncio.client import ClientConnection, connect

from gatepost.channels.contract import ChannelEnded, EndReason
from gatepost.channels.discord.wire import Payload
from gatepost.core.errors import Unavailable

LARGEST_FRAME = 16 * 1024 * 1024
OPEN_S = 20.0
ZOMBIE = 4000  # a close code of ours: the session stays, unlike with 1000
INTENTS = sum(1 << bit for bit in (0, 9, 10, 12, 13, 15))  # servers, messages, reactions, the same direct, content
PORTAL = "https://discord.com/developers/applications"
NEW_SESSION = frozenset({4003, 4007, 4009})
ENDED = {
    4004: (EndReason.TOKEN, "Discord no longer accepts the token", f"make a new one at {PORTAL} and set it"),
    4010: (EndReason.SETTING, "Discord refuses the shard", "report this as a fault of the channel"),
    4011: (EndReason.RIGHTS, "the bot is in too many servers for one connection", "use a bot of its own"),
    4012: (EndReason.SETTING, "Discord no longer speaks version 10 of its gateway", "update gatepost"),
    4013: (EndReason.RIGHTS, "Discord does not know an intent that was asked for", "update gatepost"),
    4014: (
        EndReason.RIGHTS,
        "the bot may not read messages",
        f"switch on MESSAGE CONTENT INTENT at {PORTAL}, on the page Bot of the application",
    ),
}

Dispatch = Callable[[str, Any, "GatewaySession"], Awaitable[None]]
PERMISSIONS = sum(1 << bit for bit in (6, 10, 11, 14, 15, 16, 38, 46, 51))
CONTENT_FLAGS = (1 << 18) | (1 << 19)  # the switch MESSAGE CONTENT INTENT, for large and for small bots


class NextStep(StrEnum):
    RESUME = "resume"
    ANEW = "anew"


class GatewaySession(Struct, frozen=True):
    id: str = ""
    url: str = ""
    seq: int = 0


def read_close(code: int | None) -> NextStep:
    """Return what to do after a close; raises ChannelEnded if nothing helps."""
    if code in ENDED:
        raise ChannelEnded(*ENDED[code])
    return NextStep.ANEW if code in NEW_SESSION else NextStep.RESUME


class GatewayConnection:
    def __init__(self, token: str, session: GatewaySession, dispatch: Dispatch, beat: Callable[[], Awaitable[None]]):
        self._token, self.session, self._dispatch, self._beat = token, session, dispatch, beat
        self.ready = False  # the platform took us, or took us back
        self._acknowledged = True

    async def run(self, url: str) -> NextStep:
        """Until it ends. `url`: of the gateway, for a new session."""
        target = (self.session.url if self.session.id else "") or url
        try:
            async with connect(
                f"{target.rstrip('/')}/?v=10&encoding=json",
                max_size=LARGEST_FRAME,
                open_timeout=OPEN_S,
                close_timeout=1,
                ping_interval=None,
                proxy=None,
            ) as socket:
                return await self._converse(socket)
        except websockets.ConnectionClosed as closed:
            return read_close(closed.rcvd.code if closed.rcvd else None)
        except (OSError, TimeoutError, websockets.InvalidHandshake, websockets.InvalidURI) as error:
            raise Unavailable("Discord's gateway", type(error).__name__) from None

    async def _converse(self, socket: ClientConnection) -> NextStep:
        async with asyncio.timeout(OPEN_S):
            hello = json.loads(await socket.recv())
        interval = float(hello["d"]["heartbeat_interval"]) / 1000
        await socket.send(json.dumps(self._introduce()))
        heart = asyncio.create_task(self._send_heartbeats(socket, interval))
        try:
            async for frame in socket:
                step = await self._receive(socket, json.loads(frame))
                if step is not None:
                    await socket.close(ZOMBIE)
                    return step
            return read_close(socket.close_code)
        finally:
            heart.cancel()
            await asyncio.gather(heart, return_exceptions=True)

    def _introduce(self) -> dict[str, Any]:
        if self.session.id:
            known = {"token": self._token, "session_id": self.session.id, "seq": self.session.seq}
            return {"op": 6, "d": known}
        properties = {"os": sys.platform, "browser": "gatepost", "device": "gatepost"}
        return {"op": 2, "d": {"token": self._token, "intents": INTENTS, "properties": properties}}

    async def _receive(self, socket: ClientConnection, frame: dict[str, Any]) -> NextStep | None:
        match frame.get("op"):
            case 0:
                await self._receive_event(str(frame.get("t")), frame.get("d"), int(frame.get("s") or 0))
            case 1:
                await self._send_heartbeat(socket)
            case 7:
                return NextStep.RESUME
            case 9:
                await asyncio.sleep(random.uniform(0.0, 1.0) if frame.get("d") else 0)
                return NextStep.RESUME if frame.get("d") else NextStep.ANEW
            case 11:
                self._acknowledged = True
                await self._beat()
            case _:
                pass
        return None

    async def _receive_event(self, name: str, data: Any, seq: int) -> None:
        if name == "READY":
            self.session = GatewaySession(str(data["session_id"]), str(data.get("resume_gateway_url") or ""), seq)
        if name in ("READY", "RESUMED"):
            self.ready = True
        self.session = GatewaySession(self.session.id, self.session.url, seq or self.session.seq)
        await self._dispatch(name, data, self.session)

    async def _send_heartbeats(self, socket: ClientConnection, interval: float) -> None:
        """A heartbeat without an answer means that the connection is dead, whatever the network says."""
        await asyncio.sleep(interval * random.random())
        while self._acknowledged:
            await self._send_heartbeat(socket)
            await asyncio.sleep(interval)
        await socket.close(ZOMBIE)

    async def _send_heartbeat(self, socket: ClientConnection) -> None:
        self._acknowledged = False
        with suppress(websockets.ConnectionClosed):
            await socket.send(json.dumps({"op": 1, "d": self.session.seq or None}))


def check_intents(application: Payload) -> None:
    if not int(application.get("flags") or 0) & CONTENT_FLAGS:
        raise ChannelEnded(
            EndReason.RIGHTS,
            "the bot may not read messages",
            f"switch on MESSAGE CONTENT INTENT at {PORTAL}, on the page Bot of the application",
        )


def check_connections(answer: Payload) -> None:
    """Raise Unavailable if the token has no connection left: Discord lets it connect a number of times a day."""
    limit = answer.get("session_start_limit")
    if not isinstance(limit, dict) or limit.get("remaining") != 0:
        return
    wait = limit.get("reset_after")
    why = f"all {limit.get('total')} connections of the bot for today are used; a program that has its token may loop"
    raise Unavailable("Discord", why, retry_after=wait / 1000 if isinstance(wait, int | float) else None)


def render_invitation(application: Payload) -> str:
    return f"https://discord.com/oauth2/authorize?client_id={application['id']}&scope=bot&permissions={PERMISSIONS}"
