"""Socket Mode of the emulated Slack: envelopes wait until they are acknowledged."""

import asyncio
import json
import secrets
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

from starlette.websockets import WebSocket, WebSocketDisconnect

from gatepost_testing.platforms.base import PlatformFault

DISTURBING = (PlatformFault.DUPLICATE, PlatformFault.REORDER)


class EmulatedSlackSocket:
    def __init__(self, websocket: WebSocket) -> None:
        self.websocket = websocket
        self.frames: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()  # None: close


class EmulatedSocketMode:
    """Runs in the platform's loop."""

    def __init__(
        self,
        claim_fault: Callable[..., PlatformFault | None],
        is_faulty: Callable[[PlatformFault], bool],
        notify: Callable[[], None],
        list_connections: Callable[[], Iterable[Any]],
    ) -> None:
        self._claim_fault, self._is_faulty, self._notify = claim_fault, is_faulty, notify
        self._list_connections = list_connections
        self.waiting: dict[str, dict[str, Any]] = {}  # envelopes without an acknowledgement, oldest first
        self.sockets: list[EmulatedSlackSocket] = []
        self.acknowledged: list[str] = []
        self.opened = 0
        self._delayed: dict[str, Any] | None = None

    def deliver(self, kind: str, payload: dict[str, Any], by_bot: bool = False) -> None:
        envelope: dict[str, Any] = {"envelope_id": secrets.token_hex(8), "type": kind, "payload": payload}
        envelope |= {"accepts_response_payload": kind != "events_api", "retry_attempt": 0, "retry_reason": ""}
        fault = None if by_bot else self._claim_fault(*DISTURBING)
        if fault is PlatformFault.REORDER:
            self._delayed = envelope
            return
        ready = [envelope]
        if fault is PlatformFault.DUPLICATE:
            ready.append({**envelope, "envelope_id": secrets.token_hex(8), "retry_attempt": 1})
        if self._delayed is not None and not by_bot:
            ready.append(self._delayed)
            self._delayed = None
        for each in ready:
            self.waiting[each["envelope_id"]] = each
            if self.sockets:
                self.sockets[-1].frames.put_nowait(each)

    def ask_to_reconnect(self, reason: str = "refresh_requested") -> None:
        for each in self.sockets:
            each.frames.put_nowait({"type": "disconnect", "reason": reason, "debug_info": {"host": "emulated"}})

    def close_all(self) -> None:
        for each in self.sockets:
            each.frames.put_nowait(None)

    def set_held(self, held: bool) -> None:
        """A dead connection answers no ping either, so nothing is read from it."""
        for connection in list(self._list_connections()):
            transport = getattr(connection, "transport", None)
            if "websocket" in type(connection).__module__ and transport is not None:
                with suppress(RuntimeError):
                    if held:
                        transport.pause_reading()
                    else:
                        transport.resume_reading()

    async def serve(self, websocket: WebSocket) -> None:
        await websocket.accept()
        socket = EmulatedSlackSocket(websocket)
        self.opened += 1
        self._notify()
        writer = asyncio.create_task(self._write(socket))
        try:
            with suppress(WebSocketDisconnect, RuntimeError):
                while True:
                    self._receive(socket, json.loads(await websocket.receive_text()))
        finally:
            if socket in self.sockets:
                self.sockets.remove(socket)
            writer.cancel()
            self._notify()

    async def _write(self, socket: EmulatedSlackSocket) -> None:
        with suppress(RuntimeError, WebSocketDisconnect):
            await self._wait_while_held()
            others = 2 if self._is_faulty(PlatformFault.CONFLICT) else 1
            hello = {"type": "hello", "num_connections": len(self.sockets) + others, "debug_info": {}}
            await socket.websocket.send_text(json.dumps({**hello, "connection_info": {"app_id": "A0EMULATED"}}))
            self.sockets.append(socket)
            for each in self.waiting.values():
                socket.frames.put_nowait(
                    {**each, "retry_attempt": each["retry_attempt"] + 1, "retry_reason": "timeout"}
                )
            self._notify()
            while True:
                frame = await socket.frames.get()
                await self._wait_while_held()
                if frame is None:
                    return await socket.websocket.close()
                await socket.websocket.send_text(json.dumps(frame))

    async def _wait_while_held(self) -> None:
        while self._is_faulty(PlatformFault.HELD_POLL):  # noqa: ASYNC110  it is healed from another thread
            await asyncio.sleep(0.01)

    def _receive(self, socket: EmulatedSlackSocket, frame: dict[str, Any]) -> None:
        ident = str(frame.get("envelope_id") or "")
        if ident not in self.waiting:
            return
        if self._claim_fault(PlatformFault.FORGOTTEN) is not None:
            again = {**self.waiting[ident], "retry_attempt": 1, "retry_reason": "timeout"}
            socket.frames.put_nowait(again)
            return
        del self.waiting[ident]
        self.acknowledged.append(ident)
        self._notify()
