"""Visitors of chat links: their rooms lead to the link's group alone."""

import pytest

from gatepost.core.errors import Invalid
from gatepost.flow import links
from gatepost.flow.groups import add_defaults
from gatepost.flow.intake import routing
from gatepost.flow.links import IssuedLink, NewLink, StartedVisit
from gatepost.messages import address as addresses
from gatepost.store.port import Db
from gatepost.store.rights import tokens
from gatepost.store.rights.tokens import TokenKind
from gatepost.store.rooms import rooms, routes
from gatepost.store.rooms.rooms import RoomPolicy
from gatepost.store.sessions import groups

NOON = 1_700_000_000_000_000
MONTH = 31 * 86_400_000_000


def issue(db: Db, folder: str, suffix: str = "", **more: tuple[str, ...]) -> IssuedLink:
    add_defaults(db, NOON)
    groups.add(db, "acme", "Acme", "", NOON)
    groups.add(db, "acme/sales", "Sales", "", NOON)
    new = NewLink(kind=TokenKind.CHAT_LINK, folder=folder, label="", suffix=suffix, created_by="operator", **more)
    return links.issue_link(db, new, NOON)


def visit(db: Db, link: IssuedLink, now: int = NOON) -> StartedVisit:
    made = links.start_visit(db, "web", link.secret, now)
    assert made is not None
    return made


def list_reached(db: Db, address: str) -> list[str]:
    facts = routing.make_match_input("web", addresses.parse(address), sender="web:visitor/v-1")
    return [each.folder for each in routing.decide(routes.list_all(db), facts).chosen]


def test_a_visitors_room_leads_to_the_links_group_and_lets_strangers_in(db: Db) -> None:
    made = visit(db, issue(db, "acme"))
    assert list_reached(db, made.visitor.address) == ["acme"]
    room = rooms.get(db, "web", made.visitor.address)
    assert room is not None and room.policy is RoomPolicy.PUBLIC and room.direct


def test_two_links_whose_addresses_are_written_alike_lead_to_their_own_groups(db: Db) -> None:
    above, below = issue(db, "acme", "sales"), issue(db, "acme/sales")
    assert above.token.address == below.token.address
    assert list_reached(db, visit(db, above).visitor.address) == ["acme"]
    assert list_reached(db, visit(db, below).visitor.address) == ["acme/sales"]


def test_a_room_whose_link_is_gone_leads_to_nobody(db: Db) -> None:
    link, other = issue(db, "acme"), issue(db, "acme/sales")
    gone = visit(db, link).visitor.address
    tokens.revoke(db, link.token.id, NOON)
    issue(db, "acme")  # what is over for a month is removed then
    later = NewLink(kind=TokenKind.CHAT_LINK, folder="acme", label="", suffix="", created_by="operator")
    links.issue_link(db, later, NOON + MONTH)
    assert tokens.get(db, link.token.id) is None
    visit(db, other, NOON + MONTH)
    assert list_reached(db, gone) == []
    assert len(routes.list_all(db)) == 3  # the default, the other link's, and the one that drops the rest


def test_visitors_of_one_link_share_its_routes_and_no_room(db: Db) -> None:
    link = issue(db, "acme")
    first, second = visit(db, link), visit(db, link)
    assert first.visitor.address != second.visitor.address and first.secret != second.secret
    assert len([each for each in routes.list_all(db) if each.created_by == links.MADE_BY]) == 2


def test_an_invalid_link_lets_nobody_in(db: Db) -> None:
    link = issue(db, "acme")
    tokens.revoke(db, link.token.id, NOON)
    assert links.start_visit(db, "web", link.secret, NOON) is None
    assert links.start_visit(db, "web", "unknown", NOON) is None
    assert links.find_link(db, link.secret, NOON) is None


@pytest.mark.parametrize(
    "origin",
    ["*", "https://*", "https://shop.example/", "https://shop.example; script-src *", "javascript:alert(1)",
     "'self'", "https://a b", "https://SHOP.example", "null", "https://-x", "https://x:", "http://[::1]"],
)  # fmt: skip
def test_what_is_no_origin_gets_into_no_link(db: Db, origin: str) -> None:
    with pytest.raises(Invalid, match="not a page's origin"):
        issue(db, "acme", origins=(origin,))


def test_origins_are_for_chat_links_and_few(db: Db) -> None:
    assert issue(db, "acme", origins=("https://a.example", "http://localhost:9000")).token.origins == (
        "https://a.example http://localhost:9000"
    )
    with pytest.raises(Invalid, match="at most 10"):
        issue(db, "acme", origins=tuple(f"https://s{number}.example" for number in range(11)))
    hook = NewLink(
        kind=TokenKind.WEBHOOK, folder="acme", label="x", suffix="", created_by="o", origins=("https://a.b",)
    )
    with pytest.raises(Invalid, match="only a chat link"):
        links.issue_link(db, hook, NOON)
