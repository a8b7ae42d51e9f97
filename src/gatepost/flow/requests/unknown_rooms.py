"""Requests about chats without a route, if unknown rooms ask first. Messages to us there are held, and one card asks
which group shall answer. The answer becomes a route to that group or to nobody; both are visible and can be taken
back."""

import json
import re

from gatepost.access import senders
from gatepost.access.senders import Rights
from gatepost.access.tiers import ROOT_FOLDER
from gatepost.core.clock import HOUR
from gatepost.core.records import replace
from gatepost.flow import sender_rights
from gatepost.flow.delivery.outgoing_messages import ChannelInstances
from gatepost.flow.intake.room_records import SeenRoom
from gatepost.flow.requests.ask_approver import AskedRequest, AskingRules, ask
from gatepost.flow.requests.choices import GROUP, GROUPS, LONGEST_GROUP, MOST_GROUPS, AnswerChoice
from gatepost.flow.requests.held_messages import (
    ReleasedMessages,
    deliver_held,
    describe_room,
    read_room,
    refuse_held,
    sum_files,
)
from gatepost.flow.requests.unknown_senders import LONGEST_EXCERPT, give_way, has_place, was_refused
from gatepost.messages.inbound import Verb
from gatepost.messages.text import one_line
from gatepost.store.messages import inbox
from gatepost.store.messages.messages import NewMessage
from gatepost.store.people import identities, users
from gatepost.store.port import Db, LockKind
from gatepost.store.rights import requests, waiting_requests
from gatepost.store.rights.requests import AnswerLasts, NewRequest, Request, RequestKind, RequestState
from gatepost.store.rooms import routes
from gatepost.store.rooms.routes import DEFAULT_SEQ, Route
from gatepost.store.sessions import groups
from gatepost.store.sessions.groups import Group

NOBODYS = ""  # the folder of what no group has: a request about a room, and what is held for it
MOST_HELD = 20  # messages of one room
MOST_HELD_BYTES = 5 * 1024 * 1024  # of files that came with these
MOST_OF_SENDER = 3  # rooms about which people are asked at once, by what one sender said …
MOST_AN_HOUR = 20  # … and new ones in an hour, whatever became of them
WHICH_GROUP = "Say which group shall answer there: /approve {} FOLDER."
NO_GROUP = "There is no group {!r}, so nothing has changed."
_PLAIN = re.compile(r"[^\s\"*?\[\]|]+")  # stands for itself in a route's match


def hold(
    db: Db,
    channels: ChannelInstances,
    rules: AskingRules,
    message_id: int,
    new: NewMessage,
    room: SeenRoom,
    rights: Rights,
    now: int,
) -> AskedRequest | None:
    """Hold a message until somebody decides about its room. None: nobody is asked, and it is refused."""
    if not may_hold(db, room, now):
        return None
    last = requests.find_last(db, RequestKind.ROOM, NOBODYS, make_name(room))
    if last is not None and last.state is RequestState.PENDING:
        return _add_held(db, last, message_id, new, rights, now)
    about = _describe(db, new, room, now)
    if about is None:
        return None
    new_request = NewRequest(
        kind=RequestKind.ROOM,
        name=make_name(room),
        folder=NOBODYS,
        input=about,
        about=new.sender,
        instance=room.instance,
        address=room.address,
        thread=new.thread,
        rights=rights,
    )
    asked = ask(db, channels, replace(rules, quorum=1), new_request, now)  # a group is chosen by one person
    give_way(db, RequestKind.ROOM, NOBODYS, now)
    inbox.hold(db, message_id, NOBODYS, rights, asked.request.id, asked.request.expires_at or now, now)
    return asked


def may_hold(db: Db, room: SeenRoom, now: int) -> bool:
    """Return True if people are asked about a room, or can be, however many others they are asked about."""
    if not _PLAIN.fullmatch(room.address) or not _PLAIN.fullmatch(room.instance):
        return False
    return not was_refused(requests.find_last(db, RequestKind.ROOM, NOBODYS, make_name(room)), now)


def make_name(room: SeenRoom) -> str:
    return f"{room.instance} {room.address}"


def _add_held(
    db: Db, waiting: Request, message_id: int, new: NewMessage, rights: Rights, now: int
) -> AskedRequest | None:
    """A further message of a room about which somebody was asked."""
    held = inbox.list_held_for_request(db, NOBODYS, waiting.id)
    files = sum_files(json.loads(new.content))
    if len(held) >= MOST_HELD or (
        files and files + sum(sum_files(message.content) for _, message in held) > MOST_HELD_BYTES
    ):
        return None
    inbox.hold(db, message_id, NOBODYS, rights, waiting.id, waiting.expires_at or now, now)
    return AskedRequest(waiting, False)


def _describe(db: Db, new: NewMessage, room: SeenRoom, now: int) -> dict[str, object] | None:
    """Return what the card says. None: nobody is asked, because too much was, or there is no group to choose."""
    db.lock(LockKind.QUOTA, "requests", NOBODYS)
    waiting = waiting_requests.list_of_people(db, NOBODYS)
    own = sum(each.about == new.sender for each in waiting)
    if (
        not has_place(db, RequestKind.ROOM, NOBODYS, now)
        or own >= MOST_OF_SENDER
        or sum_files(json.loads(new.content)) > MOST_HELD_BYTES
    ):
        return None
    if requests.count_of_kind_since(db, RequestKind.ROOM, NOBODYS, now - HOUR) >= MOST_AN_HOUR:
        return None
    access = sender_rights.read_access(db, new.sender)
    open_to = [each for each in groups.list_all(db) if access.judge(each.folder) is not None]
    offered = rank_groups(open_to, routes.list_all(db), room)
    if not offered:
        return None
    about: dict[str, object] = {
        "room": room.address,
        **describe_room(room),
        "from": new.sender,
        "name": new.sender_name,
        "text": new.text[:LONGEST_EXCERPT],
        GROUPS: list(offered),
    }
    return {name: value for name, value in about.items() if value}


def rank_groups(known: list[Group], rows: list[Route], room: SeenRoom) -> tuple[str, ...]:
    """The groups that are offered, the likeliest first: those that have rooms of this channel, then those that have any
    room, then the highest in the tree. Never root, which hears owners alone."""
    platform = room.address.partition(":")[0]
    words = {f"channel={room.instance}", f"platform={platform}"}
    near = {row.folder for row in rows if words & {*row.match.split()} or f"chat_jid={platform}:" in row.match}
    routed = {row.folder for row in rows}
    fit = [each for each in known if each.folder != ROOT_FOLDER and len(each.folder) <= LONGEST_GROUP]
    fit.sort(
        key=lambda each: (each.folder not in near, each.folder not in routed, each.folder.count("/"), each.created_at)
    )
    return tuple(each.folder for each in fit[:MOST_GROUPS])


def find_fault(db: Db, request: Request, choice: AnswerChoice) -> str:
    """Why a room cannot be given to the group that was chosen; '' if it can, or it is about no room."""
    if request.kind is not RequestKind.ROOM or choice.state is not RequestState.ALLOWED:
        return ""
    if not choice.group:
        return WHICH_GROUP.format(request.id)
    return "" if groups.get(db, choice.group) is not None else NO_GROUP.format(choice.group[:LONGEST_GROUP])


def follow(db: Db, channels: ChannelInstances, request: Request, now: int) -> ReleasedMessages:
    """Do what was decided about a room."""
    held = inbox.list_held_for_request(db, NOBODYS, request.id)
    requests.settle(db, request.id, now)
    requests.record_notified(db, request.id, now)
    if request.state is not RequestState.ALLOWED:
        if request.state is RequestState.DENIED and request.lasts is AnswerLasts.ALWAYS:
            _add_route(db, request, "", "drop", None, now)
        return refuse_held(db, channels, held, f"room_{request.state}", now)
    folder, room = str(request.answer[GROUP]), read_room(request)
    _connect(db, request, room, folder, now)
    woken, shut_out = [], []
    for entry, message in held:
        rights = sender_rights.find_rights(db, message.sender, folder)
        if rights is None or (folder == ROOT_FOLDER and rights != "owner"):
            shut_out.append((entry, message))
        else:
            woken.append(deliver_held(db, channels, entry, message, room, folder, rights, now))
    refused = refuse_held(db, channels, shut_out, senders.SHUT_OUT.reason, now)
    return replace(refused, wake=tuple(dict.fromkeys(filter(None, (*woken, *refused.wake)))))


def _connect(db: Db, request: Request, room: SeenRoom, folder: str, now: int) -> None:
    """A direct chat is its person's, who becomes a member. In a room of several a mention is answered, the rest is
    context, and each further stranger is asked about."""
    if not room.direct:
        _add_route(db, request, f" verb={Verb.MENTION}", folder, folder, now)
        _add_route(db, request, "", f"{folder}#observe", folder, now)
        return
    _add_route(db, request, "", folder, folder, now)
    if folder == ROOT_FOLDER or sender_rights.find_rights(db, request.about, folder) != "guest":
        return
    person = identities.get_person(db, request.about)
    users.add(db, person, one_line(str(request.input.get("name", ""))), now)
    users.add_member(db, person, folder, request.answered_by, now)


def _add_route(db: Db, request: Request, verb: str, target: str, folder: str | None, now: int) -> None:
    """Behind all others: nothing led anywhere before, so whatever others say of this room stays as it is."""
    new = Route(
        seq=max([DEFAULT_SEQ, *(route.seq for route in routes.list_all(db))]),
        match=f"channel={request.instance} chat_jid={request.address}{verb}",
        target=target,
        folder=folder,
        created_by=request.answered_by,
        created_at=now,
    )
    routes.add(db, new)
