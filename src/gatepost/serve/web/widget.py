"""The chat of a link: `/chat/<token>`, a page of its own for whoever holds the token, also in a frame of another site.

No cookie counts here. The token stands in the path of the first request alone. The page moves it into the fragment,
which no server and no referrer sees, and redeems it for a visitor's own secret. Every other request needs only that
secret, in a header. A visitor sees their own room: others with the same link do not read it.
"""

import asyncio
import re
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from typing import Any

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from gatepost.channels.local_channel import LocalChannel
from gatepost.core.clock import Clock
from gatepost.core.errors import GatepostError, Invalid, Unavailable
from gatepost.core.event_bus import EventBus
from gatepost.core.token_bucket import KeyedBuckets, Rate
from gatepost.flow.links import LinkFacts, TooManyVisitors, find_link, has_routes, restore_routes, start_visit
from gatepost.messages.inbound import Direction, Inbound
from gatepost.messages.text import clean
from gatepost.serve import room_events
from gatepost.serve.room_events import RoomEvent
from gatepost.serve.web.browser_security import HEADERS
from gatepost.serve.web.browser_streams import render_sse
from gatepost.serve.web.json_api import get_text, read_object
from gatepost.serve.web.markdown_renderer import MarkdownRenderer
from gatepost.serve.web.static_pages import make_page_response
from gatepost.serve.web.trusted_proxies import ClientAddresses
from gatepost.store.port import Store
from gatepost.store.web import links
from gatepost.store.web.links import LinkVisitor

PREFIX = "/chat"
API_PREFIX = f"{PREFIX}/api/"
PAGE = "link_chat.html"
LARGEST_BODY = 64 * 1024  # bytes
LONGEST_TEXT = 4000  # characters
LONGEST_SECRET = 100
MOST_SHOWN = 60  # messages
CLOSED = "This chat is closed, or its address is wrong."
FULL_S = 30.0
VISITOR_NAME = "Visitor"
_KEY = re.compile(r"[A-Za-z0-9_-]{8,64}\Z")
_HOST = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?(?::[0-9]{1,5})?\Z")
NO_FRAMES = "'none'"
FAILED = frozenset({"failed", "refused", "cancelled"})
WAITING = frozenset({"accepted", "queued", "working", "retry", "held"})
MOST_STREAMS = 200  # of all visitors
MOST_OF_LINK = 50
FOREVER = float("inf")
VISITS_OF_LINK = Rate(per_second=0.5, burst=30, patience_s=FOREVER)
VISITS_OF_PEER = Rate(per_second=0.05, burst=6, patience_s=FOREVER)
MESSAGES_OF_LINK = Rate(per_second=2, burst=60, patience_s=FOREVER)
MESSAGES_OF_VISITOR = Rate(per_second=0.5, burst=10, patience_s=FOREVER)
READS_OF_VISITOR = Rate(per_second=2, burst=30, patience_s=FOREVER)
MOST_KEYS = 2000  # whose rates are remembered, the latest


class TooFast(Unavailable):
    def __init__(self, retry_after: float) -> None:
        super().__init__("the chat", "too much comes at once; wait a moment", retry_after=retry_after)


class WidgetRates:
    """How fast visitors of chat links may come in, write and read: for each link, each address and each visitor.

    A visitor who is too fast is told when to come again. A refused request costs nothing, so a flood does not lengthen
    its own wait.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._visits_of_link = KeyedBuckets(VISITS_OF_LINK, MOST_KEYS)
        self._visits_of_peer = KeyedBuckets(VISITS_OF_PEER, MOST_KEYS)
        self._messages_of_link = KeyedBuckets(MESSAGES_OF_LINK, MOST_KEYS)
        self._messages_of_visitor = KeyedBuckets(MESSAGES_OF_VISITOR, MOST_KEYS)
        self._reads_of_visitor = KeyedBuckets(READS_OF_VISITOR, MOST_KEYS)

    def charge_visit(self, link: str, peer: str) -> None:
        self._charge(self._visits_of_peer, peer)
        self._charge(self._visits_of_link, link)

    def charge_message(self, link: str, visitor: str) -> None:
        self._charge(self._messages_of_visitor, visitor)
        self._charge(self._messages_of_link, link)

    def charge_read(self, visitor: str) -> None:
        self._charge(self._reads_of_visitor, visitor)

    def _charge(self, buckets: KeyedBuckets, key: str) -> None:
        """Raises TooFast. '' is nobody's, and has no limit."""
        if not key:
            return
        now = self._now()
        if wait := buckets.get_wait(key, now):
            raise TooFast(wait)
        buckets.charge(key, now)


class VisitorStreams:
    """The streams that visitors hold open: one for each visitor, and a bounded number for each link."""

    def __init__(self, hub: LocalChannel, events: EventBus) -> None:
        self._hub = hub
        self._open: dict[str, tuple[object, LinkVisitor]] = {}  # by the visitor's id
        events.on_operation(self._ring)  # a link may have been revoked

    def has_room(self, visitor: LinkVisitor) -> bool:
        if visitor.id in self._open:  # the new one takes its place
            return True
        streams = Counter(each.token_id for _, each in self._open.values())
        return len(self._open) < MOST_STREAMS and streams[visitor.token_id] < MOST_OF_LINK

    @contextmanager
    def open(self, visitor: LinkVisitor) -> Iterator[object]:
        """Yield the stream's own mark: a later stream of the same visitor ends it."""
        mine = object()
        self._open[visitor.id] = (mine, visitor)
        self._hub.ring(visitor.address)
        try:
            yield mine
        finally:
            if self.is_current(visitor, mine):
                del self._open[visitor.id]

    def is_current(self, visitor: LinkVisitor, mine: object) -> bool:
        known = self._open.get(visitor.id)
        return known is not None and known[0] is mine

    def _ring(self) -> None:
        for _, visitor in self._open.values():
            self._hub.ring(visitor.address)


class WidgetDeps(Struct, frozen=True, kw_only=True):
    store: Store
    clock: Clock
    hub: LocalChannel
    events: EventBus
    stopping: asyncio.Event
    rendering: MarkdownRenderer
    clients: ClientAddresses


class LinkClosed(GatepostError):
    """The link or the visitor is unknown, revoked or too old: all look alike."""


class ChatWidget:
    def __init__(self, deps: WidgetDeps) -> None:
        self._deps = deps
        self._rates = WidgetRates(lambda: asyncio.get_running_loop().time())
        self._streams = VisitorStreams(deps.hub, deps.events)

    def routes(self) -> list[Route]:
        return [
            Route(f"{PREFIX}/", self.show_unframed, methods=["GET"]),
            Route(f"{PREFIX}/{{token}}", self.show, methods=["GET"]),
            Route(f"{API_PREFIX}link", _answer_errors(self.describe_link), methods=["POST"]),
            Route(f"{API_PREFIX}visits", _answer_errors(self.start_visit), methods=["POST"]),
            Route(f"{API_PREFIX}messages", _answer_errors(self.list_messages), methods=["GET"]),
            Route(f"{API_PREFIX}messages", _answer_errors(self.add_message), methods=["POST"]),
            Route(f"{API_PREFIX}events", _answer_errors(self.follow), methods=["GET"]),
        ]

    async def show(self, request: Request) -> Response:
        """The same page for every valid link. Nothing is redeemed by looking at it."""
        facts = await self._find_link(request.path_params["token"])
        if facts is None:
            return PlainTextResponse(f"{CLOSED}\n", 404)
        headers = render_headers(request.headers.get("host", ""), facts.token.origins)
        return make_page_response(request, PAGE, headers=headers)

    async def show_unframed(self, request: Request) -> Response:
        """For who reloads the page, whose token stands in the fragment by then. Which link it is, we do not see."""
        return make_page_response(request, PAGE, headers=render_headers(request.headers.get("host", ""), ""))

    async def describe_link(self, request: Request) -> Response:
        facts = await self._find_link(get_text(await read_object(request, LARGEST_BODY), "link"))
        if facts is None:
            raise LinkClosed(CLOSED)
        return JSONResponse({"ok": True, "name": facts.name, "maxText": LONGEST_TEXT})

    async def start_visit(self, request: Request) -> Response:
        """Make a visitor of whoever holds the link. It is asked for with their first words, so looking costs
        nothing."""
        secret = get_text(await read_object(request, LARGEST_BODY), "link")
        facts = await self._find_link(secret)
        if facts is None:
            raise LinkClosed(CLOSED)
        self._rates.charge_visit(facts.token.id, self._deps.clients.find_own(request.scope))
        instance, now = self._deps.hub.instance, self._deps.clock.now()
        made = await self._deps.store.write(start_visit, instance, secret, now, lane=facts.token.id)
        if made is None:
            raise LinkClosed(CLOSED)
        return JSONResponse({"ok": True, "visitor": made.secret})

    async def list_messages(self, request: Request) -> Response:
        """Return the latest of the visitor's conversation, and the cursor from which a stream goes on."""
        visitor = await self._get_visitor(request)
        self._rates.charge_read(visitor.id)
        hub = self._deps.hub
        cursor = await self._deps.store.read(room_events.get_start_cursor, hub, visitor.address)
        page = await self._deps.store.read(
            room_events.read_history, hub.instance, visitor.address, "", None, MOST_SHOWN, lane=visitor.token_id
        )
        shown = [await self._render(each, visitor) for each in page.seen]
        return JSONResponse({"ok": True, "messages": shown, "cursor": cursor})

    async def add_message(self, request: Request) -> Response:
        """Accept a text. Sent twice under one id, it is accepted once."""
        visitor = await self._get_visitor(request)
        self._rates.charge_message(visitor.token_id, visitor.id)
        given = await read_object(request, LARGEST_BODY)
        text, key = clean(get_text(given, "text")), get_text(given, "id")
        if not text.strip() or len(text) > LONGEST_TEXT:
            raise Invalid("text", f"1 to {LONGEST_TEXT} characters are expected")
        if not _KEY.match(key):
            raise Invalid("id", "8 to 64 letters, digits, - or _ are expected")
        if not await self._deps.store.read(has_routes, visitor, lane=visitor.token_id):
            now = self._deps.clock.now()
            await self._deps.store.write(restore_routes, visitor, now, lane=visitor.token_id)
        receipt = await self._deps.hub.submit(
            Inbound(
                address=visitor.address,
                platform_id=key,
                sender=visitor.identity,
                sender_name=f"{VISITOR_NAME} {visitor.id[-4:]}",
                text=text,
                direct=True,
            )
        )
        now = self._deps.clock.now()
        await self._deps.store.write(links.set_visitor_seen, visitor.id, now, durable=False, lane=visitor.token_id)
        return JSONResponse({"ok": True, "id": receipt.message_id, "new": receipt.new})

    async def follow(self, request: Request) -> Response:
        visitor = await self._get_visitor(request)
        self._rates.charge_read(visitor.id)
        if not self._streams.has_room(visitor):
            raise TooFast(FULL_S)
        given = request.query_params.get("after", "")
        if not (given.isascii() and given.isdecimal() and len(given) < 16):
            raise Invalid("after", "the cursor of /chat/api/messages is expected")
        stream = self._stream(visitor, _get_secret(request), int(given))
        return StreamingResponse(stream, media_type="text/event-stream", headers={"x-accel-buffering": "no"})

    async def _stream(self, visitor: LinkVisitor, secret: str, after: int) -> AsyncIterator[bytes]:
        deps = self._deps
        with self._streams.open(visitor) as mine:
            async for news in room_events.follow_room(deps.store, deps.hub, visitor.address, after, deps.stopping):
                if not self._streams.is_current(visitor, mine):
                    yield render_sse("replaced", {})
                    return
                if await deps.store.read(links.find_visitor, secret, deps.clock.now()) is None:
                    yield render_sse("closed", {})
                    return
                for seen in news.seen:
                    yield render_sse("message", await self._render(seen, visitor))
                for typing in news.typing:
                    yield render_sse("typing", {"on": typing.on})
                yield render_sse("cursor", {"cursor": news.cursor})

    async def _render(self, seen: RoomEvent, visitor: LinkVisitor) -> dict[str, Any]:
        return render_visitor_event(seen, await self._deps.rendering.html(seen.text), visitor)

    async def _find_link(self, secret: str) -> LinkFacts | None:
        if not secret or len(secret) > LONGEST_SECRET:
            return None
        return await self._deps.store.read(find_link, secret, self._deps.clock.now())

    async def _get_visitor(self, request: Request) -> LinkVisitor:
        secret = _get_secret(request)
        visitor = await self._deps.store.read(links.find_visitor, secret, self._deps.clock.now())
        if visitor is None:
            raise LinkClosed(CLOSED)
        return visitor


def _get_secret(request: Request) -> str:
    scheme, _, secret = request.headers.get("authorization", "").partition(" ")
    return secret if scheme.lower() == "bearer" and len(secret) <= LONGEST_SECRET else ""


def _answer_errors(handler: Any) -> Any:
    """Answer the errors of this page: a closed link, too many visitors, and too fast. Others are answered as
    everywhere."""

    async def answer(request: Request) -> Response:
        try:
            response: Response = await handler(request)
        except LinkClosed as error:
            return _render_error("closed", str(error), 401)
        except TooManyVisitors as error:
            return _render_error("busy", str(error), 429)
        except TooFast as error:
            response = _render_error("busy", str(error), 429)
            response.headers["retry-after"] = str(max(1, round(error.retry_after or 1)))
        return response

    return answer


def _render_error(kind: str, text: str, status: int) -> Response:
    return JSONResponse({"ok": False, "error": {"kind": kind, "text": text}}, status)


def render_headers(host: str, origins: str) -> dict[str, str]:
    """Render the headers that bound what a browser may do with the page of a chat link.

    The page has our origin, so a browser that is signed in may send our cookie along. The policy lets its scripts ask
    nothing but the widget's own addresses, which look at no cookie. The link names the pages that may frame it.

    `host`: as the browser named us. `origins`: of pages that may show it, between blanks; '': none.
    """
    ours = f"{host}{API_PREFIX}" if _HOST.match(host) else "'self'"  # a policy cannot name an IPv6 address
    policy = (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none';"
        f" connect-src {ours}; frame-ancestors {origins or NO_FRAMES}"
    )
    headers = {
        "content-security-policy": policy,
        "permissions-policy": "microphone=(), camera=(), geolocation=(), payment=(), usb=()",
        "cross-origin-resource-policy": "cross-origin" if origins else HEADERS["cross-origin-resource-policy"],
        "x-robots-tag": "noindex",
    }
    return headers if origins else {**headers, "x-frame-options": HEADERS["x-frame-options"]}


def render_visitor_event(seen: RoomEvent, html: str, visitor: LinkVisitor) -> dict[str, Any]:
    """Render an event of a visitor's room for their page. They are a stranger: no folder, reason or file is told."""
    incoming = seen.direction == Direction.IN
    return {
        "id": seen.id,
        "mine": incoming and seen.sender == visitor.identity,
        "verb": seen.verb,
        "notice": not seen.folder and seen.sender.startswith("gatepost:"),  # what the gateway says by itself
        "name": seen.agent,
        "html": html,
        "at": seen.at // 1000,
        "key": seen.platform_id,
        "target": seen.target_id,
        "state": "failed" if seen.state in FAILED else "waiting" if seen.state in WAITING else "",
        "files": [each.name for each in seen.files],
    }
