"""Pins: messages of a room of the page that people want to find again. Everybody who may write in a room may pin
there."""

from collections import OrderedDict
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from gatepost.channels.local_channel import LocalChannel
from gatepost.core.clock import Clock
from gatepost.core.errors import Invalid, NotFound, Refused
from gatepost.serve.room_events import read_event
from gatepost.serve.web.browser_streams import render_event
from gatepost.serve.web.chat_agents import ChatAgents
from gatepost.serve.web.chat_places import read_room
from gatepost.serve.web.json_api import get_text, read_object
from gatepost.serve.web.signin.visitors import WebVisitor
from gatepost.store.messages import messages
from gatepost.store.port import Db, Store
from gatepost.store.rooms import rooms
from gatepost.store.rooms.rooms import MOST_PINS, RoomPin

LARGEST_BODY = 4096  # bytes
LONGEST_TEXT = 200  # characters of a message in the list
LARGEST_ID = 2**53
MOST_CHANGED = 100  # rooms that are remembered: a page that is open looks at once


class PinChanges:
    """In which rooms pins changed of late, for the pages that are open. Nothing of what is pinned: a page asks for that
    as whoever looks at it."""

    def __init__(self) -> None:
        self._rooms: OrderedDict[str, int] = OrderedDict()  # by room: the number of its last change
        self.newest = 0

    def add(self, room: str) -> None:
        self.newest += 1
        self._rooms.pop(room, None)
        self._rooms[room] = self.newest
        while len(self._rooms) > MOST_CHANGED:
            self._rooms.popitem(last=False)

    def list_since(self, number: int, only: str) -> list[str]:
        """`only`: of this room; '': of any."""
        return [room for room, changed in self._rooms.items() if changed > number and only in ("", room)]


class ChatPins:
    def __init__(self, store: Store, clock: Clock, hub: LocalChannel, agents: ChatAgents) -> None:
        self._store, self._clock, self._hub, self._agents = store, clock, hub, agents
        self.changes = PinChanges()

    async def list_pins(self, request: Request) -> Response:
        room = read_room(self._hub, request.query_params.get("room", ""), request.state.visitor)
        return JSONResponse({"pins": await self._store.read(self._list, request.state.visitor, room)})

    async def set_pin(self, request: Request) -> Response:
        """Pin a message, or take its pin off."""
        given, visitor = await read_object(request, LARGEST_BODY), request.state.visitor
        room, message, on = (
            read_room(self._hub, get_text(given, "room"), visitor),
            given.get("message"),
            given.get("on"),
        )
        if not isinstance(message, int) or not 0 < message < LARGEST_ID:
            raise Invalid("message", "the id of a message is expected")
        if not isinstance(on, bool):
            raise Invalid("on", "true or false is expected")
        await self._store.write(self._set, visitor, room, message, on, self._clock.now(), lane=room)
        self.changes.add(room)
        self._hub.ring(room)
        return JSONResponse({"ok": True, "pins": await self._store.read(self._list, visitor, room)})

    def _set(self, db: Db, visitor: WebVisitor, room: str, message_id: int, on: bool, now: int) -> None:
        message = messages.get(db, message_id)
        here = message is not None and (message.instance, message.address) == (self._hub.instance, room)
        if message is None or not here or read_event(db, message)[0] is None:
            raise NotFound("message", str(message_id), "it was not said in this room")
        if not self._agents.may_write(db, visitor, room, message.thread):
            raise Refused(visitor.user, "pin", room, "who may not write in a room pins nothing there")
        if not on:
            rooms.remove_pin(db, message_id)
        elif not rooms.add_pin(db, RoomPin(message_id, self._hub.instance, room, visitor.user, now)):
            raise Invalid("message", f"{MOST_PINS} messages are pinned in this room; unpin one first")

    def _list(self, db: Db, visitor: WebVisitor, room: str) -> list[dict[str, Any]]:
        found = []
        for pin in rooms.list_pins(db, self._hub.instance, room):
            message = messages.get(db, pin.message_id)
            seen = read_event(db, message)[0] if message is not None else None
            if seen is not None:
                shown = render_event(seen, "", visitor.names)
                text = " ".join(seen.text.split())[:LONGEST_TEXT] or ", ".join(each.name for each in seen.files)
                about = {name: shown[name] for name in ("id", "room", "thread", "name", "mine", "at")}
                found.append({**about, "text": text[:LONGEST_TEXT]})
        return found
