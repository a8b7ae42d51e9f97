"""A room as a person sees it, read from the ledger, and how to follow it without missing anything.

A message becomes visible later than it gets its id (a reply waits for its delivery), and its state changes afterwards.
So the cursor is not the last id shown but the id below which nothing can change any more. Messages above the cursor are
looked at again, and shown again only if they changed. Those in a final state are not read again: a talkative turn would
else be read as a whole with every further word. A client that resumes at a cursor may see a message twice and must
compare ids.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from types import MappingProxyType
from typing import Any

import msgspec
from msgspec import Struct

from gatepost.channels.local_channel import LocalChannel
from gatepost.core.records import replace
from gatepost.flow.links import is_link_room
from gatepost.messages.card import (
    LONGEST_NAME,
    LONGEST_TEXT,
    LONGEST_VALUE,
    MOST_BUTTONS,
    MOST_FIELDS,
    Card,
    CardField,
    fits_page,
)
from gatepost.messages.inbound import CLICK, Direction, MessageKind
from gatepost.messages.outbound import Draft, Op
from gatepost.store.messages import inbox, messages, outbox
from gatepost.store.messages.inbox import InboxState
from gatepost.store.messages.messages import Message
from gatepost.store.messages.outbox import EffectOrigin, EffectState
from gatepost.store.port import Db, Store
from gatepost.store.rooms import rooms
from gatepost.store.sessions import groups

WINDOW = 200  # messages of a room that are looked at again; an older one that still waits holds nobody up
SCANNED = 2000  # messages of a room that are gone through for one page of a thread
QUICKEST_S, SLOWEST_S = 0.1, 2.0  # between looks while something is under way and no bell is heard
BEAT_S = 15.0  # between looks when nothing is: also how soon a dead reader is noticed
SHOWN = ("sending", "sent", "uncertain")
STATUS = "status"  # the verb of what an agent says while it works; its edits are edits
_NOTHING: Mapping[int, "RoomEvent | None"] = MappingProxyType({})


class RoomEventFile(Struct, frozen=True, kw_only=True):
    name: str
    mime: str
    size: int
    path: str  # the host's copy; never shown to anybody


class RoomEvent(Struct, frozen=True, kw_only=True):
    """One event of a room: a message, or a change of the message `target_id`."""

    id: int
    address: str
    thread: str
    direction: Direction
    verb: str
    sender: str
    sender_name: str
    text: str
    state: str
    reason: str
    at: int
    platform_id: str
    folder: str = ""
    agent: str = ""  # the group's display name
    seq: int = 0
    reply_to: str = ""
    target_id: int | None = None
    reaction: str = ""
    files: tuple[RoomEventFile, ...] = ()
    card: Card | None = None  # shown in place of the text, which says the same
    turn: str = ""  # in which the agent said it


class RoomEventPage(Struct, frozen=True):
    seen: tuple[RoomEvent, ...]
    more: bool  # there may be older ones


class RoomView(Struct, frozen=True):
    """One look at one room: what is visible, and the cursor below which nothing changes any more."""

    seen: tuple[RoomEvent, ...]
    cursor: int
    open: bool  # something in it is still under way
    more: bool  # there is a further page to look at
    settled: dict[int, RoomEvent | None]  # what has come to its end, beyond the cursor


def read_view(
    db: Db, instance: str, address: str, after: int, settled: Mapping[int, RoomEvent | None] = _NOTHING
) -> RoomView:
    """Return what a room shows after a cursor, in the order in which it was accepted, at most a page of it. `settled`:
    of an earlier look, which need not be read again."""
    page = messages.ids_in_room(db, instance, address, after, WINDOW)
    more = len(page) == WINDOW
    return _make_view(db, page, after, more, WINDOW // 2 if more else 0, settled)


def read_newest_view(db: Db, instance: str, address: str) -> RoomView:
    """Return what a room shows now, for somebody who begins to follow it here."""
    page = [each.id for each in messages.list_latest_in_room(db, instance, address, None, WINDOW)]
    return _make_view(db, page, 0, False, 0, _NOTHING)


def _make_view(
    db: Db, page: list[int], after: int, more: bool, ignored: int, settled: Mapping[int, RoomEvent | None]
) -> RoomView:
    """The first `ignored` of a page do not hold its cursor: what waits long must not keep the rest from being seen."""
    seen: list[RoomEvent] = []
    ended: dict[int, RoomEvent | None] = {}
    oldest_open = None
    for place, message_id in enumerate(page):
        if message_id in settled:
            shown, is_settled = settled[message_id], True
        else:
            message = messages.get(db, message_id)
            shown, is_settled = read_event(db, message) if message is not None else (None, True)
        if shown is not None:
            seen.append(shown)
        if is_settled:
            ended[message_id] = shown
        elif oldest_open is None and place >= ignored:
            oldest_open = message_id
    last = page[-1] if page else after
    cursor = last if oldest_open is None else oldest_open - 1
    kept = {each: shown for each, shown in ended.items() if each > cursor}
    return RoomView(tuple(seen), cursor, oldest_open is not None, more, kept)


def read_history(db: Db, instance: str, address: str, thread: str, before: int | None, limit: int) -> RoomEventPage:
    """An older page of one thread, oldest first."""
    found: list[RoomEvent] = []
    for _ in range(SCANNED // WINDOW):
        page = messages.list_latest_in_room(db, instance, address, before, WINDOW)
        shown = (read_event(db, message)[0] for message in reversed(page) if message.thread == thread)
        found += [one for one in shown if one is not None]
        if len(page) < WINDOW:
            return RoomEventPage(tuple(reversed(found[:limit])), len(found) > limit)
        before = page[0].id
        if len(found) > limit:
            break
    return RoomEventPage(tuple(reversed(found[:limit])), True)


def read_event(db: Db, message: Message) -> tuple[RoomEvent | None, bool]:
    """A message as people see it (None: not for people, or not yet), and whether that can still change."""
    if message.direction == Direction.IN:
        entries = inbox.list_for_message(db, message.id)
        state, reason = combine_states(entries)
        settled = bool(entries) and all(entry.state in inbox.END for entry in entries)
        seq = entries[0].seq if entries else 0
        hidden = message.kind in (MessageKind.SYSTEM, MessageKind.TASK) or message.event == CLICK
        return (None if hidden else _make_event(db, message, state, reason, seq)), settled
    effects = outbox.list_for_message(db, message.id)
    if not effects:
        return None, True
    effect = effects[-1]
    settled = effect.state in outbox.END
    if effect.state not in SHOWN:
        return None, settled
    state = "sent" if effect.state == EffectState.SENDING else effect.state  # for a hub there is nothing in between
    event = _make_event(db, message, state, effect.reason, effect.seq)
    verb = STATUS if effect.origin is EffectOrigin.STATUS and effect.op == Op.SEND else event.verb
    return replace(event, platform_id=effect.key, verb=verb, turn=effect.turn_id or ""), settled


_BY_WEIGHT = tuple(
    map(InboxState, ("working", "retry", "held", "queued", "answered", "silent", "failed", "refused", "cancelled"))
)


def combine_states(entries: list[inbox.InboxEntry]) -> tuple[str, str]:
    """One word for a message that may have several targets: what is still open, else the best that was reached."""
    states = {entry.state: entry.reason for entry in reversed(entries)}
    for state in _BY_WEIGHT:
        if state in states:
            return state, states[state]
    return ("observed", "") if entries else ("accepted", "")


def _make_event(db: Db, message: Message, state: str, reason: str, seq: int) -> RoomEvent:
    content = message.content
    target = content.get("target_id")
    group = groups.get(db, message.folder) if message.folder else None
    return RoomEvent(
        id=message.id,
        address=message.address,
        thread=message.thread,
        direction=message.direction,
        verb=message.verb,
        sender=message.sender,
        sender_name=message.sender_name,
        text=message.text,
        state=state,
        reason=reason,
        at=message.at,
        platform_id=message.platform_id or "",
        folder=message.folder,
        agent=group.name if group else "",
        seq=seq,
        reply_to=message.reply_to,
        target_id=target if isinstance(target, int) else None,
        reaction=str(content.get("reaction") or ""),
        files=parse_files(content),
        card=parse_card(content) if message.direction == Direction.OUT else None,
    )


def parse_card(content: dict[str, Any]) -> Card | None:
    """The card of a message that is one, cut to what a page shows. Something else in its place is no card."""
    if not content.get("card"):
        return None
    try:
        card = msgspec.convert(content["card"], Card)
    except msgspec.ValidationError:
        return None
    if fits_page(card) and len(card.buttons) <= MOST_BUTTONS:
        return card
    fields = [CardField(each.name[:LONGEST_NAME], each.value[:LONGEST_VALUE]) for each in card.fields[:MOST_FIELDS]]
    return replace(
        card,
        title=card.title[:LONGEST_NAME],
        text=card.text[:LONGEST_TEXT],
        fields=tuple(fields),
        buttons=(),  # nobody decides about what they do not see
        done=card.done[:LONGEST_VALUE],
        token=card.token[:LONGEST_NAME],
    )


def parse_files(content: dict[str, Any]) -> tuple[RoomEventFile, ...]:
    """Files of either direction: `attachments` came in, `files` go out."""
    listed = content.get("attachments") or content.get("files") or []
    return tuple(
        RoomEventFile(
            name=str(one.get("name") or "file"),
            mime=str(one.get("mimeType") or one.get("mime") or "application/octet-stream"),
            size=int(one.get("size") or 0),
            path=str(one.get("path") or one.get("localPath") or ""),
        )
        for one in listed
        if isinstance(one, dict)
    )


class TypingChange(Struct, frozen=True):
    """Somebody began, or ceased, to be at work."""

    address: str
    thread: str
    on: bool


class RoomUpdate(Struct, frozen=True):
    """Changes since the last look. `looked`: into the store; what is only written is not there."""

    seen: tuple[RoomEvent, ...]
    typing: tuple[TypingChange, ...]
    cursor: int
    drafts: tuple[Draft, ...] = ()  # without text: it is over
    looked: bool = True


class RoomFollower:
    """Events that one reader was told, as far as they can still change, and where it stands in each room."""

    def __init__(self, hub: LocalChannel, address: str | None, after: int, *, drafts: bool = False) -> None:
        self._hub, self._address, self._after, self._wants_drafts = hub, address, after, drafts
        self._drafts: dict[str, Draft] = {}  # by session
        self._cursor = after
        self._cursors: dict[str, int] = {}
        self._settled: dict[str, dict[int, RoomEvent | None]] = {}
        self._seen: dict[int, RoomEvent] = {}
        self._typing: frozenset[tuple[str, str]] = frozenset()

    def read(self, db: Db) -> dict[str, RoomView]:
        """One snapshot of every room, so that the cursor of one never passes over a message of another."""
        places = (self._address,) if self._address else list_rooms(db, self._hub.instance, self._hub.main_room)
        return {
            at: read_view(
                db, self._hub.instance, at, self._cursors.get(at, self._after), self._settled.get(at, _NOTHING)
            )
            for at in places
        }

    def news(self, views: dict[str, RoomView]) -> RoomUpdate:
        self._cursors = {room: view.cursor for room, view in views.items()}
        self._settled = {room: view.settled for room, view in views.items()}
        visible = sorted((one for view in views.values() for one in view.seen), key=lambda one: one.id)
        changed = tuple(one for one in visible if self._seen.get(one.id) != one)
        self._seen = {one.id: one for one in visible if one.id > self._cursors[one.address]}
        typing = self._hub.typing_in(self._address)
        turned = tuple(
            TypingChange(room, thread, (room, thread) in typing) for room, thread in sorted(typing ^ self._typing)
        )
        self._typing = typing
        self._cursor = common_cursor(views.values(), self._after)
        return RoomUpdate(changed, turned, self._cursor, self._list_drafts())

    def draft_news(self) -> RoomUpdate:
        """Return what is written meanwhile. The store is not asked: it has nothing of it."""
        return RoomUpdate((), (), self._cursor, self._list_drafts(), looked=False)

    def _list_drafts(self) -> tuple[Draft, ...]:
        """Those that changed. One that is over, or goes on elsewhere, is told without its text."""
        before = self._drafts
        now = {draft.session: draft for draft in self._hub.drafts_in(self._address)} if self._wants_drafts else {}
        self._drafts = now
        over = [replace(old, text="") for old in before.values() if not _is_same_place(old, now.get(old.session))]
        return (*over, *(draft for draft in now.values() if before.get(draft.session) is not draft))


def _is_same_place(old: Draft, new: Draft | None) -> bool:
    return new is not None and (old.address, old.thread) == (new.address, new.thread)


def common_cursor(views: Iterable[RoomView], after: int) -> int:
    """The cursor for several rooms read in one snapshot: ids are given across rooms, in the order of commits."""
    held = [view.cursor for view in views if view.open or view.more]
    return min(held) if held else max((after, *(view.cursor for view in views)))


async def follow_room(
    store: Store, hub: LocalChannel, address: str | None, after: int, stopping: asyncio.Event, *, drafts: bool = False
) -> AsyncIterator[RoomUpdate]:
    """Yield what happens in a room (None: in every room of this channel) from a cursor on, until the gateway stops.

    News without content comes now and then: it tells a reader that we are there, and us that the reader is. `drafts`:
    with what is being written.
    """
    follower, wait, now = RoomFollower(hub, address, after, drafts=drafts), QUICKEST_S, asyncio.get_running_loop().time
    with hub.watch(address, drafts=drafts) as watch:
        while not stopping.is_set():
            watch.forget_drafted()
            views = await store.read(follower.read)
            news = follower.news(views)
            yield news
            if any(view.more for view in views.values()):
                continue
            until = now() + (wait if any(view.open for view in views.values()) else BEAT_S)
            woken = False
            while now() < until and not (woken := await watch.wait(until - now(), stopping)) and watch.forget_drafted():
                yield follower.draft_news()
                watch.rest_from_drafts(hub.draft_rest_s)
            wait = QUICKEST_S if woken or news.seen else min(wait * 2, SLOWEST_S)


def get_start_cursor(db: Db, hub: LocalChannel, address: str | None) -> int:
    """The cursor for somebody who begins now: what is under way will be told, what is over will not."""
    places = (address,) if address else list_rooms(db, hub.instance, hub.main_room)
    return common_cursor([read_newest_view(db, hub.instance, place) for place in places], 0)


def list_rooms(db: Db, instance: str, main_room: str) -> tuple[str, ...]:
    """Every room of a channel that anybody has been in, the main one first. Rooms of visitors who came by a link are
    left out: strangers must not make more of them than somebody's page can follow."""
    known = [room.address for room in rooms.list_all(db) if room.instance == instance and room.address != main_room]
    return (main_room, *(each for each in known if not is_link_room(each)))
