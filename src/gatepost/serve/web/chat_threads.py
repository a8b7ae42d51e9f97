"""Threads in the list of the chat: whoever may write there names one for everybody. Each person pins or archives for
themselves."""

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from gatepost.channels.local_channel import LocalChannel
from gatepost.core.clock import Clock
from gatepost.core.errors import Invalid, NotFound, Refused
from gatepost.messages.address import LONGEST
from gatepost.messages.text import clean, one_line
from gatepost.serve.web.chat_agents import ChatAgents
from gatepost.serve.web.chat_places import ThreadEntry, list_threads, read_room
from gatepost.serve.web.json_api import get_text, read_object
from gatepost.serve.web.signin.visitors import WebVisitor
from gatepost.store.port import Db, Store
from gatepost.store.rooms import threads
from gatepost.store.rooms.threads import MOST_MARKED, MOST_NAMED, NamedThread, ThreadMark

LARGEST_BODY = 4096  # bytes
LONGEST_NAME = 80  # characters


class ChatThreads:
    def __init__(self, store: Store, clock: Clock, hub: LocalChannel, agents: ChatAgents) -> None:
        self._store, self._clock, self._hub, self._agents = store, clock, hub, agents

    async def rename(self, request: Request) -> Response:
        given, visitor = await read_object(request, LARGEST_BODY), request.state.visitor
        room, thread = self._read_place(get_text(given, "room"), get_text(given, "thread"), visitor)
        name = one_line(clean(get_text(given, "name"))).strip()
        if len(name) > LONGEST_NAME:
            raise Invalid("name", f"a name has at most {LONGEST_NAME} characters")
        title = await self._store.write(self._rename, visitor, room, thread, name, self._clock.now(), lane=room)
        return JSONResponse({"ok": True, "title": title})

    async def set_mark(self, request: Request) -> Response:
        """`mark`: pinned, archived, or '' for neither."""
        given, visitor = await read_object(request, LARGEST_BODY), request.state.visitor
        room, thread = self._read_place(get_text(given, "room"), get_text(given, "thread"), visitor)
        wanted = get_text(given, "mark")
        if wanted not in ("", *ThreadMark):
            raise Invalid("mark", "pinned, archived or nothing is expected")
        mark = ThreadMark(wanted) if wanted else None
        await self._store.write(self._mark, visitor, room, thread, mark, self._clock.now(), lane=room)
        return JSONResponse({"ok": True})

    def _read_place(self, room: str, thread: str, visitor: WebVisitor) -> tuple[str, str]:
        found = clean(thread)
        if not found or len(found) > LONGEST:
            raise Invalid("thread", "the conversation of a room is expected")
        return read_room(self._hub, room, visitor), found

    def _rename(self, db: Db, visitor: WebVisitor, room: str, thread: str, name: str, now: int) -> str:
        """Return how it is called now."""
        self._check(db, visitor, room, thread)
        if not self._agents.may_write(db, visitor, room, thread):
            raise Refused(visitor.user, "rename", room, "who may not write in a room names nothing there")
        if not threads.set_name(db, NamedThread(self._hub.instance, room, thread, name, visitor.user, now)):
            raise Invalid("name", f"{MOST_NAMED} conversations of this room have a name; take one away first")
        return next((each.title for each in self._list(db, visitor, room) if each.id == thread), name)

    def _mark(self, db: Db, visitor: WebVisitor, room: str, thread: str, mark: ThreadMark | None, now: int) -> None:
        self._check(db, visitor, room, thread)
        if not threads.set_mark(db, visitor.person, (self._hub.instance, room, thread), mark, now):
            raise Invalid("mark", f"{MOST_MARKED} conversations of this room are pinned or archived; restore one first")

    def _check(self, db: Db, visitor: WebVisitor, room: str, thread: str) -> None:
        """Nothing is kept of what was never said, or so long ago that the list does not have it."""
        if all(each.id != thread for each in self._list(db, visitor, room)):
            raise NotFound("conversation", thread[:80], "write something in it first")

    def _list(self, db: Db, visitor: WebVisitor, room: str) -> list[ThreadEntry]:
        return list_threads(db, self._hub, room, visitor.person)[0]
