"""The gateway of the emulated Discord: sessions that are resumed, heartbeats, and events with numbers."""

import asyncio
import json
import secrets
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from starlette.websockets import WebSocket, WebSocketDisconnect

REPLAYED = 1000


class EmulatedSession:
    def __init__(self, intents: int) -> None:
        self.id, self.intents = secrets.token_hex(16), intents
        self.seq = 0
        self.sent: list[dict[str, Any]] = []
        self.socket: EmulatedSocket | None = None

    def add(self, name: str, data: Any) -> None:
        self.seq += 1
        frame = {"op": 0, "s": self.seq, "t": name, "d": data}
        self.sent = [*self.sent[-REPLAYED:], frame]
        if self.socket is not None:
            self.socket.frames.put_nowait(frame)


class EmulatedSocket:
    def __init__(self, websocket: WebSocket) -> None:
        self.websocket = websocket
        self.frames: asyncio.Queue[dict[str, Any] | int] = asyncio.Queue()  # a number: a close code


class EmulatedGateway:
    """Runs in the platform's loop. `list_ready` gives the events of a new session, as (name, data)."""

    def __init__(
        self,
        token: str,
        list_ready: Callable[[str], list[tuple[str, Any]]],
        is_held: Callable[[], bool],
        is_revoked: Callable[[], bool],
        is_forgotten: Callable[[], bool],
        notify: Callable[[], None],
    ) -> None:
        self.token, self.list_ready = token, list_ready
        self.is_held, self.is_revoked, self.is_forgotten = is_held, is_revoked, is_forgotten
        self._notify = notify
        self.sessions: dict[str, EmulatedSession] = {}
        self.sockets: set[EmulatedSocket] = set()
        self.heartbeat_ms = 250
        self.allowed_intents = (1 << 26) - 1
        self.identified = self.resumed = 0

    def deliver(self, name: str, data: Any) -> None:
        for session in self.sessions.values():
            session.add(name, data)

    def close_all(self, code: int) -> None:
        for each in self.sockets:
            each.frames.put_nowait(code)

    def ask_to_reconnect(self) -> None:
        for each in self.sockets:
            each.frames.put_nowait({"op": 7, "d": None})

    async def serve(self, websocket: WebSocket) -> None:
        await websocket.accept()
        socket = EmulatedSocket(websocket)
        self.sockets.add(socket)
        socket.frames.put_nowait({"op": 10, "d": {"heartbeat_interval": self.heartbeat_ms}})
        writer = asyncio.create_task(self._write(socket))
        try:
            with suppress(WebSocketDisconnect, RuntimeError):
                while True:
                    self._receive(socket, json.loads(await websocket.receive_text()))
        finally:
            self.sockets.discard(socket)
            for session in self.sessions.values():
                if session.socket is socket:
                    session.socket = None
            writer.cancel()
            self._notify()

    async def _write(self, socket: EmulatedSocket) -> None:
        with suppress(RuntimeError, WebSocketDisconnect):
            while True:
                frame = await socket.frames.get()
                while self.is_held():  # noqa: ASYNC110  it is healed from another thread
                    await asyncio.sleep(0.01)
                if isinstance(frame, int):
                    return await socket.websocket.close(frame)
                await socket.websocket.send_text(json.dumps(frame))

    def _receive(self, socket: EmulatedSocket, frame: dict[str, Any]) -> None:
        data = frame.get("d")
        match frame.get("op"):
            case 1:
                socket.frames.put_nowait({"op": 11, "d": None})
            case 2:
                self._identify(socket, data or {})
            case 6:
                self._resume(socket, data or {})
        self._notify()

    def _identify(self, socket: EmulatedSocket, data: dict[str, Any]) -> None:
        intents = int(data.get("intents") or 0)
        if self.is_revoked() or data.get("token") != self.token:
            return socket.frames.put_nowait(4004)
        if intents & ~self.allowed_intents:
            return socket.frames.put_nowait(4014)
        session = EmulatedSession(intents)
        self.sessions[session.id], session.socket = session, socket
        self.identified += 1
        for name, payload in self.list_ready(session.id):
            session.add(name, payload)
        return None

    def _resume(self, socket: EmulatedSocket, data: dict[str, Any]) -> None:
        if self.is_revoked() or data.get("token") != self.token:
            return socket.frames.put_nowait(4004)
        if self.is_forgotten():
            self.sessions.clear()
        session = self.sessions.get(str(data.get("session_id")))
        if session is None:
            return socket.frames.put_nowait({"op": 9, "d": False})
        self.resumed += 1
        for frame in session.sent:
            if frame["s"] > int(data.get("seq") or 0):
                socket.frames.put_nowait(frame)
        session.socket = socket
        session.add("RESUMED", {})
        return None
