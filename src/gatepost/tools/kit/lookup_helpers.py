"""Common parts of the tools that look back: times, rooms, routes as they are shown, and an index that is up to date."""

from contextlib import suppress
from datetime import UTC, datetime
from typing import Annotated

from msgspec import Meta

from gatepost.access.tiers import ROOT_FOLDER, TreeScope, may_act_on
from gatepost.core.clock import SECOND
from gatepost.core.errors import Invalid, Unavailable
from gatepost.core.records import extend
from gatepost.flow.intake import routing
from gatepost.store import search
from gatepost.store.rooms.routes import Route, RouteFields, render_ttl
from gatepost.store.search import Subtree
from gatepost.tools.call import ToolCall

LOCAL = "local-db"  # as the source of an answer: what this gateway has
MOST = 200
MOST_CAUGHT_UP = 80  # transactions, with which one search brings the index up to date

Jid = Annotated[str | None, Meta(description="Default: the room of this turn.")]


def get_own_part(call: ToolCall) -> Subtree:
    """The part of the tree that is the caller's own."""
    return Subtree(call.caller.folder, everything=call.caller.folder == ROOT_FOLDER)


def parse_time(text: str, field: str) -> int:
    """A time as RFC 3339 writes it, in microseconds; without a zone it is UTC."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise Invalid(field, f"{text[:80]!r} is no time; write it like 2026-01-31T09:30:00Z") from None
    return round((found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp() * SECOND)


async def update_search_index(call: ToolCall) -> None:
    """Bring the index up to date, so that the latest messages are found, too. On a full disk they are not; the search
    still runs."""
    with suppress(Unavailable):
        for _ in range(MOST_CAUGHT_UP):
            if not await call.read(search.is_behind):
                break
            await call.deps.store.write(search.index, durable=False, lane=call.caller.lane)


class RouteInfo(RouteFields, frozen=True, kw_only=True):
    id: int
    session: str
    observe_window_messages: int | None
    observe_window_chars: int | None
    ttl: str  # how long a group stays in a conversation; '': the gateway's own
    own: bool  # an agent of this part of the tree made it, and may change it


def is_visible_route(call: ToolCall, route: Route) -> bool:
    """Return True if it leads into the caller's part of the tree."""
    if call.caller.folder == ROOT_FOLDER:
        return True
    try:
        target = routing.parse_target(route.target)
    except Invalid:
        return False
    return not target.drops and may_act_on(TreeScope.SUBTREE, call.caller.folder, routing.find_target_parent(target))


def is_own_route(route: Route, folder: str) -> bool:
    maker = route.created_by.removeprefix(routing.MADE_BY)
    return folder == ROOT_FOLDER or (maker != route.created_by and may_act_on(TreeScope.SUBTREE, folder, maker))


def render_route(route: Route, folder: str) -> RouteInfo:
    return extend(
        RouteInfo,
        route,
        RouteFields,
        id=route.id,
        session=route.mode,
        observe_window_messages=route.window_messages,
        observe_window_chars=route.window_chars,
        ttl=render_ttl(route.ttl_s),
        own=is_own_route(route, folder),
    )
