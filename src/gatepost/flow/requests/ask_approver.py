"""Asking people: a request becomes a row and a card in the direct room of the first who may decide and can be reached.
Nobody decides in time: the next one is asked. All in the transaction of the caller."""

from collections.abc import Callable, Iterator

from msgspec import Struct

from gatepost.access.approvers import RoleHolder, choose_next, choose_room, rank_approvers
from gatepost.access.senders import may_decide_about
from gatepost.core.clock import MINUTE, SECOND, to_microseconds
from gatepost.core.records import replace
from gatepost.core.settings import Config, setting
from gatepost.flow import sender_rights
from gatepost.flow.delivery.outgoing_messages import ChannelInstances
from gatepost.flow.groups import WEB_PERSON, WEB_ROOM
from gatepost.flow.requests.card_delivery import UNDELIVERED, show_card, show_decision, show_question
from gatepost.flow.requests.choices import get_size
from gatepost.store.messages import outbox
from gatepost.store.money import costs
from gatepost.store.people import identities, users
from gatepost.store.people.users import UserRole
from gatepost.store.port import Db
from gatepost.store.rights import acl, request_cards, requests, waiting_requests
from gatepost.store.rights.requests import NewRequest, Request, RequestKind
from gatepost.store.rooms import direct_rooms
from gatepost.store.rooms.direct_rooms import DirectRoom
from gatepost.store.sessions.sessions import Session

ESCALATE_S = setting("approvals.escalate_s", 900, help="How long one person has to decide before the next is asked.")
EXPIRE_S = setting("approvals.expire_s", 86400, help="A request that nobody decides for so long is denied.")
SETTLE_S = setting(
    "approvals.settle_s",
    3.0,
    help="How long a card must have been shown before a number or word without a reply allows what it asks.",
)
QUORUM = setting("approvals.quorum", 1, help="How many people must allow what an agent asks.")
SETTLES = 3 * SECOND  # a bare answer allows nothing that was shown later than so long before it
SHORTEST_PAUSE = MINUTE  # before it is looked again for somebody who can be asked
PLACES = frozenset({"web", "terminal"})  # where people sit at the gateway itself
LARGEST_AT_ONCE = 10_000  # characters, about, that the cards show which one transaction makes; one may show more
MOST_WAITING = 32  # requests of one session, at once
MOST_AN_HOUR = 100  # the same in an hour, whatever became of them
MOST_WAITING_IN_GROUP = 64  # requests of all sessions of one group, at once: a person has to read them


class CheaperModel(Struct, frozen=True):
    """A model that a conversation could go on with. `percent`: what it costs at most, of the price of the one that it
    takes the place of."""

    model: str
    replaces: str
    percent: int


FindCheaper = Callable[[Db, str, Session | None], CheaperModel | None]


class AskingRules(Struct, frozen=True):
    escalate: int  # microseconds
    expire: int
    quorum: int
    settles: int = SETTLES
    find_cheaper: FindCheaper | None = None  # None: a card about money offers money alone


def read_rules(config: Config) -> AskingRules:
    return AskingRules(
        escalate=to_microseconds(config[ESCALATE_S]),
        expire=to_microseconds(config[EXPIRE_S]),
        quorum=max(int(config[QUORUM]), 1),
        settles=to_microseconds(max(config[SETTLE_S], 0.0)),
    )


class AskedRequest(Struct, frozen=True):
    """`rooms`: to be woken once it is committed."""

    request: Request
    added: bool
    rooms: tuple[tuple[str, str], ...] = ()


def ask(db: Db, channels: ChannelInstances, rules: AskingRules, new: NewRequest, now: int) -> AskedRequest:
    """Store a request and show its card. Asked twice, it is one request with one card. An earlier request that it
    replaces is withdrawn."""
    rooms = [
        room for each in requests.withdraw_replaced(db, new, now) for room in show_decision(db, channels, each, now)
    ]
    end = min(new.expires_at or now + rules.expire, now + rules.expire)
    if new.kind is RequestKind.QUESTION:  # anybody in the room may answer, so nobody else is asked later
        request, added = requests.add(db, replace(new, quorum=1, expires_at=end, next_at=end), now)
        rooms += show_question(db, channels, request, now) if added else ()
        return AskedRequest(request, added, tuple(dict.fromkeys(rooms)))
    times = {"expires_at": end, "next_at": min(now + rules.escalate, end)}
    request, added = requests.add(db, replace(new, quorum=new.quorum or rules.quorum, **times), now)
    if added:
        rooms += ask_next(db, channels, rules, request, now)
    return AskedRequest(request, added, tuple(dict.fromkeys(rooms)))


class AskedPeople(Struct, frozen=True):
    """The people who were asked about a request, and the rooms in which its card was not delivered."""

    people: frozenset[str]
    failed: frozenset[tuple[str, str]]

    def can_try(self, room: DirectRoom) -> bool:
        return (room.instance, room.address) not in self.failed


def list_asked(db: Db, request: Request) -> AskedPeople:
    cards = request_cards.list_for_request(db, request.id)
    states = outbox.list_states(db, [card.message_id for card in cards]) if cards else {}
    failed = {each for each, state in states.items() if state.state in UNDELIVERED}
    return AskedPeople(
        frozenset(card.person for card in cards if card.open),
        frozenset((card.instance, card.address) for card in cards if card.message_id in failed),
    )


def ask_next(
    db: Db, channels: ChannelInstances, rules: AskingRules, request: Request, now: int
) -> tuple[tuple[str, str], ...]:
    """Show the request to as many as must agree, and to one more each time that nobody decided. Somebody who could not
    be reached in one room is asked in another; a room is tried once. The rooms to ring. Only a few long cards are made
    at once, and the next ones at the next look, which is due then: everybody else's writes go on between them."""
    rooms: list[tuple[str, str]] = []
    before = list_asked(db, request)
    asked = set(before.people)
    wanted, at_once = max(request.quorum - len(asked), 1), max(LARGEST_AT_ONCE // max(get_size(request), 1), 1)
    for _ in range(min(wanted, at_once)):
        found = find_next_approver(db, channels, request, asked, before)
        if found is None:
            break
        person, room = found
        show_card(db, channels, request, person, room, now)
        asked.add(person)
        rooms.append((room.instance, room.address))
    end = request.expires_at if request.expires_at is not None else now + rules.expire
    pause = rules.escalate if rooms else max(rules.escalate, SHORTEST_PAUSE)  # somebody may be reached by then
    pause = 0 if len(rooms) == at_once < wanted else pause
    waiting_requests.defer(db, request.id, min(now + pause, end))
    return tuple(rooms)


def show_to(
    db: Db, channels: ChannelInstances, request: Request, person: str, here: tuple[str, str], now: int
) -> tuple[str, str] | None:
    """Show a request to somebody who wants to decide it and has not seen it: where they speak if they are alone there,
    else in another direct room of theirs. The room to ring; None if it was shown or tried in all of them."""
    tried = {(card.instance, card.address) for card in request_cards.list_for_request(db, request.id)}
    rooms = [each for each in direct_rooms.list_for_people(db, (person,)) if (each.instance, each.address) not in tried]
    found = next((each for each in rooms if (each.instance, each.address) == here), choose_room(rooms, here[0]))
    if found is None:
        return None
    show_card(db, channels, request, person, found, now)
    return found.instance, found.address


def list_approvers(db: Db, folder: str) -> list[str]:
    """Everybody who may decide about a group, the nearest first. Whom the access list shuts out may not."""
    holders = [RoleHolder(*each) for each in users.list_role_holders(db)]
    if not acl.has_people_rows(db):
        return rank_approvers(holders, folder)
    ranked = rank_approvers([*holders, *_list_admins_by_row(db)], folder)
    return [each for each in ranked if may_decide_about(sender_rights.find_rights(db, each, folder), folder)]


def _list_admins_by_row(db: Db) -> Iterator[RoleHolder]:
    """Admins of a group and of those below it by a row of the access list, such as an invitation gives."""
    for row in acl.list_rows(db):
        below = row.scope.removesuffix("/**")
        person = identities.get_person(db, row.principal) if row.action == "admin" and below != row.scope else ""
        if person and users.get(db, person) is not None:
            yield RoleHolder(person, UserRole.ADMIN, below)


def can_reach_approver(
    db: Db, channels: ChannelInstances, folder: str, turn_id: str, instance: str, address: str
) -> bool:
    """Return True if somebody who may decide about a group can be shown a card."""
    ranked = list_approvers(db, folder)
    if direct_rooms.list_for_people(db, tuple(ranked)):
        return True
    asker = costs.find_asker(db, turn_id) if turn_id else ""
    person = identities.get_person(db, asker) if asker else ""
    return person in ranked and _find_room_of_asker(channels, instance, address, asker, person, 0) is not None


def find_next_approver(
    db: Db, channels: ChannelInstances, request: Request, asked: set[str], before: AskedPeople
) -> tuple[str, DirectRoom] | None:
    """Return the next person to ask, and the room. The person who gave the agent its work comes first if they may
    decide: they know what it is about. They are asked where they gave it, if that is a room of the gateway's own page
    or terminal."""
    asker = costs.find_asker(db, request.turn_id) if request.turn_id else ""
    first = identities.get_person(db, asker) if asker else ""
    ranked = sorted(list_approvers(db, request.folder), key=lambda each: each != first)
    own = _find_room_of_asker(channels, request.instance, request.address, asker, first, request.asked_at)
    known = [*((own,) if own is not None else ()), *direct_rooms.list_for_people(db, tuple(ranked))]
    rooms = [each for each in known if before.can_try(each)]
    served = [each for each in rooms if channels.is_known(each.instance)]  # a channel that is gone delivers nothing
    return choose_next(ranked, asked, served, request.instance) or choose_next(ranked, asked, rooms, request.instance)


def _find_room_of_asker(
    channels: ChannelInstances, instance: str, address: str, asker: str, person: str, now: int
) -> DirectRoom | None:
    """Return the room of a request as one of who gave the agent its work; None where the gateway is not the platform,
    or the room is another person's own."""
    if address == "" or channels.get_kind(instance).name not in PLACES:
        return None
    of_somebody = address.startswith(WEB_ROOM)
    if not asker or (of_somebody and address != WEB_ROOM + asker.removeprefix(WEB_PERSON)):
        return None
    return DirectRoom(person, instance, address, now)
