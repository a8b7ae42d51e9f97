"""The rooms and conversations that a visitor of the page sees."""

import re

from msgspec import Struct

from gatepost.channels.local_channel import LocalChannel
from gatepost.core.errors import Invalid
from gatepost.flow.groups import WEB_PERSON, WEB_ROOM
from gatepost.flow.intake import slash_commands
from gatepost.flow.intake.routing import MADE_BY
from gatepost.flow.links import is_link_room
from gatepost.messages.address import parse
from gatepost.messages.inbound import Direction
from gatepost.serve import room_events
from gatepost.serve.web.signin.visitors import WebVisitor
from gatepost.store.messages import messages
from gatepost.store.messages.messages import Message
from gatepost.store.people import identities, users
from gatepost.store.port import Db
from gatepost.store.rooms import rooms, routes, threads
from gatepost.store.sessions import sessions

_PLAIN_ROOM = re.compile(r"(?:chat_jid=web:|room=)([A-Za-z0-9._/-]+)\Z")


class ThreadEntry(Struct, frozen=True):
    """A conversation in the list. `last`: the id of what was said to people there last, 0 if we do not know. `mark`: of
    the person who looks, pinned or archived; '' for neither."""

    id: str
    title: str
    last: int
    mark: str = ""


class RoomThreads(Struct, frozen=True):
    """A room with the threads in which somebody has talked. `last`: as of a thread, of what is said in none."""

    room: str
    name: str
    threads: list[ThreadEntry]
    last: int


def read_room(hub: LocalChannel, text: str, visitor: WebVisitor) -> str:
    """Return a room that a visitor names ('': their own), if it is one that they see."""
    address = parse(text or visitor.room or hub.main_room, "room")
    if address.platform != hub.platform or visitor.room not in ("", str(address)):
        raise Invalid("room", f"{text!r} is not a room of this page")
    return str(address)


def list_places(db: Db, hub: LocalChannel, only: str) -> dict[str, str]:
    """The name of each room, by its address. `only`: of this room; '': of all."""
    named = {room.address: room.name for room in rooms.list_all(db) if room.instance == hub.instance}
    every = (hub.main_room, *(each for each in named if not is_link_room(each)), *_list_routed_rooms(db, hub.platform))
    known = (only,) if only else every
    return {room: named.get(room) or _name_room(db, room) for room in known}


def _name_room(db: Db, room: str) -> str:
    """A person's own room has the person's name."""
    if not room.startswith(WEB_ROOM):
        return room.partition(":")[2]
    name = room.removeprefix(WEB_ROOM)
    user = users.get(db, identities.get_person(db, WEB_PERSON + name))
    return (user.name if user else "") or name


def read_start(db: Db, hub: LocalChannel, only: str, person: str) -> tuple[list[RoomThreads], int]:
    """`only`: of this room; '': of all. `person`: who looks."""
    found = list_places(db, hub, only)
    places = [RoomThreads(room, name, *list_threads(db, hub, room, person)) for room, name in found.items()]
    return places, room_events.get_start_cursor(db, hub, only or None)


def list_threads(db: Db, hub: LocalChannel, room: str, person: str) -> tuple[list[ThreadEntry], int]:
    """A room's conversations, the latest first, and the last that was said outside of them. Each is called by its name,
    its title or what was said first as far as we look back."""
    titles: dict[str, str] = {}
    last: dict[str, int] = {}
    for message in messages.list_latest_in_room(db, hub.instance, room, None, room_events.WINDOW):
        if message.direction == Direction.OUT:
            last[message.thread] = message.id
        if message.thread:
            title = titles.pop(message.thread, "")
            titles[message.thread] = title or _make_title(message)
    for thread, title in sessions.list_titles_in_room(db, hub.instance, room, room_events.WINDOW):
        titles[thread] = title or titles.get(thread, "")
    titles |= {thread: name for thread, name in threads.list_names(db, hub.instance, room).items() if thread in titles}
    marks = threads.list_marks(db, person, hub.instance, room)
    found = [
        ThreadEntry(thread, title, last.get(thread, 0), marks.get(thread, ""))
        for thread, title in reversed(titles.items())
    ]
    return found, last.get("", 0)


def _make_title(message: Message) -> str:
    """Return what a message could be the title of; the page does the same. A command says nothing about a
    conversation."""
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
