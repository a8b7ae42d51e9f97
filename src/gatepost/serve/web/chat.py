"""The page's rooms: what was said, what happens, what somebody says. One stream a browser carries all of it."""

import asyncio
import re
import time
from collections.abc import AsyncGenerator, AsyncIterator, Collection
from pathlib import Path
from typing import Any

from msgspec import Struct
from starlette.datastructures import FormData, UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from gatepost.channels.local_channel import LocalChannel
from gatepost.core.clock import Clock
from gatepost.core.errors import Invalid, NotFound
from gatepost.core.home import Home
from gatepost.core.settings import Config, setting
from gatepost.flow.intake import slash_commands
from gatepost.flow.intake.intake import MAX_TEXT
from gatepost.flow.intake.refusal_reasons import render_reason
from gatepost.flow.intake.routing import MADE_BY
from gatepost.messages.address import LONGEST, parse
from gatepost.messages.inbound import Attachment, AttachmentKind, Direction, Inbound, Quote, Verb
from gatepost.messages.text import clean
from gatepost.serve import room_events
from gatepost.serve.room_events import RoomEvent, RoomEventFile
from gatepost.serve.web.browser_streams import BrowserStreams, render_sse
from gatepost.serve.web.cards import CardClicks, render_card
from gatepost.serve.web.draft_renderer import DraftFeed, DraftRenderer
from gatepost.serve.web.login import WebVisitor, find_visitor
from gatepost.serve.web.markdown_renderer import MarkdownRenderer
from gatepost.store import messages, outbox, rooms, routes, sessions, switches
from gatepost.store.messages import Message
from gatepost.store.port import Db, Store

MAX_UPLOAD_MB = setting(
    "web.max_upload_mb", 20, help="The largest message with its files on the web page, in megabytes."
)
MOST_FILES = 20
LARGEST_ID = 2**53
PAGE = 60  # messages of one page of history
LONGEST_TEXT = 200_000  # characters
OVERHEAD = 64 * 1024  # bytes of a form beside its files and its text
PICTURES = ("image/png", "image/jpeg", "image/gif", "image/webp")  # shown in the page; SVG is a document and is not
CHECK_S = 1.0  # so often, at least, it is asked whether a browser may still see what is written
CHANGES = ("edit", "delete", "react")
_KEY = re.compile(r"[A-Za-z0-9_-]{8,64}\Z")
_PLAIN_ROOM = re.compile(r"(?:chat_jid=web:|room=)([A-Za-z0-9._/-]+)\Z")


class UploadTooLarge(Invalid):
    def __init__(self, megabytes: int) -> None:
        super().__init__("message", f"it is larger than {megabytes} MB, the limit of web.max_upload_mb")


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

    def routes(self) -> list[Route]:
        return [
            Route("/start", self.start, methods=["GET"]),
            Route("/messages", self.history, methods=["GET"]),
            Route("/messages", self.add_message, methods=["POST"]),
            Route("/clicks", self._clicks.click, methods=["POST"]),
            Route("/clicks/arguments", self._clicks.list_arguments, methods=["POST"]),
            Route("/events", self.events, methods=["GET"]),
            Route("/files/{message:int}/{number:int}", self.file, methods=["GET"]),
        ]

    async def start(self, request: Request) -> Response:
        """What a page needs first. Its cursor was taken in the same snapshot: nothing falls between."""
        visitor: WebVisitor = request.state.visitor
        places, cursor = await self._store.read(_read_start, self._hub, visitor.room)
        return JSONResponse(
            {
                "room": visitor.room or self._hub.main_room,
                "rooms": [{"room": at.room, "name": at.name, "threads": at.threads} for at in places],
                "cursor": cursor,
                "maxBytes": self._megabytes * 1024 * 1024,
                "maxText": self._max_text,
            }
        )

    async def history(self, request: Request) -> Response:
        room = self._read_room(request.query_params.get("room", ""), request.state.visitor)
        before = request.query_params.get("before", "")
        page = await self._store.read(
            room_events.read_history,
            self._hub.instance,
            room,
            request.query_params.get("thread", ""),
            _parse_cursor(before),
            PAGE,
        )
        return JSONResponse(
            {"messages": [await self._show(seen, request.state.visitor) for seen in page.seen], "more": page.more}
        )

    async def add_message(self, request: Request) -> Response:
        """Accept a message with its files. Sent twice under one id, it is accepted once."""
        form = await _read_form(request, self._megabytes)
        try:
            inbound = await self._read_message(form, request.state.visitor)
        finally:
            await form.close()
        receipt = await self._hub.submit(inbound)
        reason = render_reason(receipt.reason)
        return JSONResponse(
            {"ok": True, "id": receipt.message_id, "new": receipt.new, "state": receipt.state, "reason": reason}
        )

    async def _read_message(self, form: FormData, visitor: WebVisitor) -> Inbound:
        text, key = clean(_field(form, "text")), _field(form, "id")
        uploads = [part for part in form.getlist("file") if isinstance(part, UploadFile)]
        if not text.strip() and not uploads:
            raise Invalid("text", "there is nothing in it")
        if not _KEY.match(key):
            raise Invalid("id", "8 to 64 letters, digits, - or _ are expected")
        thread, answered = clean(_field(form, "thread")), _field(form, "reply_to")
        if len(thread) > LONGEST or len(text) > LONGEST_TEXT:
            raise Invalid("text", f"longer than {LONGEST_TEXT} characters")
        room = self._read_room(_field(form, "room"), visitor)
        return Inbound(
            address=room,
            platform_id=key,
            sender=visitor.user,
            sender_name=visitor.user.rpartition("/")[2],
            text=text,
            verb=Verb.REPLY if answered else Verb.MESSAGE,
            thread=thread,
            direct=visitor.is_direct(room, self._hub.main_room),
            reply_to=Quote(platform_id=clean(answered)) if answered else None,
            attachments=tuple([await _read_upload(upload) for upload in uploads]),
        )

    def _read_room(self, text: str, visitor: WebVisitor) -> str:
        address = parse(text or visitor.room or self._hub.main_room, "room")
        if address.platform != self._hub.platform or visitor.room not in ("", str(address)):
            raise Invalid("room", f"{text!r} is not a room of this page")
        return str(address)

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
            room, feed, checked, halted = visitor.room or None, DraftFeed(self._drafts), 0.0, False
            follow = room_events.follow_room(self._store, self._hub, room, after, self._stopping, drafts=True)
            async for news in follow:
                if not self.streams.is_current(browser, mine):
                    yield render_sse("replaced", {})
                    return
                if news.looked or time.monotonic() - checked > CHECK_S:  # what is only written comes often
                    checked = time.monotonic()
                    current, halted = await self._store.read(_read_stream_state, browser, self._clock.now())
                    if current != visitor:  # signed out, or with other rights: the browser must ask again
                        return
                for seen in news.seen:
                    yield render_sse("message", await self._show(seen, visitor))
                for typing in news.typing:
                    yield render_sse("typing", {"room": typing.address, "thread": typing.thread, "on": typing.on})
                for shown in await feed.show(news.drafts):
                    yield render_sse("draft", shown)
                if not news.looked:
                    continue
                # Only now may the browser resume behind all of this.
                yield render_sse("cursor", {"cursor": news.cursor, "halted": halted}, news.cursor)
        finally:
            self.streams.leave(browser, mine)

    async def _show(self, seen: RoomEvent, visitor: WebVisitor) -> dict[str, Any]:
        if seen.card is None:
            return render_event(seen, await self.rendering.html(seen.text), visitor.names)
        card = render_card(seen.card, await self.rendering.html(seen.card.text) if seen.card.text else "")
        return {**render_event(seen, "", visitor.names), "card": card}

    async def file(self, request: Request) -> Response:
        found = await self._store.read(
            _find_file,
            self._hub,
            request.path_params["message"],
            request.path_params["number"],
            request.state.visitor.room,
        )
        if found is None:
            raise NotFound("file", request.url.path)
        file, kept = found
        path = kept if kept is not None else self._home.media / file.path
        if not await asyncio.to_thread(_is_media_file, path, self._home.media):
            raise NotFound("file", file.name, "it is no longer kept")
        picture = file.mime in PICTURES
        return FileResponse(
            path,
            media_type=file.mime if picture else "application/octet-stream",
            filename=file.name,
            content_disposition_type="inline" if picture else "attachment",
            headers={"content-security-policy": "default-src 'none'; sandbox", "cache-control": "private, no-cache"},
        )


class RoomThreads(Struct, frozen=True):
    """A room with the threads in which somebody has talked."""

    room: str
    name: str
    threads: list[dict[str, str]]


def _read_stream_state(db: Db, browser: str, now: int) -> tuple[WebVisitor | None, bool]:
    """Who uses the browser now, and whether everything is stopped."""
    return find_visitor(db, browser, now), switches.get(db, switches.PANIC) is not None


def _read_start(db: Db, hub: LocalChannel, only: str) -> tuple[list[RoomThreads], int]:
    """`only`: of this room; '': of all."""
    named = {room.address: room.name for room in rooms.list_all(db) if room.instance == hub.instance}
    every = (hub.main_room, *named, *_list_routed_rooms(db, hub.platform))
    known = dict.fromkeys((only,) if only else every)
    places = [RoomThreads(room, named.get(room) or room.partition(":")[2], _threads(db, hub, room)) for room in known]
    return places, room_events.get_start_cursor(db, hub, only or None)


def _threads(db: Db, hub: LocalChannel, room: str) -> list[dict[str, str]]:
    """A room's conversations, the latest first, by their title or by what was said first as far as we look back."""
    titles: dict[str, str] = {}
    for message in messages.list_latest_in_room(db, hub.instance, room, None, room_events.WINDOW):
        if message.thread:
            title = titles.pop(message.thread, "")
            titles[message.thread] = title or _make_title(message)
    for session in sessions.list_open(db):
        if (session.instance, session.address) == (hub.instance, room) and session.thread:
            titles[session.thread] = session.title or titles.get(session.thread, "")
    return [{"id": thread, "title": title} for thread, title in reversed(titles.items())]


def _make_title(message: Message) -> str:
    """What a message could be the title of; the page does the same. A command says nothing about a conversation."""
    if message.direction != Direction.IN or slash_commands.parse_command(message.text):
        return ""
    files = room_events.parse_files(message.content)
    return message.text.strip().partition("\n")[0][:60] or (files[0].name if files else "")


def _list_routed_rooms(db: Db, platform: str) -> list[str]:
    """Rooms that the operator's routes name outright: they exist although nobody has said anything there yet. An
    agent's routes put nothing on the owner's page."""
    found: list[str] = []
    for route in routes.list_all(db):
        if route.created_by.startswith(MADE_BY):
            continue
        words = route.match.split()
        named = [plain for word in words if (plain := _PLAIN_ROOM.match(word))]
        here = f"platform={platform}" in words
        found += [f"{platform}:{plain.group(1)}" for plain in named if here or plain.group().startswith("chat_jid=")]
    return found


def _find_file(
    db: Db, hub: LocalChannel, message_id: int, number: int, only: str
) -> tuple[RoomEventFile, Path | None] | None:
    """A file of one of this channel's messages; for one that was sent, where the channel keeps it. `only`: of this
    room; '': of any."""
    message = messages.get(db, message_id) if message_id < LARGEST_ID else None
    if message is None or message.instance != hub.instance or only not in ("", message.address):
        return None
    files = room_events.parse_files(message.content)
    if number >= len(files):
        return None
    if message.direction == Direction.IN:
        return files[number], None
    effects = outbox.list_for_message(db, message_id)
    return (files[number], hub.kept(effects[0].key, number)) if effects else None


def _is_media_file(path: Path, media: Path) -> bool:
    """A regular file under the media folder, by whatever path it was named."""
    real = path.resolve()
    return real.is_relative_to(media.resolve()) and real.is_file()


def render_event(seen: RoomEvent, html: str, names: Collection[str]) -> dict[str, Any]:
    """One event as the page gets it. `html`: its text, rendered. `names`: the identities of who looks."""
    incoming = seen.direction == Direction.IN
    ours = not seen.folder and seen.sender.startswith("gatepost:")  # what the gateway says by itself
    said_by = seen.agent or seen.folder or seen.sender_name or seen.sender.rpartition(":")[2]
    return {
        "id": seen.id,
        "room": seen.address,
        "thread": seen.thread,
        "mine": incoming and seen.sender in names,
        "incoming": incoming,  # somebody's, who may be another
        "verb": seen.verb,
        "name": "Gatepost" if ours else said_by,
        "notice": ours,
        "html": html,
        "text": seen.text,
        "state": seen.state,
        "reason": render_reason(seen.reason),
        "at": seen.at // 1000,
        "key": seen.platform_id,
        "target": seen.target_id,
        "replyTo": seen.reply_to,
        "reaction": seen.reaction,
        "files": [_render_file(seen.id, number, file) for number, file in enumerate(seen.files)],
    }


def _render_file(message_id: int, number: int, file: RoomEventFile) -> dict[str, Any]:
    url = f"/api/files/{message_id}/{number}"
    return {"name": file.name, "size": file.size, "url": url, "picture": file.mime in PICTURES}


async def _read_form(request: Request, megabytes: int) -> FormData:
    """The form, within its limit. The announced length is not believed: what comes is counted."""
    limit = megabytes * 1024 * 1024 + OVERHEAD

    async def counted() -> AsyncGenerator[bytes, None]:
        size = 0
        async for chunk in request.stream():
            size += len(chunk)
            if size > limit:
                raise UploadTooLarge(megabytes)
            yield chunk

    if not request.headers.get("content-type", "").startswith("multipart/form-data"):
        raise Invalid("content-type", "multipart/form-data is expected")
    parser = MultiPartParser(
        request.headers, counted(), max_files=MOST_FILES, max_fields=20, max_part_size=4 * LONGEST_TEXT + OVERHEAD
    )
    try:
        return await parser.parse()
    except MultiPartException as error:
        raise Invalid("form", error.message) from None


def _field(form: FormData, name: str) -> str:
    value = form.get(name, "")
    return value if isinstance(value, str) else ""


async def _read_upload(upload: UploadFile) -> Attachment:
    mime = (upload.content_type or "application/octet-stream").partition(";")[0].strip().lower()
    kind = mime.partition("/")[0]
    return Attachment(
        name=clean(upload.filename or "file"),
        mime=mime,
        data=await upload.read(),
        kind=AttachmentKind(kind) if kind in set(AttachmentKind) else AttachmentKind.FILE,
    )


def _parse_cursor(given: str) -> int | None:
    """A ledger id as a browser gives it back; None if it is none."""
    return int(given) if given.isascii() and given.isdecimal() and len(given) < 16 else None
