"""Looking back: what was said in a room, as the ledger or as the platform has it. Nothing of it is new input: what is
fetched wakes nobody."""

import asyncio
import re
from collections.abc import Iterator
from datetime import datetime
from typing import Annotated
from zoneinfo import ZoneInfo

import msgspec
from msgspec import Meta, Struct

from gatepost.access.tiers import ROOT_FOLDER, Tier, TreeScope, may_act_on
from gatepost.channels.contract import MYSELF, SupportsHistory
from gatepost.core.clock import SECOND, iso
from gatepost.core.errors import GatepostError, NotFound
from gatepost.core.records import extend, replace
from gatepost.flow.codes import mask_codes
from gatepost.flow.intake import routing
from gatepost.flow.intake.routing import RouteTable
from gatepost.flow.schedule import TIMEZONE
from gatepost.gate.tool_answers import LISTED, shortened, size_of
from gatepost.inside.prompts.prompt import escape
from gatepost.messages import address as addresses
from gatepost.messages.address import Address
from gatepost.messages.inbound import Direction, Inbound, mark_untrusted
from gatepost.messages.text import clean
from gatepost.store.messages import messages, room_history
from gatepost.store.messages.messages import NewMessage
from gatepost.store.messages.outbox import EffectState
from gatepost.store.messages.room_history import Cursor, RoomHistoryEntry
from gatepost.store.people import identities
from gatepost.store.port import Db
from gatepost.store.rooms import routes
from gatepost.store.sessions import groups
from gatepost.tools.call import ReachableRoom, ToolCall
from gatepost.tools.contract import tool
from gatepost.tools.kit.lookup_helpers import LOCAL, MOST, Jid, get_own_part, parse_time
from gatepost.tools.kit.outbox_effects import LONGEST_TEXT

MOST_OF_THREAD = 100
FETCH_S = 30.0
KEPT_AT_ONCE = 64 * 1024  # characters that one transaction writes down
_NUMBER = re.compile(r"[0-9]{1,18}\Z")

Number = Annotated[int, Meta(ge=0, le=2**62)]
Before = Annotated[
    Number | str | None,
    Meta(description="Only what is older: a time (RFC 3339), or an id (`oldest` of the last answer)."),
]


class HistoryMessage(Struct, frozen=True, kw_only=True):
    """One message. `seq`: its number in your conversation, if it has one there; name it so, or by its platform id."""

    id: int
    seq: int | None
    platform_id: str | None
    at: str
    sender: str
    sender_name: str
    from_me: bool  # a message of your group
    from_agent: bool  # an agent's, yours or another
    topic: str
    verb: str
    text: str
    reply_to: str
    state: str
    changed: str  # edited or deleted, if it was since: the text is what people see now
    forwarded_from: str | None  # whose words they are, if not the sender's; '' if nobody knows


class History(Struct, frozen=True, kw_only=True):
    """Oldest first. `rendered`: the same as text. `more`: there are older ones, which were not asked for or did not
    fit; give `oldest` as `before` to see them."""

    messages: list[HistoryMessage]
    count: int
    oldest: int | None
    more: bool
    source: str
    rendered: str


class FetchedHistory(History, frozen=True, kw_only=True):
    """As History. `source`: platform, cache-only (the channel cannot look back) or cache (it failed). `cap`: at most so
    many were asked for."""

    cap: int


@tool(
    tier=Tier.WORKER, scoped_by="chatJid", former_names=("chat_jid",), group="history", read_only=True, idempotent=True
)
async def inspect_messages(
    call: ToolCall,
    chatJid: Jid = None,
    limit: Annotated[int, Meta(description="At most so many, the newest (1–200).")] = 100,
    before: Before = None,
) -> History:
    """Read what was said in a room, both ways, as this gateway has it; also what failed.

    For one topic use get_thread, for words find_messages, for what was said before the gateway was there fetch_history.
    """
    return await _read_local(call, None, limit, MOST, before)


@tool(
    tier=Tier.AGENT, scoped_by="chatJid", former_names=("chat_jid",), group="history", read_only=True, idempotent=True
)
async def get_history(
    call: ToolCall,
    chatJid: Jid = None,
    limit: Annotated[int, Meta(description="At most so many, the newest (1–200).")] = 100,
    before: Before = None,
) -> History:
    """Deprecated: the same as inspect_messages. Use that one."""
    return await _read_local(call, None, limit, MOST, before)


@tool(
    tier=Tier.WORKER, scoped_by="chatJid", former_names=("chat_jid",), group="history", read_only=True, idempotent=True
)
async def get_thread(
    call: ToolCall,
    topic: Annotated[str, Meta(description="The topic or thread, as messages show it.")],
    chatJid: Jid = None,
    limit: Annotated[int, Meta(description="At most so many, the newest (1–100).")] = 50,
    before: Before = None,
) -> History:
    """Read what was said in one topic of a room that has several. For the whole room use inspect_messages."""
    return await _read_local(call, topic, limit, MOST_OF_THREAD, before)


@tool(tier=Tier.AGENT, scoped_by="chatJid", former_names=("chat_jid",), group="history", effects=(), idempotent=True)
async def fetch_history(
    call: ToolCall,
    chatJid: Jid = None,
    limit: Annotated[int, Meta(description="At most so many, the newest (1–200).")] = 100,
    before: Before = None,
) -> FetchedHistory:
    """Ask the platform what was said in a room, also before this gateway was there, and keep it.

    To know what went before on first contact, or after reset_session. If the platform cannot tell, what is known here
    is given. For that alone use inspect_messages.
    """
    place, most = call.place, min(max(limit, 1), MOST)
    cursor = await call.read(_cursor, place, before)
    found, source = await _ask_platform(call, cursor, most)
    if found:
        own = await call.read(_filter_own, place, found, call.caller.folder, call.now)
        for some in _portions(own):
            await call.write(_add_messages, some, call.caller.folder, call.now)
    page = await call.read(_list_messages, call, None, cursor, most)
    return extend(FetchedHistory, replace(page, source=source), cap=most)


async def _read_local(call: ToolCall, thread: str | None, limit: int, most: int, before: int | str | None) -> History:
    def read(db: Db) -> History:
        return _list_messages(db, call, thread, _cursor(db, call.place, before), min(max(limit, 1), most))

    return await call.read(read)


def _list_messages(db: Db, call: ToolCall, thread: str | None, before: Cursor, limit: int) -> History:
    """Return so much of a room as one answer takes. It is made where it is read, in a thread of the store. Each text is
    in the answer twice: by itself and rendered."""
    place, own, zone = call.place, call.caller.session_id or "", ZoneInfo(call.deps.config[TIMEZONE])
    chars = LISTED // 2
    seen, more = room_history.list_in_room(
        db, place.instance, place.address, thread, before, limit, get_own_part(call), own, chars
    )
    shown: list[HistoryMessage] = []
    lines: list[str] = []
    left = LISTED
    for each in seen:
        fitted = _fitted(each, call, zone) if not shown else each
        said, line = _render_message(fitted, call), _line(fitted, zone, call)
        left -= size_of(said, line)
        if shown and left < 0:
            more = True
            break
        shown.append(said)
        lines += [line] if line else []
    return History(
        messages=shown[::-1],
        count=len(shown),
        oldest=shown[-1].id if shown else None,
        more=more,
        source=LOCAL,
        rendered="\n".join(reversed(lines)),
    )


def _fitted(seen: RoomHistoryEntry, call: ToolCall, zone: ZoneInfo) -> RoomHistoryEntry:
    """The newest is shown in any case: cut, if it alone is too large for an answer."""

    def with_text(text: str) -> RoomHistoryEntry:
        return replace(seen, message=replace(seen.message, text=text))

    def fits(text: str) -> bool:
        changed = with_text(text)
        return size_of(_render_message(changed, call), _line(changed, zone, call)) <= LISTED

    return with_text(shortened(seen.message.text, seen.length, fits))


def _cursor(db: Db, place: ReachableRoom, before: int | str | None) -> Cursor:
    if before is None or before == "":
        return Cursor()
    if isinstance(before, str) and not _NUMBER.match(before):
        known = [messages.find(db, place.instance, place.address, way, before) for way in Direction]
        message = next((each for each in known if each is not None), None)
        return Cursor(message.at, message.id) if message else Cursor(parse_time(before, "before"))
    message = messages.get(db, int(before))
    if message is None or (message.instance, message.address) != (place.instance, place.address):
        raise NotFound("message", str(before)[:80], "give `oldest` of an earlier answer about this room, or a time")
    return Cursor(message.at, message.id)


def _render_message(seen: RoomHistoryEntry, call: ToolCall) -> HistoryMessage:
    message = seen.message
    return HistoryMessage(
        id=message.id,
        seq=seen.seq,
        platform_id=message.platform_id,
        at=iso(message.at) or "",
        sender=message.sender,
        sender_name=message.sender_name,
        from_me=message.direction == Direction.OUT and message.folder == call.caller.folder,
        from_agent=message.direction == Direction.OUT or message.sender.startswith("agent:"),
        topic=message.topic or message.thread,
        verb=message.verb,
        text=message.text,
        reply_to=message.reply_to,
        state=seen.state,
        changed=message.revision,
        forwarded_from=message.forward_from,
    )


def _line(seen: RoomHistoryEntry, zone: ZoneInfo, call: ToolCall) -> str:
    """Render a message as the agent is shown messages in a turn. One that people never got is left out."""
    message = seen.message
    if message.direction == Direction.OUT and seen.state == EffectState.FAILED:
        return ""
    ours = "you" if message.folder == call.caller.folder else f"agent:{message.folder}" if message.folder else "bot"
    sender = ours if message.direction == Direction.OUT else message.sender_name or message.sender
    values = {
        "id": str(seen.seq or ""),
        "sender": sender,
        "time": f"{datetime.fromtimestamp(message.at / SECOND, zone):%Y-%m-%d %H:%M}",
        "topic": message.topic or message.thread,
        "verb": message.verb if message.direction == Direction.IN and message.verb != "message" else "",
        "changed": message.revision,
        "forwarded_from": "" if message.forward_from is None else message.forward_from or "unknown",
    }
    head = "".join(f' {name}="{escape(" ".join(value.split()))}"' for name, value in values.items() if value)
    return f"<message{head}>{escape(message.text)}</message>"


async def _ask_platform(call: ToolCall, before: Cursor, limit: int) -> tuple[list[Inbound], str]:
    """Return what the platform remembers, and how that went."""
    place = call.place
    channel: object = call.deps.adapters.get(place.instance)
    if not isinstance(channel, SupportsHistory):
        return [], "cache-only"
    try:
        async with asyncio.timeout(FETCH_S):
            found = await channel.history(place.address, None if before == Cursor() else before.at, limit)
    except (GatepostError, OSError, TimeoutError, ValueError):
        return [], "cache"
    kept = [each for each in found if each.address == place.address and each.platform_id][:limit]
    return [mark_untrusted(call.deps.channels.add_server(place.instance, each)) for each in kept], "platform"


def _filter_own(db: Db, place: ReachableRoom, found: list[Inbound], folder: str, now: int) -> list[NewMessage]:
    """Without what routes give to others only: a room may be shared out between several."""
    table, where = routing.make_route_table(routes.list_all(db)), addresses.parse(place.address)
    news = [_make_message(place, each, now) for each in found]
    return [new for new in news if _is_for(db, folder, table, where, new)]


def _portions(news: list[NewMessage]) -> Iterator[list[NewMessage]]:
    """As one transaction each should take them: everybody's writes wait for it."""
    some: list[NewMessage] = []
    for new in news:
        if some and sum(len(each.text) for each in (*some, new)) > KEPT_AT_ONCE:
            yield some
            some = []
        some.append(new)
    if some:
        yield some


def _add_messages(db: Db, news: list[NewMessage], folder: str, now: int) -> int:
    return sum(room_history.add_fetched(db, new, folder, now) for new in news)


def _is_for(db: Db, folder: str, table: RouteTable, where: Address, new: NewMessage) -> bool:
    if folder == ROOT_FOLDER or new.direction == Direction.OUT:
        return True
    facts = routing.make_match_input(
        new.instance,
        where,
        sender=new.sender,
        verb=new.verb,
        text=new.text,
        thread=new.thread,
        names=identities.list_names(db, new.sender) if table.asks_sender else (),
    )
    chosen = table.decide(facts, lambda each: groups.get(db, each) is not None).chosen
    return not chosen or any(may_act_on(TreeScope.SUBTREE, folder, each.folder) for each in chosen)


def _make_message(place: ReachableRoom, inbound: Inbound, now: int) -> NewMessage:
    ours = inbound.sender == MYSELF
    text, name = mask_codes(clean(inbound.text)[:LONGEST_TEXT]), clean(inbound.sender_name)
    content = {"text": text, "sender": name or inbound.sender, "senderId": inbound.sender, "senderName": name}
    return NewMessage(
        instance=place.instance,
        address=place.address,
        thread=clean(inbound.thread),
        direction=Direction.OUT if ours else Direction.IN,
        platform_id=clean(inbound.platform_id),
        event=clean(inbound.event),
        verb="send" if ours else inbound.verb.value,
        sender=clean(inbound.sender),
        sender_name=name,
        text=text,
        content=msgspec.json.encode({**content, "verb": inbound.verb.value}).decode(),
        reply_to=clean(inbound.reply_to.platform_id) if inbound.reply_to else "",
        at=min(inbound.at, now) if inbound.at is not None else now,
    )
