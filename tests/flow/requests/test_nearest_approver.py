"""Who is asked first: the nearest who may decide, on the platform that the request came from."""

from collections.abc import Mapping

import pytest

from gatepost.channels.contract import ChannelKind
from gatepost.core.clock import MINUTE, SECOND
from gatepost.flow.delivery.outgoing_messages import ChannelInstances
from gatepost.flow.requests.asking import AskingRules, ask
from gatepost.flow.requests.request_loop import move_due
from gatepost.store import direct_rooms, groups, request_cards, sessions, users
from gatepost.store.port import Db
from gatepost.store.requests import NewRequest, Request, RequestKind
from gatepost.store.sessions import SessionMode
from gatepost.store.users import UserRole

NOON = 1_800_000_000_000_000
RULES = AskingRules(escalate=MINUTE, expire=60 * MINUTE, quorum=1)
NEAR, ABOVE, EVERYWHERE, OWNER = "fake:user/near", "fake:user/above", "fake:user/everywhere", "fake:user/owner"
HOLDERS = {
    OWNER: (UserRole.OWNER, ""),
    EVERYWHERE: (UserRole.ADMIN, ""),
    ABOVE: (UserRole.ADMIN, "acme"),
    NEAR: (UserRole.ADMIN, "acme/eng"),
}


def make_reach() -> ChannelInstances:
    def make(name: str) -> ChannelKind:
        return ChannelKind(name=name, make=lambda around: pytest.fail("not made"), features=frozenset())

    kinds: Mapping[str, ChannelKind] = {name: make(name) for name in ("fake", "web")}
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
    return ask(db, make_reach(), RULES, new, NOON).request


def list_asked(db: Db, request: Request) -> list[tuple[str, str]]:
    return [(card.person, card.instance) for card in request_cards.list_for_request(db, request.id)]


@pytest.mark.parametrize("away", range(len(HOLDERS)))
def test_nanoclaw_41_the_nearest_who_can_be_reached_is_asked_on_the_platform_of_the_request(db: Db, away: int) -> None:
    order = (NEAR, ABOVE, EVERYWHERE, OWNER)[away:]
    request = request_skill(db, order)
    assert list_asked(db, request) == [(order[0], "fake")]
    for minute in range(1, len(order)):
        move_due(db, RULES, make_reach(), NOON + minute * MINUTE + SECOND * minute)
    assert list_asked(db, request) == [(person, "fake") for person in order]
