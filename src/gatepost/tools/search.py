"""Finding messages by what they say, in the rooms that the caller may read."""

import asyncio
from collections.abc import Iterable, Mapping
from typing import Annotated, Any
from weakref import WeakValueDictionary

from msgspec import Meta, Struct

from gatepost.access.tiers import ROOT_FOLDER, Tier
from gatepost.core.clock import iso
from gatepost.gate.tool_answers import fitting
from gatepost.messages.inbound import Direction
from gatepost.messages.text import clean
from gatepost.store import search
from gatepost.store.search import Hit, SearchQuery, Subtree
from gatepost.tools.call import ToolCall
from gatepost.tools.contract import Body, tool
from gatepost.tools.kit.lookup_helpers import LOCAL, MOST, parse_time, update_search_index


class FoundMessage(Struct, frozen=True, kw_only=True):
    """`content`: the part of it that fits, «marked». `rank`: lower is better, among the hits of one search."""

    id: int
    chat_jid: str
    topic: str
    sender: str
    sender_name: str
    timestamp: str
    is_from_me: bool  # a message of your group
    is_bot_message: bool  # an agent's, yours or another
    content: str
    rank: float


class FoundMessages(Struct, frozen=True):
    """`more`: others were found, which were not asked for or do not fit; narrow the search to see them."""

    messages: list[FoundMessage]
    count: int
    more: bool
    source: str


def _about(arguments: Mapping[str, Any]) -> Iterable[str]:
    """A scope without `:` is a group, which must lie within the caller's part; rooms are judged in the search."""
    scope = arguments.get("scope")
    return [scope] if scope and ":" not in scope else []


@tool(tier=Tier.WORKER, about=_about, group="history", read_only=True, idempotent=True, core=True)
async def find_messages(
    call: ToolCall,
    query: Annotated[
        Body,
        Meta(description='Words, a "phrase", a OR b, a NOT b, prefix*, NEAR(a b, 5).'),
    ],
    scope: Annotated[str | None, Meta(description="A room (it has a `:`), or a group.")] = None,
    sender: Annotated[str | None, Meta(description="Exactly, such as telegram:user/9.")] = None,
    since: Annotated[str | None, Meta(description="RFC 3339.")] = None,
    limit: Annotated[int, Meta(description="1–200.")] = 20,
) -> FoundMessages:
    """Find what was said before, in all rooms that you may read. The best come first.

    If there are very many hits, only the newest 400 are compared: narrow a common word. inspect_messages reads on
    around a hit.
    """
    most = min(max(limit, 1), MOST)
    wanted = SearchQuery(
        query=clean(query),
        part=_part(call, scope),
        room=clean(scope) if scope and ":" in scope else "",
        sender=clean(sender or ""),
        since=parse_time(since, "since") if since else None,
        limit=most + 1,
    )
    async with _get_search_lock(call.caller.folder):
        await update_search_index(call)
        hits = await call.read(search.find, wanted)
    found, cut_off = fitting(_render_hit(each, call) for each in hits[:most])
    return FoundMessages(found, len(found), cut_off or len(hits) > most, LOCAL)


_searching: WeakValueDictionary[tuple[asyncio.AbstractEventLoop, str], asyncio.Lock] = WeakValueDictionary()


def _get_search_lock(folder: str) -> asyncio.Lock:
    """A group's searches go one after the other: with several it would hold every reader of the store."""
    return _searching.setdefault((asyncio.get_running_loop(), folder), asyncio.Lock())


def _part(call: ToolCall, scope: str | None) -> Subtree:
    """A worker searches its own rooms only."""
    folder = scope if scope and ":" not in scope else call.caller.folder
    return Subtree(folder, below=call.caller.tier < Tier.WORKER, everything=folder == ROOT_FOLDER)


def _render_hit(hit: Hit, call: ToolCall) -> FoundMessage:
    return FoundMessage(
        id=hit.id,
        chat_jid=hit.address,
        topic=hit.topic or hit.thread,
        sender=hit.sender,
        sender_name=hit.sender_name,
        timestamp=iso(hit.at) or "",
        is_from_me=hit.direction == Direction.OUT and hit.folder == call.caller.folder,
        is_bot_message=hit.direction == Direction.OUT or hit.sender.startswith("agent:"),
        content=hit.snippet,
        rank=hit.rank,
    )
