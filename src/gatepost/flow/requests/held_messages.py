"""Messages that wait for a decision about their sender or their room, and how they go on once somebody agreed."""

from typing import Any

from msgspec import Struct

from gatepost.access.senders import Rights, check_sender
from gatepost.flow import sender_rights
from gatepost.flow.intake import room_records, routing
from gatepost.flow.intake.room_records import SeenRoom
from gatepost.flow.intake.routing import RouteChoice
from gatepost.messages import address as addresses
from gatepost.store import groups, identities, inbox, messages, requests, rooms, routes, sessions
from gatepost.store.inbox import InboxEntry, InboxState
from gatepost.store.messages import Message
from gatepost.store.port import Db
from gatepost.store.requests import Request
from gatepost.store.rooms import RoomPolicy


class ReleasedMessages(Struct, frozen=True):
    """What became of what was held. `files`: of those that were refused, to be removed once it is committed."""

    wake: tuple[str, ...] = ()
    files: tuple[str, ...] = ()


CHAT, DIRECT = "chat", "direct"  # what a request says of its room besides the address


def describe_room(room: SeenRoom) -> dict[str, str]:
    """What a request keeps of the room that it is about."""
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


def refuse_held(db: Db, held: HeldMessages, reason: str, now: int) -> ReleasedMessages:
    """Nobody gets them, so nobody needs their files: a stranger's are not kept as long as others. But whoever belongs
    to the group by now, by whatever way, is heard."""
    woken, refused = release_admitted(db, held, now, guests=False)
    for entry, _ in refused:
        inbox.set_state(db, entry.id, InboxState.REFUSED, reason, None, now)
    alone = [message for _, message in refused if len(inbox.list_for_message(db, message.id)) == 1]
    files = tuple(path for each in alone for path in messages.remove_files(db, each))
    return ReleasedMessages(wake=woken, files=files)


def release_admitted(
    db: Db, held: HeldMessages, now: int, *, guests: bool = True
) -> tuple[tuple[str, ...], HeldMessages]:
    """Deliver what would be let in if it came now: the sessions, and what still has to wait. `guests`: also of those
    whom a room lets in without knowing them."""
    woken: list[str] = []
    left: HeldMessages = []
    for entry, message in held:
        chosen = _choose(db, message, entry.folder)
        known = rooms.get(db, message.instance, message.address)
        policy = known.policy if known is not None else RoomPolicy.REQUEST_APPROVAL  # which it was held by
        rights = _find_rights(db, message.sender, chosen.folder, policy) if chosen is not None else None
        if chosen is None or rights is None or (rights == "guest" and not guests):
            left.append((entry, message))
            continue
        seen = SeenRoom(known.instance, known.address, known.name, known.direct) if known else None
        woken.append(_queue(db, entry, message, seen or _find_room(db, entry, message), chosen, rights, now))
    return tuple(dict.fromkeys(woken)), left


def _find_room(db: Db, entry: InboxEntry, message: Message) -> SeenRoom:
    """As its channel told of it when somebody was asked: whether it is direct is known from nowhere else."""
    request = requests.get(db, entry.reason)
    room = read_room(request) if request is not None else None
    same = room is not None and (room.instance, room.address) == (message.instance, message.address)
    return room if room is not None and same else SeenRoom(message.instance, message.address)


def _find_rights(db: Db, sender: str, folder: str, policy: RoomPolicy) -> Rights | None:
    """None: she may not speak there."""
    rights = sender_rights.find_rights(db, sender, folder)
    return rights if rights is not None and check_sender(policy, rights, folder).allowed else None


def deliver_held(
    db: Db, entry: InboxEntry, message: Message, room: SeenRoom, folder: str, rights: str, now: int
) -> str:
    """By the routes of now, to the group that was asked for. The session; '' if no route leads there any more."""
    chosen = _choose(db, message, folder)
    if chosen is None:
        inbox.set_state(db, entry.id, InboxState.REFUSED, "no_route", None, now)
        return ""
    # What one room's request was held for may have come from another room of the same sender.
    seen = room if (message.instance, message.address) == (room.instance, room.address) else None
    return _queue(db, entry, message, seen or SeenRoom(message.instance, message.address), chosen, rights, now)


def _choose(db: Db, message: Message, folder: str) -> RouteChoice | None:
    """The way to a group by the routes of now; to any, if it is held for none."""
    rows = routes.list_all(db)
    facts = routing.make_match_input(
        message.instance,
        addresses.parse(message.address, "address"),
        sender=message.sender,
        verb=message.verb,
        text=message.text,
        thread=message.thread,
        names=identities.list_names(db, message.sender) if routing.asks_sender(rows) else (),
    )
    decision = routing.decide(rows, facts, lambda each: groups.get(db, each) is not None)
    fit = (each for each in decision.chosen if not each.observe and folder in ("", each.folder))
    return next(fit, None)


def _queue(
    db: Db, entry: InboxEntry, message: Message, seen: SeenRoom, chosen: RouteChoice, rights: str, now: int
) -> str:
    room_records.record_let_in(db, seen, RoomPolicy.REQUEST_APPROVAL, message.sender, now)
    topic = message.thread if chosen.topic is None else chosen.topic
    session = sessions.find_or_add(db, chosen.mode, chosen.folder, message.instance, message.address, topic, now)
    room_records.add_destination(db, chosen.folder, chosen.mode, seen, message.thread, now)
    inbox.release(db, entry.id, session.id, chosen.folder, rights, now)
    return session.id
