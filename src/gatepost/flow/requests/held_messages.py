"""Messages that wait for a decision about their sender or their room, and how they go on once somebody agreed."""

from typing import Any

from msgspec import Struct

from gatepost.access.senders import Rights, check_sender
from gatepost.core.records import replace
from gatepost.flow import sender_rights
from gatepost.flow.delivery.outgoing_messages import ChannelInstances
from gatepost.flow.intake import room_records
from gatepost.flow.intake.engagement import EngagingMessage, record_engagements
from gatepost.flow.intake.room_records import SeenRoom
from gatepost.flow.intake.routed_message import RoutedMessage, find_parent, make_question, read_spoken
from gatepost.flow.intake.routing import RouteChoice
from gatepost.flow.intake.target_decision import decide_target
from gatepost.flow.requests.choices import DIRECT
from gatepost.messages import address as addresses
from gatepost.messages.inbound import Verb
from gatepost.store.engine.rule_cache import RuleCache
from gatepost.store.messages import inbox, messages
from gatepost.store.messages.inbox import InboxEntry, InboxState
from gatepost.store.messages.messages import Message
from gatepost.store.port import Db
from gatepost.store.rights import requests
from gatepost.store.rights.requests import Request
from gatepost.store.rooms import rooms
from gatepost.store.rooms.rooms import RoomPolicy
from gatepost.store.sessions import sessions


class ReleasedMessages(Struct, frozen=True):
    """The outcome of what was held. `files`: of those that were refused, to be removed once it is committed. `rooms`:
    that were told something. `renew`: sessions that start anew, with another model."""

    wake: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    rooms: tuple[tuple[str, str], ...] = ()
    renew: tuple[str, ...] = ()


CHAT = "chat"  # what a request says of its room besides the address


def describe_room(room: SeenRoom) -> dict[str, str]:
    """Return what a request keeps of the room that it is about."""
    about = {CHAT: room.name, DIRECT: "yes" if room.direct else ""}
    return {name: value for name, value in about.items() if value}


def read_room(request: Request) -> SeenRoom:
    name = str(request.input.get(CHAT, ""))
    return SeenRoom(request.instance, request.address, name, DIRECT in request.input)


def sum_files(content: dict[str, Any]) -> int:
    """The bytes of the files that came with a message."""
    files = content.get("attachments")
    sizes = [each.get("size") for each in files if isinstance(each, dict)] if isinstance(files, list) else []
    return sum(size for size in sizes if isinstance(size, int))


HeldMessages = list[tuple[InboxEntry, Message]]


def refuse_held(db: Db, channels: ChannelInstances, held: HeldMessages, reason: str, now: int) -> ReleasedMessages:
    """Nobody gets them, so nobody needs their files: a stranger's are not kept as long as others. But whoever belongs
    to the group by now, by whatever way, is heard."""
    woken, refused = release_admitted(db, channels, held, now, guests=False)
    for entry, _ in refused:
        inbox.set_state(db, entry.id, InboxState.REFUSED, reason, None, now)
    alone = [message for _, message in refused if len(inbox.list_for_message(db, message.id)) == 1]
    files = tuple(path for each in alone for path in messages.remove_files(db, each))
    return ReleasedMessages(wake=woken, files=files)


def release_admitted(
    db: Db, channels: ChannelInstances, held: HeldMessages, now: int, *, guests: bool = True
) -> tuple[tuple[str, ...], HeldMessages]:
    """Deliver what would be let in if it came now: the sessions, and what still has to wait. `guests`: also of those
    whom a room lets in without knowing them."""
    woken: list[str] = []
    left: HeldMessages = []
    for entry, message in held:
        known = rooms.get(db, message.instance, message.address)
        seen = SeenRoom(known.instance, known.address, known.name, known.direct) if known else None
        way = _choose(db, channels, message, seen or _find_room(db, entry, message), entry.folder, now)
        policy = known.policy if known is not None else RoomPolicy.REQUEST_APPROVAL  # which it was held by
        rights = _find_rights(db, message.sender, way.chosen, policy) if way is not None else None
        if way is None or rights is None or (rights == "guest" and not guests):
            left.append((entry, message))
            continue
        woken.append(_queue(db, entry, message, way, rights, now))
    return tuple(dict.fromkeys(woken)), left


def release_or_refuse(db: Db, channels: ChannelInstances, held: HeldMessages, now: int) -> tuple[str, ...]:
    """By the rights and routes of now; whoever was shut out meanwhile is refused. The sessions to wake."""
    woken, left = release_admitted(db, channels, held, now)
    for entry, _ in left:
        inbox.set_state(db, entry.id, InboxState.REFUSED, "no_route", None, now)
    return woken


def _find_room(db: Db, entry: InboxEntry, message: Message) -> SeenRoom:
    """As its channel told of it when somebody was asked: whether it is direct is known from nowhere else."""
    request = requests.get(db, entry.reason)
    room = read_room(request) if request is not None else None
    same = room is not None and (room.instance, room.address) == (message.instance, message.address)
    return room if room is not None and same else SeenRoom(message.instance, message.address)


def _find_rights(db: Db, sender: str, chosen: RouteChoice, policy: RoomPolicy) -> Rights | None:
    """Return the rights of a sender; None if they may not speak there. By naming a group, a guest comes no further than
    routes lead."""
    rights = sender_rights.find_rights(db, sender, chosen.folder)
    if rights is None or not check_sender(policy, rights, chosen.folder).allowed:
        return None
    if chosen.via and rights == "guest":
        above = sender_rights.find_rights(db, sender, chosen.via)
        return rights if above is not None and check_sender(policy, above, chosen.via).allowed else None
    return rights


def deliver_held(
    db: Db,
    channels: ChannelInstances,
    entry: InboxEntry,
    message: Message,
    room: SeenRoom,
    folder: str,
    rights: str,
    now: int,
) -> str:
    """By the routes of now, to the group that was asked for. The session; '' if no route leads there any more."""
    # What one room's request was held for may have come from another room of the same sender.
    seen = room if (message.instance, message.address) == (room.instance, room.address) else None
    way = _choose(db, channels, message, seen or SeenRoom(message.instance, message.address), folder, now)
    if way is None:
        inbox.set_state(db, entry.id, InboxState.REFUSED, "no_route", None, now)
        return ""
    return _queue(db, entry, message, way, rights, now)


class ReleaseWay(Struct, frozen=True):
    """How a held message goes on: to whom, and as what it would engage them."""

    room: SeenRoom
    chosen: RouteChoice
    engaging: EngagingMessage


def _choose(
    db: Db, channels: ChannelInstances, message: Message, room: SeenRoom, folder: str, now: int
) -> ReleaseWay | None:
    """Route a held message as if it were said now, to the group that it is held for, or to any. `@group` alone would
    now choose a group, but it was held as words for an agent and stays so."""
    rules = RuleCache()
    said = _make_routed(db, channels, message, room)
    question, spoken = make_question(db, rules, said), read_spoken(db, rules, said, now)
    target = decide_target(question, spoken)
    if target.change is not None:
        target = decide_target(question, replace(spoken, address=None))
    fit = [each for each in target.decision.chosen if folder in ("", each.folder)]
    chosen = next((each for each in fit if not each.observe), None)
    if chosen is None and fit and folder:  # it was for the group when it came, and only observed by now
        chosen = question.find_way(folder)
    engaging = EngagingMessage(said, question, spoken, target, channels.engages_s)
    return ReleaseWay(room, chosen, engaging) if chosen is not None else None


def _make_routed(db: Db, channels: ChannelInstances, message: Message, room: SeenRoom) -> RoutedMessage:
    """As it was when it came: a verb that it got then by what it is about stays."""
    return RoutedMessage(
        instance=message.instance,
        address=addresses.parse(message.address, "address"),
        sender=message.sender,
        text=message.text,
        verb=Verb(message.verb),
        thread=message.thread,
        event=message.event,
        kind=message.kind,
        direct=room.direct,
        parent=find_parent(db, message.instance, message.address, message.reply_to, message.thread),
        with_files=bool(message.content.get("attachments")),
        own_names=channels.own_names(message.instance),
    )


def _queue(db: Db, entry: InboxEntry, message: Message, way: ReleaseWay, rights: str, now: int) -> str:
    seen, chosen = way.room, way.chosen
    room_records.record_let_in(db, seen, RoomPolicy.REQUEST_APPROVAL, message.sender, now)
    topic = message.thread if chosen.topic is None else chosen.topic
    session = sessions.find_or_add(db, chosen.mode, chosen.folder, message.instance, message.address, topic, now)
    room_records.add_destination(db, chosen.folder, chosen.mode, seen, message.thread, now)
    inbox.release(db, entry.id, session.id, chosen.folder, rights, now)
    record_engagements(db, way.engaging, [chosen], now)
    return session.id
