"""Requests about unknown senders in a room that asks before it lets people in. Their messages are held, and one card
asks about them. The answer delivers or refuses all of them, once, in order."""

import json

from gatepost.access import senders
from gatepost.access.tiers import ROOT_FOLDER
from gatepost.core.clock import DAY, HOUR
from gatepost.flow import sender_rights
from gatepost.flow.delivery.outgoing_messages import ChannelInstances
from gatepost.flow.intake.room_records import SeenRoom
from gatepost.flow.requests.ask_approver import AskedRequest, AskingRules, ask
from gatepost.flow.requests.held_messages import (
    ReleasedMessages,
    deliver_held,
    describe_room,
    read_room,
    refuse_held,
    sum_files,
)
from gatepost.messages.text import one_line
from gatepost.store.messages import inbox
from gatepost.store.messages.inbox import InboxEntry
from gatepost.store.messages.messages import Message, NewMessage
from gatepost.store.people import identities, users
from gatepost.store.port import Db, LockKind
from gatepost.store.rights import acl, requests, waiting_requests
from gatepost.store.rights.acl import AclEffect, AclRow
from gatepost.store.rights.requests import AnswerLasts, NewRequest, Request, RequestKind, RequestState

LONGEST_EXCERPT = 500  # characters of what they wrote that a card shows
MOST_HELD = 50  # messages of one sender to one group
MOST_HELD_BYTES = 20 * 1024 * 1024  # of files that came with these
MOST_ASKED = 32  # senders to one group about whom people are asked at once …
MOST_A_DAY = 128  # … and new ones in a day, if others give way …
GIVES_WAY = HOUR  # … which waited for so long
CROWDED_OUT = "others wait who came later"
KNOWN_BY_NOW = "who wrote is let in by something else"
SHUT_OUT_BY_NOW = "who wrote is shut out by now"
PAUSE = DAY  # after a no, nobody is asked about the same person again


def hold(
    db: Db,
    channels: ChannelInstances,
    rules: AskingRules,
    message_id: int,
    new: NewMessage,
    folder: str,
    rights: str,
    now: int,
    room: SeenRoom | None = None,
) -> AskedRequest | None:
    """Hold a message until somebody decides about its sender. None: nobody is asked, and it is refused. `room`: what
    its channel tells of where it was said."""
    if not may_hold(db, folder, new.sender, now) or not _fits(db, new, folder):
        return None
    about = {
        "from": new.sender,
        "name": new.sender_name,
        "room": new.address,
        **describe_room(room or SeenRoom(new.instance, new.address)),
        "text": new.text[:LONGEST_EXCERPT],
    }
    request = NewRequest(
        kind=RequestKind.SENDER,
        name=new.sender,
        folder=folder,
        input={name: value for name, value in about.items() if value},
        instance=new.instance,
        address=new.address,
        thread=new.thread,
        rights=rights,
    )
    asked = ask(db, channels, rules, request, now)
    give_way(db, RequestKind.SENDER, folder, now)
    inbox.hold(db, message_id, folder, rights, asked.request.id, asked.request.expires_at or now, now)
    return asked


def may_hold(db: Db, folder: str, sender: str, now: int) -> bool:
    """Return True if people are asked about a sender, or can be, whatever the size of what they write."""
    if "*" in sender:  # a row of the access list that blocks it would be a pattern
        return False
    db.lock(LockKind.QUOTA, "requests", folder)
    last = requests.find_last(db, RequestKind.SENDER, folder, sender)
    if was_refused(last, now) or inbox.count_held(db, folder, sender) >= MOST_HELD:
        return False
    waits = last is not None and last.state is RequestState.PENDING
    return waits or has_place(db, RequestKind.SENDER, folder, now)


def has_place(db: Db, kind: RequestKind, folder: str, now: int) -> bool:
    """Return True if people can be asked about somebody or something new. Those who waited for an hour give way, so
    that a crowd of made-up names keeps nobody out for the day in which nobody may look."""
    waiting = waiting_requests.count_of_people(db, folder)
    if waiting < MOST_ASKED or requests.count_of_kind_since(db, kind, folder, now - DAY) >= MOST_A_DAY:
        return waiting < MOST_ASKED
    leaving = waiting_requests.list_oldest(db, kind, folder, now - GIVES_WAY, MOST_ASKED)
    return waiting - len(leaving) < MOST_ASKED


def give_way(db: Db, kind: RequestKind, folder: str, now: int) -> None:
    """Have the oldest looked at now that are too many: `is_crowded_out` withdraws them."""
    over = waiting_requests.count_of_people(db, folder) - MOST_ASKED
    for each in waiting_requests.list_oldest(db, kind, folder, now - GIVES_WAY, over) if over > 0 else ():
        waiting_requests.defer(db, each.id, now)


def is_crowded_out(db: Db, request: Request, now: int) -> bool:
    """Return True if a request that is due gives way to later ones. Their sender may be asked about again."""
    if request.kind not in (RequestKind.SENDER, RequestKind.ROOM) or request.asked_at > now - GIVES_WAY:
        return False
    over = waiting_requests.count_of_people(db, request.folder) - MOST_ASKED
    oldest = waiting_requests.list_oldest(db, request.kind, request.folder, now - GIVES_WAY, over) if over > 0 else ()
    return any(each.id == request.id for each in oldest)


def _fits(db: Db, new: NewMessage, folder: str) -> bool:
    """Return True if a message can be held besides those of its sender that are."""
    size = sum_files(json.loads(new.content))
    if not size:
        return True
    held = sum(sum_files(message.content) for _, message in inbox.list_held(db, folder, new.sender))
    return held + size <= MOST_HELD_BYTES


def was_refused(last: Request | None, now: int) -> bool:
    """Return True if somebody said no lately, or nobody said anything."""
    said_no = last is not None and last.state in (RequestState.DENIED, RequestState.EXPIRED)
    return last is not None and said_no and (last.answered_at or 0) > now - PAUSE


def follow(db: Db, channels: ChannelInstances, request: Request, now: int) -> ReleasedMessages:
    """Do what was decided about a sender."""
    held = inbox.list_held(db, request.folder, request.name)
    requests.settle(db, request.id, now)
    requests.record_notified(db, request.id, now)
    if request.state is not RequestState.ALLOWED:
        if request.lasts is AnswerLasts.ALWAYS:
            acl.put(db, _make_block(request), now)
        return refuse_held(db, channels, held, f"sender_{request.state}", now)
    if request.lasts is AnswerLasts.ALWAYS:
        person = identities.get_person(db, request.name)
        users.add(db, person, one_line(str(request.input.get("name", ""))), now)
        users.add_member(db, person, request.folder, request.answered_by, now)
    return _deliver(db, channels, request, held, now)


def is_unknown(db: Db, request: Request) -> bool:
    """Return True if its sender is still somebody whom nothing lets in and nothing shuts out."""
    return sender_rights.find_rights(db, request.name, request.folder) == "guest"


def hurry(db: Db, who: str, now: int) -> bool:
    """Have the requests about somebody looked at now whom something else let in or shut out: they need not wait until
    the next person would be asked. Return True if there are any."""
    names = {who, *identities.list_names(db, who)}
    concerned = [each for each in waiting_requests.list_names_of_people(db) if each[2] in names]
    found = [requests.find_last(db, *each) for each in sorted(concerned) if each[0] is RequestKind.SENDER]
    decided = [each for each in found if each is not None and not is_unknown(db, each)]
    for request in decided:
        waiting_requests.defer(db, request.id, now)
    return bool(decided)


def release_known(db: Db, channels: ChannelInstances, request: Request, now: int) -> tuple[Request, ReleasedMessages]:
    """Its sender was let in or shut out by something else: what is held goes by that. The request as it stands now."""
    held = inbox.list_held(db, request.folder, request.name)
    shut_out = sender_rights.find_rights(db, request.name, request.folder) is None
    (ended,) = requests.withdraw(db, request.id, SHUT_OUT_BY_NOW if shut_out else KNOWN_BY_NOW, now)
    return ended, _deliver(db, channels, ended, held, now)


def _deliver(
    db: Db, channels: ChannelInstances, request: Request, held: list[tuple[InboxEntry, Message]], now: int
) -> ReleasedMessages:
    """By the rights that their sender has now."""
    rights = sender_rights.find_rights(db, request.name, request.folder)
    if rights is None or (request.folder == ROOT_FOLDER and rights != "owner"):
        return refuse_held(db, channels, held, senders.SHUT_OUT.reason, now)
    room = read_room(request)
    woken = [deliver_held(db, channels, entry, message, room, request.folder, rights, now) for entry, message in held]
    return ReleasedMessages(wake=tuple(dict.fromkeys(filter(None, woken))))


def withdraw(db: Db, channels: ChannelInstances, request: Request, now: int) -> tuple[Request, ReleasedMessages]:
    """The group is gone: nobody is let in, and what is held is refused. The request as it stands now."""
    (ended,) = requests.withdraw(db, request.id, "its group is gone", now)
    return ended, follow(db, channels, ended, now)


def withdraw_for_group(db: Db, folder: str, now: int) -> None:
    """A later group of the same name is another one."""
    for request in waiting_requests.list_of_people(db, folder):
        withdraw(db, ChannelInstances({}), request, now)  # nobody speaks to it any more


def _make_block(request: Request) -> AclRow:
    """The gateway's own row, so that it counts whoever decided: the request and the audit log say who did."""
    return AclRow(
        id=0,
        principal=request.name,
        action="interact",
        scope=request.folder,
        effect=AclEffect.DENY,
    )
