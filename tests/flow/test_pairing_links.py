"""Pairing links on a store: for one identity, confirmed by whoever is signed in, once."""

import json

import pytest

from gatepost.channels.contract import ChannelKind
from gatepost.core.clock import HOUR, MINUTE
from gatepost.core.settings import Config
from gatepost.flow import pairing, sender_rights
from gatepost.flow.delivery.outgoing_messages import ChannelInstances
from gatepost.flow.groups import OWNER, add_defaults
from gatepost.flow.intake.accepted_message import IntakeResult
from gatepost.flow.intake.intake import IntakeLimits, make_arrival
from gatepost.flow.intake.message_acceptance import accept
from gatepost.flow.pairing import PairingResult, UnknownPairingLink
from gatepost.messages.inbound import Inbound
from gatepost.store.people import identities, pairing_codes, users
from gatepost.store.people.users import UserRole
from gatepost.store.port import Db
from gatepost.store.rights import acl, tokens
from gatepost.store.rights.acl import AclEffect, AclRow
from gatepost.store.rooms import direct_rooms

NOON = 1_800_000_000_000_000
ANN, HERS, CHAT, EVE = "fake:user/ann", "web:user/ann", "chat:user/7", "chat:user/eve"
ROOM, BASE = ("chat", "chat:direct/7"), "https://gate.example"


@pytest.fixture(autouse=True)
def people(db: Db) -> None:
    add_defaults(db, NOON)
    users.add(db, ANN, "Ann", NOON)
    identities.add(db, HERS, ANN, "test", NOON)


def ask(db: Db, sender: str = CHAT, now: int = NOON) -> str:
    """The token of the link that a chat identity gets."""
    result = pairing.answer_with_link(db, sender, BASE, ROOM, now)
    assert not result.paired and f"{BASE}/pair/" in result.secret, result
    return result.secret.partition("/pair/")[2].split()[0]


def confirm(db: Db, token: str, user: str, now: int) -> PairingResult:
    return pairing.confirm_link(db, token, user, now)[0]


def test_a_link_binds_its_identity_to_whoever_confirms_it(db: Db) -> None:
    token = ask(db)
    assert token not in str(db.rows("SELECT * FROM tokens"))
    result = confirm(db, token, HERS, NOON)
    assert result.paired and "Ann" in result.said
    assert {*identities.list_names(db, CHAT)} == {ANN, HERS, CHAT}
    assert [room.address for room in direct_rooms.list_for_people(db, (ANN,))] == ["chat:direct/7"]
    rows = db.rows("SELECT actor, verdict FROM audit WHERE action = 'user.pair'")
    assert rows == [(HERS, "done")]
    with pytest.raises(UnknownPairingLink):
        confirm(db, token, "web:user/owner", NOON)


def test_to_read_a_link_changes_nothing(db: Db) -> None:
    token = ask(db)
    before = db.rows("SELECT * FROM tokens"), db.rows("SELECT * FROM identities")
    for _ in range(3):
        offer = pairing.read_link(db, token, HERS, NOON)
    assert (offer.identity, offer.person, offer.person_name, offer.obstacle) == (CHAT, ANN, "Ann", "")
    assert before == (db.rows("SELECT * FROM tokens"), db.rows("SELECT * FROM identities"))


def test_a_late_link_is_not_known(db: Db) -> None:
    token = ask(db)
    assert pairing.read_link(db, token, HERS, NOON + 10 * MINUTE - 1)
    for read in (pairing.read_link, confirm):
        with pytest.raises(UnknownPairingLink):
            read(db, token, HERS, NOON + 10 * MINUTE)


def test_a_second_link_takes_the_place_of_the_first(db: Db) -> None:
    first, second = ask(db), ask(db)
    with pytest.raises(UnknownPairingLink):
        confirm(db, first, HERS, NOON)
    assert confirm(db, second, HERS, NOON).paired


def test_what_cannot_be_bound_is_said_before_and_refused_after(db: Db) -> None:
    users.add(db, CHAT, "Boss", NOON)
    users.add_role(db, CHAT, UserRole.OWNER, "", "test", NOON)
    token = ask(db)
    assert pairing.read_link(db, token, HERS, NOON).obstacle == pairing.ROLES
    assert not confirm(db, token, HERS, NOON).paired
    assert identities.get_person(db, CHAT) == CHAT and users.get_roles(db, ANN).roles == ()
    token = ask(db)
    assert confirm(db, token, "web:user/owner", NOON).paired
    assert users.list_owners(db) == [OWNER]


def test_an_identity_that_was_paired_meanwhile_stays_where_it_is(db: Db) -> None:
    token = ask(db)
    users.add(db, "fake:user/bob", "Bob", NOON)
    identities.add(db, CHAT, "fake:user/bob", "test", NOON)
    assert pairing.read_link(db, token, HERS, NOON).obstacle == pairing.TAKEN
    assert not confirm(db, token, HERS, NOON).paired
    assert identities.get_person(db, CHAT) == "fake:user/bob"


def test_who_is_paired_already_gets_no_link(db: Db) -> None:
    identities.add(db, CHAT, ANN, "test", NOON)
    result = pairing.answer_with_link(db, CHAT, BASE, ROOM, NOON)
    assert result.reason == "paired_before" and "/pair/" not in result.said + result.secret


def test_a_guesser_gets_no_link_and_too_many_links_are_refused(db: Db, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(5):
        pairing_codes.add_guess(db, EVE, NOON)
    assert pairing.answer_with_link(db, EVE, BASE, ROOM, NOON).said == ""
    monkeypatch.setattr(tokens, "MOST_LINKS", 1)
    ask(db)
    assert pairing.answer_with_link(db, "chat:user/8", BASE, ROOM, NOON).said == pairing.TOO_MANY_LINKS
    ask(db, "chat:user/8", NOON + HOUR)


@pytest.mark.parametrize(
    ("given", "listens", "base"),
    [
        ({}, "", "http://127.0.0.1:8420"),
        ({"listen": "127.0.0.1:0"}, "", ""),
        ({"listen": "127.0.0.1:0"}, "127.0.0.1:4711", "http://127.0.0.1:4711"),
        ({"listen": "unix:/run/gatepost.sock"}, "", ""),
        ({"listen": "0.0.0.0:8420"}, "", ""),
        ({"listen": "unix:/run/gatepost.sock", "web.url": "https://gate.example/"}, "", "https://gate.example"),
    ],
)
def test_a_link_begins_where_a_browser_finds_the_page(given: dict[str, str], listens: str, base: str) -> None:
    assert pairing.get_page_url(Config(given), listens) == base


def test_the_room_where_a_link_was_asked_for_is_told_that_it_was_confirmed(db: Db) -> None:
    token = ask(db)
    result, link = pairing.confirm_link(db, token, HERS, NOON, ChannelInstances({}))
    rows = db.rows("SELECT instance, address, payload FROM outbox")
    assert (link.instance, link.address) == ROOM
    assert [(row[0], row[1], json.loads(row[2])["text"]) for row in rows] == [(*ROOM, result.said)]


def say_pair(db: Db, kind: ChannelKind) -> IntakeResult:
    given = Inbound(address="fake:direct/7", platform_id="1", sender="fake:user/7", text="/pair", direct=True)
    arrival = make_arrival("fake", given, IntakeLimits(), NOON, 0, page=lambda: BASE)
    return accept(db, ChannelInstances({"fake": kind}), arrival, NOON)


def test_the_ledger_has_no_link_and_whoever_asked_gets_it(db: Db) -> None:
    kind = ChannelKind(name="fake", make=lambda deps: pytest.fail("not made"), features=frozenset())
    assert say_pair(db, kind).receipt.reason == "pairing_link"
    assert "/pair/" not in str(db.rows("SELECT text, content FROM messages WHERE direction = 'out'"))
    ((payload,),) = db.rows("SELECT payload FROM outbox")
    assert f"{BASE}/pair/" in json.loads(payload)["text"]


def test_where_the_ledger_is_what_people_see_no_link_is_given(db: Db) -> None:
    kind = ChannelKind(name="fake", make=lambda deps: pytest.fail("not made"), features=frozenset(), always=True)
    assert say_pair(db, kind).receipt.reason == "pairing_without_code"
    assert db.rows("SELECT * FROM tokens") == []


def give(db: Db, principal: str, action: str = "admin", scope: str = "acme") -> None:
    acl.put(
        db,
        AclRow(id=0, principal=principal, action=action, scope=scope, effect=AclEffect.ALLOW, granted_by=acl.OPERATOR),
        NOON,
    )


@pytest.mark.parametrize(
    ("principal", "action"),
    [(CHAT, "admin"), ("role:ops", "admin"), (CHAT, "*"), ("chat:**", "admin"), (CHAT, "mcp:send"), (CHAT, "op:*")],
)
def test_pairing_brings_no_right_of_the_access_list_that_the_person_has_not(
    db: Db, principal: str, action: str
) -> None:
    give(db, principal, action)
    acl.add_member(db, CHAT, "role:ops", "test", NOON)
    token = ask(db)
    assert pairing.read_link(db, token, HERS, NOON).obstacle == pairing.ROLES
    assert confirm(db, token, HERS, NOON).reason == "pairing_roles"
    assert sender_rights.find_rights(db, HERS, "acme") == "guest"


def test_everything_is_not_enough_for_operations(db: Db) -> None:
    give(db, HERS, "*", "**")
    give(db, CHAT, "op:*")
    assert confirm(db, ask(db), HERS, NOON).reason == "pairing_roles"


def test_what_the_person_has_herself_is_no_obstacle(db: Db) -> None:
    give(db, "chat:**", "interact")
    give(db, "chat:**", "mcp:send")
    give(db, CHAT)
    give(db, HERS, "admin", "acme/**")
    assert confirm(db, ask(db), HERS, NOON).paired
    give(db, EVE)
    users.add(db, "fake:user/bea", "Bea", NOON)
    users.add_role(db, "fake:user/bea", UserRole.ADMIN, "acme", "test", NOON)
    assert confirm(db, ask(db, EVE), "fake:user/bea", NOON).paired
    give(db, "chat:user/8", "*", "**")
    assert confirm(db, ask(db, "chat:user/8"), "web:user/owner", NOON).paired
