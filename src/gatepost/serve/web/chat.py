"""The page's rooms: messages, events and reactions. One stream a browser carries all of it."""

import asyncio
import re
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import msgspec
from starlette.datastructures import FormData, UploadFile
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from gatepost.channels.local_channel import LocalChannel
from gatepost.core.clock import Clock
from gatepost.core.errors import Invalid, NotFound, Refused, Unavailable
from gatepost.core.home import Home
from gatepost.core.records import replace
from gatepost.core.settings import Config, setting
from gatepost.flow.intake.intake import MAX_TEXT
from gatepost.flow.intake.message_outcome import render_reason
from gatepost.messages.address import LONGEST
from gatepost.messages.inbound import Direction, Inbound, Quote, Receipt, Verb
from gatepost.messages.text import clean, one_line
from gatepost.serve import room_events
from gatepost.serve.control.arguments.gateways import PanicOffArgs
from gatepost.serve.control.rights import ROOT_FOLDER, has_right
from gatepost.serve.room_events import RoomEvent, RoomEventPage, read_event
from gatepost.serve.web.browser_streams import BrowserStreams, render_event, render_sse
from gatepost.serve.web.cards import CardClicks, render_card
from gatepost.serve.web.chat_agents import ChatAgents, ChatWork
from gatepost.serve.web.chat_files import LONGEST_TEXT, ChatFiles, get_field, read_form, read_upload
from gatepost.serve.web.chat_pins import ChatPins
from gatepost.serve.web.chat_places import ThreadEntry, list_places, list_threads, read_room, read_start
from gatepost.serve.web.json_api import get_text, read_object
from gatepost.serve.web.markdown_renderer import DraftFeed, DraftRenderer, MarkdownRenderer
from gatepost.serve.web.signin.visitors import WebVisitor, find_visitor
from gatepost.store import search
from gatepost.store.messages import messages
from gatepost.store.port import Db, Store
from gatepost.store.rights import switches
from gatepost.store.rooms import threads
from gatepost.store.rooms.threads import MOST_MARKED, MOST_NAMED, NamedThread, ThreadMark
from gatepost.store.search import Hit, SearchQuery, Subtree
from gatepost.store.sessions import groups

MAX_UPLOAD_MB = setting(
    "web.max_upload_mb", 20, help="The largest message with its files on the web page, in megabytes."
)
PAGE = 60  # messages of one page of history
AROUND = 20  # messages after one that somebody jumps to
LARGEST_ORDER = 4096  # bytes of what asks for a stop
STOP = "/stop"
CHECK_S = 1.0  # so often, at least, it is asked whether a browser may still see what is written
KEY_HINT = "8 to 64 letters, digits, - or _ are expected"
_KEY = re.compile(r"[A-Za-z0-9_-]{8,64}\Z")
REACTIONS = ("👍", "👎", "❤️", "🎉", "👀")
LARGEST_REACTION = 4096  # bytes
LONGEST_KEY = 512  # characters
MOST_FOUND = 30  # messages, at once
MOST_WORDS = 12
LONGEST_SEARCHED = 200  # characters of what is looked for
MOST_CAUGHT_UP = 8  # transactions with which one search brings the index up to date
EVERYTHING = Subtree("", everything=True)  # what may be seen is decided by the rooms
LARGEST_BODY = 4096  # bytes
LONGEST_NAME = 80  # characters


class ChatThreads:
    """Threads in the list of the chat: whoever may write there names one for everybody. Each person pins or archives
    for themselves."""

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


class ChatReactions:
    """Reactions of people to messages in a room of the page. The agent gets them as it does from other chats."""

    def __init__(self, store: Store, hub: LocalChannel) -> None:
        self._store, self._hub = store, hub

    async def add(self, request: Request) -> Response:
        """React to something that was said to people. Twice the same by one person is once."""
        given, visitor = await read_object(request, LARGEST_REACTION), request.state.visitor
        room, key = read_room(self._hub, get_text(given, "room"), visitor), get_text(given, "key")
        emoji = get_text(given, "reaction")
        if emoji not in REACTIONS:
            raise Invalid("reaction", f"it is none of {' '.join(REACTIONS)}")
        known = await self._store.read(messages.find, self._hub.instance, room, Direction.OUT, key[:LONGEST_KEY])
        if known is None:
            raise NotFound("message", key[:80], "it was not said in this room")
        inbound = Inbound(
            address=room,
            platform_id=key,
            sender=visitor.user,
            sender_name=visitor.user.rpartition("/")[2],
            text="",
            event=f"reaction:{emoji}:{visitor.user}",
            verb=Verb.DISLIKE if emoji == "👎" else Verb.LIKE,
            thread=known.thread,
            direct=visitor.is_direct(room, self._hub.main_room),
        )
        receipt = await self._hub.submit(inbound)
        return JSONResponse({"ok": True, "new": receipt.new, "reason": render_reason(receipt.reason)})


class Chat:
    def __init__(
        self, store: Store, clock: Clock, config: Config, home: Home, hub: LocalChannel, stopping: asyncio.Event
    ) -> None:
        self._store, self._clock, self._home, self._hub, self._stopping = store, clock, home, hub, stopping
        self._megabytes = config[MAX_UPLOAD_MB]
        self._max_text = min(config[MAX_TEXT], LONGEST_TEXT)
        self.streams = BrowserStreams(hub)
        self.rendering = MarkdownRenderer()
        self._drafts = DraftRenderer(self.rendering, hub.ring_draft)
        self._clicks = CardClicks(store, hub)
        self._files = ChatFiles(store, home, hub)
        self._agents = ChatAgents(store, clock, config, home, hub)
        self._work = ChatWork(store, hub, self._agents)
        self._pins = ChatPins(store, clock, hub, self._agents)
        self._threads = ChatThreads(store, clock, hub, self._agents)
        self._search = ChatSearch(store, hub)
        self._reactions = ChatReactions(store, hub)

    def routes(self) -> list[Route]:
        return [
            Route("/start", self.start, methods=["GET"]),
            Route("/messages", self.history, methods=["GET"]),
            Route("/messages", self.add_message, methods=["POST"]),
            Route("/stop", self.stop, methods=["POST"]),
            Route("/reactions", self._reactions.add, methods=["POST"]),
            Route("/agents", self._agents.list_agents, methods=["GET"]),
            Route("/pins", self._pins.list_pins, methods=["GET"]),
            Route("/pins", self._pins.set_pin, methods=["POST"]),
            Route("/threads/name", self._threads.rename, methods=["POST"]),
            Route("/threads/mark", self._threads.set_mark, methods=["POST"]),
            Route("/work", self._work.list_calls, methods=["GET"]),
            Route("/search", self._search.find, methods=["GET"]),
            Route("/clicks", self._clicks.click, methods=["POST"]),
            Route("/clicks/arguments", self._clicks.list_arguments, methods=["POST"]),
            Route("/events", self.events, methods=["GET"]),
            Route("/files/{message:int}/{number:int}", self._files.get, methods=["GET"]),
        ]

    async def start(self, request: Request) -> Response:
        """Return what a page needs first. Its cursor was taken in the same snapshot: nothing falls between."""
        visitor: WebVisitor = request.state.visitor
        places, cursor = await self._store.read(read_start, self._hub, visitor.room, visitor.person)
        return JSONResponse(
            {
                "room": visitor.room or self._hub.main_room,
                "rooms": msgspec.to_builtins(places),
                "cursor": cursor,
                "maxBytes": self._megabytes * 1024 * 1024,
                "maxText": self._max_text,
            }
        )

    async def history(self, request: Request) -> Response:
        room = read_room(self._hub, request.query_params.get("room", ""), request.state.visitor)
        query = request.query_params
        before, around = _parse_cursor(query.get("before", "")), _parse_cursor(query.get("around", ""))
        page = await self._store.read(_read_history, self._hub.instance, room, query.get("thread", ""), before, around)
        return JSONResponse(
            {"messages": [await self._show(seen, request.state.visitor) for seen in page.seen], "more": page.more}
        )

    async def add_message(self, request: Request) -> Response:
        """Accept a message with its files. Sent twice under one id, it is accepted once."""
        form = await read_form(request, self._megabytes)
        try:
            inbound = await self._read_message(form, request.state.visitor)
        finally:
            await form.close()
        return _render_receipt(await self._hub.submit(inbound))

    async def stop(self, request: Request) -> Response:
        """End what an agent does in a conversation. It is the command of chats under the name of whoever pressed the
        button: the same rights, the same words in the room."""
        given, visitor = await read_object(request, LARGEST_ORDER), request.state.visitor
        key, thread = get_text(given, "id"), clean(get_text(given, "thread"))
        if not _KEY.match(key):
            raise Invalid("id", KEY_HINT)
        if len(thread) > LONGEST:
            raise Invalid("thread", f"longer than {LONGEST} characters")
        room = read_room(self._hub, get_text(given, "room"), visitor)
        return _render_receipt(await self._hub.submit(self._make_inbound(visitor, room, key, STOP, thread)))

    def _make_inbound(self, visitor: WebVisitor, room: str, key: str, text: str, thread: str) -> Inbound:
        return Inbound(
            address=room,
            platform_id=key,
            sender=visitor.user,
            sender_name=visitor.called,
            text=text,
            thread=thread,
            direct=visitor.is_direct(room, self._hub.main_room),
        )

    async def _read_message(self, form: FormData, visitor: WebVisitor) -> Inbound:
        text, key = clean(get_field(form, "text")), get_field(form, "id")
        uploads = [part for part in form.getlist("file") if isinstance(part, UploadFile)]
        if not text.strip() and not uploads:
            raise Invalid("text", "there is nothing in it")
        if not _KEY.match(key):
            raise Invalid("id", KEY_HINT)
        thread, answered = clean(get_field(form, "thread")), get_field(form, "reply_to")
        if len(thread) > LONGEST or len(text) > LONGEST_TEXT:
            raise Invalid("text", f"longer than {LONGEST_TEXT} characters")
        room = read_room(self._hub, get_field(form, "room"), visitor)
        return replace(
            self._make_inbound(visitor, room, key, text, thread),
            verb=Verb.REPLY if answered else Verb.MESSAGE,
            reply_to=Quote(platform_id=clean(answered)) if answered else None,
            attachments=tuple([await read_upload(upload) for upload in uploads]),
        )

    async def events(self, request: Request) -> Response:
        """Everything that happens in the visitor's rooms, from a cursor on (the browser sends its last one by
        itself)."""
        given = request.headers.get("last-event-id") or request.query_params.get("after", "")
        after = _parse_cursor(given)
        if after is None:
            room = request.state.visitor.room or None
            after = await self._store.read(room_events.get_start_cursor, self._hub, room)
        stream = self._stream(request.state.browser, request.state.visitor, after)
        return StreamingResponse(stream, media_type="text/event-stream", headers={"x-accel-buffering": "no"})

    async def _stream(self, browser: str, visitor: WebVisitor, after: int) -> AsyncIterator[bytes]:
        mine = self.streams.claim(browser)
        try:
            yield b"retry: 1000\n\n"
            yield render_sse("pins", {"room": ""})  # of whatever room: while there was no stream, nobody told
            pinned = self._pins.changes.newest
            room, feed, checked = visitor.room or None, DraftFeed(self._drafts), 0.0
            halt = {"halted": False, "may_go_on": False}
            follow = room_events.follow_room(self._store, self._hub, room, after, self._stopping, drafts=True)
            async for news in follow:
                if not self.streams.is_current(browser, mine):
                    yield render_sse("replaced", {})
                    return
                if news.looked or time.monotonic() - checked > CHECK_S:  # what is only written comes often
                    checked = time.monotonic()
                    current, halt = await self._store.read(_read_stream_state, browser, self._clock.now())
                    if current != visitor:  # signed out, or with other rights: the browser must ask again
                        return
                for changed in self._pins.changes.list_since(pinned, visitor.room):
                    yield render_sse("pins", {"room": changed})
                pinned = self._pins.changes.newest
                for seen in news.seen:
                    yield render_sse("message", await self._show(seen, visitor))
                for typing in news.typing:
                    yield render_sse("typing", {"room": typing.address, "thread": typing.thread, "on": typing.on})
                for shown in await feed.show(news.drafts):
                    yield render_sse("draft", shown)
                if not news.looked:
                    continue
                # Only now may the browser resume behind all of this.
                yield render_sse("cursor", {"cursor": news.cursor, **halt}, news.cursor)
        finally:
            self.streams.leave(browser, mine)

    async def _show(self, seen: RoomEvent, visitor: WebVisitor) -> dict[str, Any]:
        if seen.card is None:
            return render_event(seen, await self.rendering.html(seen.text), visitor.names)
        card = render_card(seen.card, await self.rendering.html(seen.card.text) if seen.card.text else "")
        return {**render_event(seen, "", visitor.names), "card": card}


def _read_stream_state(db: Db, browser: str, now: int) -> tuple[WebVisitor | None, dict[str, bool]]:
    """Return who uses the browser now, whether everything is stopped, and whether they may let it go on."""
    visitor, halted = find_visitor(db, browser, now), switches.get(db, switches.PANIC) is not None
    may = halted and visitor is not None and has_right(db, visitor.user, f"op:{PanicOffArgs.info.right}", ROOT_FOLDER)
    return visitor, {"halted": halted, "may_go_on": may}


def _read_history(
    db: Db, instance: str, room: str, thread: str, before: int | None, around: int | None
) -> RoomEventPage:
    """A page of a conversation. `around`: one that has this message, with some that came after it."""
    if around is not None:
        after = messages.ids_in_room(db, instance, room, around, AROUND)
        before = (after[-1] if after else around) + 1
    return room_events.read_history(db, instance, room, thread, before, PAGE)


def _render_receipt(receipt: Receipt) -> Response:
    reason = render_reason(receipt.reason)
    return JSONResponse(
        {"ok": True, "id": receipt.message_id, "new": receipt.new, "state": receipt.state, "reason": reason}
    )


def _parse_cursor(given: str) -> int | None:
    """A ledger id as a browser gives it back; None if it is none."""
    return int(given) if given.isascii() and given.isdecimal() and len(given) < 16 else None


class ChatSearch:
    """Search of what was said, in the rooms that a visitor of the page sees. The index is the ledger's own."""

    def __init__(self, store: Store, hub: LocalChannel) -> None:
        self._store, self._hub = store, hub

    async def find(self, request: Request) -> Response:
        """`room`: in this one alone; without it in each that the visitor sees."""
        query, visitor = request.query_params, request.state.visitor
        words = make_query(clean(query.get("q", ""))[:LONGEST_SEARCHED])
        only = read_room(self._hub, query["room"], visitor) if query.get("room") else visitor.room
        if not words:
            return JSONResponse({"hits": []})
        await self._update_index()
        return JSONResponse({"hits": await self._store.read(self._find, visitor, only, words)})

    async def _update_index(self) -> None:
        """Index the newest messages, so that they are found, too. A full disk prevents that, but not the search."""
        with suppress(Unavailable):
            for _ in range(MOST_CAUGHT_UP):
                if not await self._store.read(search.is_behind):
                    break
                await self._store.write(search.index, durable=False, lane="web search")

    def _find(self, db: Db, visitor: WebVisitor, only: str, words: str) -> list[dict[str, Any]]:
        places = list_places(db, self._hub, only)
        rooms = tuple((self._hub.instance, room) for room in places)[: search.MOST_MARKED]
        wanted = SearchQuery(query=words, part=EVERYTHING, rooms=rooms, limit=MOST_FOUND)
        return [_render_hit(db, hit, visitor, places) for hit in search.find(db, wanted) if _is_shown(db, hit)]


def _is_shown(db: Db, hit: Hit) -> bool:
    """Return True if the room shows it: a reply that waits for its delivery is found when it has been said."""
    message = messages.get(db, hit.id)
    return message is not None and read_event(db, message)[0] is not None


def _render_hit(db: Db, hit: Hit, visitor: WebVisitor, places: dict[str, str]) -> dict[str, Any]:
    group = groups.get(db, hit.folder) if hit.folder and hit.direction == Direction.OUT else None
    return {
        "id": hit.id,
        "room": hit.address,
        "roomName": places[hit.address],
        "thread": hit.thread,
        "mine": hit.direction == Direction.IN and hit.sender in visitor.names,
        "name": (group.name if group else "") or hit.sender_name or hit.sender.rpartition(":")[2],
        "at": hit.at // 1000,
        "snippet": hit.snippet,
    }


def make_query(text: str) -> str:
    """Make a query for all of these words, each of which may be the beginning of one; a letter alone begins too many.

    The text of a person is not in the index's query language: operators in it have no meaning here.
    """
    words = ["".join(char for char in word if char != '"' and char.isprintable()) for word in text.split()]
    searched = [word for word in words if any(char.isalnum() for char in word)]
    return " AND ".join(f'"{word}"*' if len(word) > 1 else f'"{word}"' for word in searched[:MOST_WORDS])
