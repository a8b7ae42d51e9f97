"""Newcomers: a stranger's first message is answered with how to come in. `/join` asks for a group of their own, which
an entrance gives within its limits. A stranger beyond them waits in a queue, for another day or for somebody's word.

All of it in the transaction of the message. The groups are made by `flow/people/newcomer_groups.py`.
"""

from collections.abc import Iterable

from msgspec import Struct

from gatepost.access.approvers import choose_next
from gatepost.core.clock import DAY, Period, start_of_period
from gatepost.core.records import replace
from gatepost.flow import sender_rights
from gatepost.flow.delivery.outgoing_messages import OutgoingMessage, add_outgoing_message
from gatepost.flow.intake.accepted_message import Arrival, IntakeResult, MessageContext
from gatepost.flow.intake.patterns import compile_glob
from gatepost.flow.requests.ask_approver import list_approvers
from gatepost.messages.inbound import MessageKind, is_person
from gatepost.messages.text import one_line
from gatepost.store.messages.inbox import InboxState
from gatepost.store.messages.outbox import EffectOrigin
from gatepost.store.people import newcomers
from gatepost.store.people.newcomers import Entrance, Newcomer, NewcomerState, NewNewcomer
from gatepost.store.port import Db, LockKind
from gatepost.store.rooms import direct_rooms
from gatepost.store.sessions import groups

MOST_QUEUED = 100  # newcomers of one entrance
MOST_BELOW = 1000  # groups of newcomers below one group
MOST_AT_ONCE = 50  # newcomers that one transaction lets in
LONGEST_NAME = 100
GREETED = frozenset({"unknown_sender_strict", "no_route"})  # why strangers are refused who may be greeted
_SIGNS = frozenset('*?[]|"')  # have a meaning in the match of a route

GREETING = (
    "I do not know you yet. Write /join to get an agent of your own, or send the code of an invitation if you have one."
)
KNOWN_ELSEWHERE = (
    "No agent is set up for this direct chat. Write to {} where you know it, or write /join to get an agent of your"
    " own."
)
NO_CODE = "Write /join and the code of your invitation."
ADMITTED = "Welcome! Your agent is being set up. You are told here when it is ready."
QUEUED = "You are on the list. You are told here when it is your turn."
FULL = "Nobody else can be put on the list at the moment. Try again another day."
WAITS = (
    "Newcomers wait for a group of their own below {}. `gatepost onboarding list` shows them, and"
    " `gatepost onboarding allow` lets one in."
)
KNOWN = {
    NewcomerState.QUEUED: "You are on the list already. You are told here when it is your turn.",
    NewcomerState.ADMITTED: "Your agent is being set up. You are told here when it is ready.",
    NewcomerState.SETTLED: "You have an agent of your own already.",
    NewcomerState.DENIED: "",  # nothing more is said to somebody who was told no
    NewcomerState.FAILED: "Your agent could not be set up. Whoever runs this gateway can see why.",
}


class Applicant(Struct, frozen=True, kw_only=True):
    """A person who wants to come in, and from where."""

    sender: str
    name: str
    instance: str
    address: str
    direct: bool

    @property
    def can_have_group(self) -> bool:
        """Return True if neither room nor sender reads as a pattern: a newcomer's group is reached by a route for these
        two."""
        return self.direct and not _SIGNS & {*self.sender, *self.address}


class JoinResult(Struct, frozen=True):
    """`said`: for the sender, '' for nothing. `reason`: for the ledger. `joined`: a group is to be made."""

    accepted: bool
    reason: str
    said: str = ""
    joined: bool = False
    waits_for: str = ""  # the group whose admins may let them in


def make_applicant(arrival: Arrival) -> Applicant:
    inbound = arrival.inbound
    return Applicant(
        sender=inbound.sender,
        name=one_line(inbound.sender_name)[:LONGEST_NAME],
        instance=arrival.instance,
        address=inbound.address,
        direct=inbound.direct,
    )


def greet(context: MessageContext, result: IntakeResult) -> IntakeResult:
    """Say to a stranger who is refused how to come in, once a day. Without an entrance it costs nothing."""
    inbound, receipt = context.arrival.inbound, result.receipt
    refused = result.stranger and receipt.state == InboxState.REFUSED and receipt.reason in GREETED
    spoken = inbound.kind is MessageKind.CHAT and inbound.event == "message" and is_person(inbound.sender)
    if not refused or not spoken:
        return result
    if not inbound.direct or context.arrival.stale or context.arrival.fault:
        return result
    who = make_applicant(context.arrival)
    entrance = find_entrance(context.rules.read(context.db, newcomers.list_entrances), who)
    if entrance is None or newcomers.find(context.db, who.sender, entrance.folder) is not None:
        return result
    said = _render_greeting(context, who.sender)
    context.add_notice(said, key=f"notice:greeting:{who.instance}:{who.sender}:{context.now // DAY}")
    return replace(result, notified=True)


def _render_greeting(context: MessageContext, sender: str) -> str:
    """Return how to come in. Somebody who belongs to an agent elsewhere is no stranger."""
    roles = context.rules.read(context.db, sender_rights.read_access, sender).roles
    if not roles.roles and not roles.member_of:
        return GREETING
    folder = min(roles.member_of, default="")
    group = groups.get(context.db, folder) if folder else None
    return KNOWN_ELSEWHERE.format(group.name or folder if group is not None else "the agent")


def find_entrance(entrances: Iterable[Entrance], who: Applicant) -> Entrance | None:
    """Return the first entrance that is open to the stranger."""
    open_here = (each for each in entrances if each.instance == who.instance and who.can_have_group)
    return next((each for each in open_here if compile_glob(each.senders)(who.sender)), None)


def ask(db: Db, entrances: Iterable[Entrance], who: Applicant, now: int) -> JoinResult:
    """Ask for a group of one's own, without an invitation."""
    entrance = find_entrance(entrances, who)
    if entrance is None or sender_rights.find_rights(db, who.sender, entrance.folder) is None:
        return JoinResult(False, "join_without_code", NO_CODE)
    db.lock(LockKind.QUOTA, "newcomers", entrance.folder)
    if (known := newcomers.find(db, who.sender, entrance.folder)) is not None:
        return JoinResult(False, f"join_{known.state}", KNOWN[known.state])
    queued = newcomers.count_queued(db, entrance.id)
    if not queued and _has_room(db, entrance, now):
        add(db, who, entrance.folder, NewcomerState.ADMITTED, now, entrance_id=entrance.id)
        return JoinResult(True, "joined", ADMITTED, joined=True)
    if queued >= MOST_QUEUED:
        return JoinResult(False, "join_queue_full", FULL)
    add(db, who, entrance.folder, NewcomerState.QUEUED, now, entrance_id=entrance.id)
    return JoinResult(True, "join_queued", QUEUED, waits_for=entrance.folder)


def notify_approver(context: MessageContext, folder: str) -> tuple[tuple[str, str], ...]:
    """Say to the first who may let people in, and can be reached, that somebody waits: once a day. Rooms to ring."""
    ranked = list_approvers(context.db, folder)
    rooms = direct_rooms.list_for_people(context.db, tuple(ranked))
    found = choose_next(ranked, (), rooms, context.arrival.instance)
    if found is None:
        return ()
    room = found[1]
    notice = OutgoingMessage(
        key=f"notice:newcomers:{folder}:{context.now // DAY}",
        origin=EffectOrigin.NOTICE,
        instance=room.instance,
        address=room.address,
        text=WAITS.format(folder),
    )
    add_outgoing_message(context.db, context.channels, notice, context.now)
    return ((room.instance, room.address),)


def add(
    db: Db,
    who: Applicant,
    parent: str,
    state: NewcomerState,
    now: int,
    *,
    entrance_id: int | None = None,
    invited_by: str = "",
    by: str = "",
) -> Newcomer | None:
    new = NewNewcomer(
        sender=who.sender,
        name=who.name,
        instance=who.instance,
        address=who.address,
        parent=parent,
        state=state,
        entrance_id=entrance_id,
        invited_by=invited_by,
        admitted_at=now if state is NewcomerState.ADMITTED else None,
        decided_by=by,
    )
    return newcomers.add(db, new, now)


def _has_room(db: Db, entrance: Entrance, now: int) -> bool:
    today = newcomers.count_admitted(db, entrance.id, start_of_period(Period.DAY, now))
    return today < entrance.per_day and newcomers.count_below(db, entrance.folder) < MOST_BELOW


def admit_queued(db: Db, now: int) -> int:
    """Let in whose turn it is, the first first. How many."""
    db.lock(LockKind.QUOTA, "newcomers")  # several gateways may look at once
    admitted = 0
    for entrance in newcomers.list_entrances(db):
        for each in newcomers.list_queued(db, entrance.id, MOST_AT_ONCE):
            if not _has_room(db, entrance, now):
                break
            newcomers.admit(db, each.id, "", now)
            admitted += 1
    return admitted
