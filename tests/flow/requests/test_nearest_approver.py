"""Who is asked first: the nearest who may decide, on the platform that the request came from."""

from collections.abc import Mapping

import pytest

from gatepost.channels.contract import ChannelKind
from gatepost.core.clock import MINUTE, SECOND
from gatepost.flow.delivery.outgoing_messages import ChannelInstances
from gatepost.flow.requests.ask_approver import AskingRules, ask
from gatepost.flow.requests.request_loop import move_due
from gatepost.messages.inbound import Direction, MessageKind
from gatepost.store.messages import inbox, messages
from gatepost.store.messages.messages import NewMessage
from gatepost.store.people import identities, users
from gatepost.store.people.users import UserRole
from gatepost.store.port import Db
from gatepost.store.rights import request_cards
from gatepost.store.rights.requests import NewRequest, Request, RequestKind
from gatepost.store.rooms import direct_rooms
from gatepost.store.sessions import groups, sessions
from gatepost.store.sessions.sessions import SessionMode

NOON = 1_800_000_000_000_000
RULES = AskingRules(escalate=MINUTE, expire=60 * MINUTE, quorum=1)
NEAR, ABOVE, EVERYWHERE, OWNER = "fake:user/near", "fake:user/above", "fake:user/everywhere", "fake:user/owner"
HOLDERS = {
    OWNER: (UserRole.OWNER, ""),
    EVERYWHERE: (UserRole.ADMIN, ""),
    ABOVE: (UserRole.ADMIN, "acme"),
    NEAR: (UserRole.ADMIN, "acme/eng"),
}


def make_channels() -> ChannelInstances:
    def make(name: str) -> ChannelKind:
        return ChannelKind(name=name, make=lambda deps: pytest.fail("not made"), features=frozenset())

    kinds: Mapping[str, ChannelKind] = {name: make(name) for name in ("fake", "web", "terminal")}
    return ChannelInstances(kinds)


def request_skill(db: Db, reached: tuple[str, ...]) -> Request:
    """An agent of acme/eng asks in a room of `fake`. Everybody who can be reached was last seen on `web`."""
    groups.add(db, "acme", "Acme", "", NOON)
    groups.add(db, "acme/eng", "Engineers", "", NOON)
    for person, (role, folder) in HOLDERS.items():
        users.add(db, person, person, NOON)
        users.add_role(db, person, role, folder, "test", NOON)
    for person in reached:
        direct_rooms.add(db, person, "fake", f"{person}/direct", NOON)
        direct_rooms.add(db, person, "web", f"web:{person}", NOON + 1)
    session = sessions.find_or_add(db, SessionMode.PER_THREAD, "acme/eng", "fake", "fake:room/1", "", NOON)
    new = NewRequest(
        kind=RequestKind.CALL,
        name="t/call/1",
        folder="acme/eng",
        session_id=session.id,
        turn_id="t",
        tool="write_skill",
        input={"name": "greet"},
        digest="d",
        about="write_skill",
        instance="fake",
        rights="member",
    )
    return ask(db, make_channels(), RULES, new, NOON).request


def list_asked(db: Db, request: Request) -> list[tuple[str, str]]:
    return [(card.person, card.instance) for card in request_cards.list_for_request(db, request.id)]


@pytest.mark.parametrize("away", range(len(HOLDERS)))
def test_nanoclaw_41_the_nearest_who_can_be_reached_is_asked_on_the_platform_of_the_request(db: Db, away: int) -> None:
    order = (NEAR, ABOVE, EVERYWHERE, OWNER)[away:]
    request = request_skill(db, order)
    assert list_asked(db, request) == [(order[0], "fake")]
    for minute in range(1, len(order)):
        move_due(db, RULES, make_channels(), NOON + minute * MINUTE + SECOND * minute)
    assert list_asked(db, request) == [(person, "fake") for person in order]


def ask_for(db: Db, person: str, instance: str, address: str) -> list[tuple[str, str, str]]:
    """Somebody writes to acme/eng, whose agent makes a held call. Who was asked then, and where."""
    groups.add(db, "acme", "Acme", "", NOON)
    groups.add(db, "acme/eng", "Engineers", "", NOON)
    users.add(db, OWNER, "Olga", NOON)
    users.add_role(db, OWNER, UserRole.OWNER, "", "test", NOON)
    identities.add(db, "web:user/olga", OWNER, "test", NOON)
    session = sessions.find_or_add(db, SessionMode.PER_THREAD, "acme/eng", instance, address, "", NOON)
    said = NewMessage(
        instance=instance,
        address=address,
        direction=Direction.IN,
        kind=MessageKind.CHAT,
        platform_id="m",
        sender=person,
        text="go",
        at=NOON,
    )
    message_id = messages.accept(db, said, NOON)
    assert message_id is not None
    row = inbox.enqueue(db, message_id, session.id, "acme/eng", "member", NOON)
    db.run(
        "INSERT INTO turns (id, session_id, folder, provider, instance, address, thread, rights, state, owner,"
        " next_at, lease_until, started_at) VALUES ('t', ?, 'acme/eng', '', ?, ?, '', 'owner', 'begun', 'gw', 0, 0, ?)",
        (session.id, instance, address, NOON),
    )
    db.run("UPDATE inbox SET turn_id = 't' WHERE id = ?", (row,))
    new = NewRequest(
        kind=RequestKind.CALL,
        name="t/call/1",
        folder="acme/eng",
        session_id=session.id,
        turn_id="t",
        tool="write_skill",
        input={"name": "greet"},
        digest="d",
        about="write_skill",
        instance=instance,
        address=address,
        rights="owner",
    )
    request = ask(db, make_channels(), RULES, new, NOON).request
    cards = request_cards.list_for_request(db, request.id)
    return [(card.person, card.instance, card.address) for card in cards]


@pytest.mark.parametrize("elsewhere", [False, True])
@pytest.mark.parametrize(
    ("person", "instance", "address"),
    [
        ("web:user/olga", "web", "web:acme"),
        ("web:user/olga", "web", "web:people/olga"),
        (OWNER, "terminal", "terminal:acme"),
    ],
)
def test_who_asks_at_the_page_or_terminal_and_may_decide_is_asked_right_there(
    db: Db, person: str, instance: str, address: str, elsewhere: bool
) -> None:
    """Also with the first words of a fresh home, when no direct room of anybody is known."""
    if elsewhere:
        direct_rooms.add(db, OWNER, instance, f"{instance}:other", NOON)
    asked = ask_for(db, person, instance, address)
    assert asked == [(OWNER, instance, address)]


@pytest.mark.parametrize(
    ("person", "instance", "address"),
    [
        ("web:user/olga", "web", "web:people/mia"),  # whose own room it is, and who would read it
        ("web:user/mia", "web", "web:acme"),  # who may not decide
        (OWNER, "fake", "fake:room/1"),  # where everybody reads
    ],
)
def test_a_card_is_shown_in_no_room_of_others(db: Db, person: str, instance: str, address: str) -> None:
    asked = ask_for(db, person, instance, address)
    assert asked == []
