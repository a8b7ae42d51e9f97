"""Somebody whose message waits is let in by another way than the card: what waits goes first, and nothing is lost."""

import itertools
from typing import Any

import pytest

from gatepost.channels.contract import ChannelKind
from gatepost.core.clock import SECOND
from gatepost.core.records import replace
from gatepost.flow import invitations, pairing
from gatepost.flow.delivery.outgoing_messages import ChannelInstances
from gatepost.flow.groups import add_defaults
from gatepost.flow.intake.accepted_message import IntakeResult
from gatepost.flow.intake.intake import IntakeLimits, make_arrival
from gatepost.flow.intake.message_acceptance import accept
from gatepost.flow.invitations import NewInvitation
from gatepost.flow.requests.ask_approver import AskingRules
from gatepost.flow.requests.choices import ALLOW_ALWAYS, ALLOW_ONCE, BLOCK, DENY, SEND
from gatepost.flow.requests.decide import decide
from gatepost.flow.requests.request_loop import move_due
from gatepost.flow.requests.restored_rows import begin_incarnation
from gatepost.messages.inbound import Inbound, Verb
from gatepost.store.engine.rule_cache import RuleCache
from gatepost.store.gateways.incarnations import IncarnationReason
from gatepost.store.messages import inbox
from gatepost.store.people import users
from gatepost.store.people.users import UserRole
from gatepost.store.port import Db
from gatepost.store.rights import requests, waiting_requests
from gatepost.store.rights.requests import Request, RequestKind, RequestState
from gatepost.store.rooms import direct_rooms, engagements, rooms, routes
from gatepost.store.rooms.rooms import RoomPolicy
from gatepost.store.rooms.routes import Route
from gatepost.store.sessions import groups
from gatepost_testing.clock import NOON
from gatepost_testing.counting import CountingDb

ADA, EVE, MAL = "fake:user/ada", "fake:user/eve", "fake:user/mal"
ROOM = "fake:room/1"
RULES = AskingRules(escalate=60 * SECOND, expire=600 * SECOND, quorum=1)
KIND = ChannelKind(name="fake", make=lambda _: pytest.fail("not made"), features=frozenset())
CHANNELS = ChannelInstances({"fake": KIND})
_ids = itertools.count(1)


def add_route(db: Db) -> None:
    routes.add(db, Route(seq=0, match="platform=fake", target="acme", folder="acme", created_by="t", created_at=NOON))


@pytest.fixture
def unrouted(db: Db) -> Db:
    add_defaults(db, NOON)
    db.run("DELETE FROM routes")
    groups.add(db, "acme", "Acme", "scripted", NOON)
    users.add(db, ADA, "", NOON)
    users.add_role(db, ADA, UserRole.ADMIN, "acme", "test", NOON)
    direct_rooms.add(db, ADA, "fake", "fake:direct/ada", NOON)
    rooms.add(db, "fake", ROOM, ROOM, False, RoomPolicy.REQUEST_APPROVAL, NOON)
    return db


@pytest.fixture
def acme(unrouted: Db) -> Db:
    add_route(unrouted)
    return unrouted


def say(
    db: Db, text: str, sender: str, rules: RuleCache | None = None, channels: ChannelInstances = CHANNELS, **more: Any
) -> IntakeResult:
    told = {"address": ROOM, "sender": sender, "text": text, "verb": Verb.MENTION, **more}
    given = Inbound(platform_id=f"m{next(_ids)}", **told)
    return accept(db, channels, make_arrival("fake", given, IntakeLimits(), NOON, 0), NOON, rules=rules, asking=RULES)


def list_states(db: Db, sender: str) -> dict[str, str]:
    sql = "SELECT m.text, i.state FROM inbox i JOIN messages m ON m.id = i.message_id WHERE m.sender = ? ORDER BY i.seq"
    return {row[0]: row[1] for row in db.rows(sql, (sender,)) if row[0] in ("one", "two")}


def get_pending(db: Db) -> Request:
    (found,) = waiting_requests.list_pending(db)
    return found


def let_in(db: Db) -> None:
    users.add(db, EVE, "", NOON)
    users.add_member(db, EVE, "acme", "test", NOON)


def test_what_was_held_goes_first_when_its_sender_is_invited(acme: Db) -> None:
    rules = RuleCache()
    say(acme, "one", EVE, rules)
    asked = get_pending(acme)
    new = NewInvitation(folder="acme", uses=1, expires_at=None, created_by="operator")
    code = invitations.issue(acme, new, NOON).code
    assert say(acme, f"/join {code}", EVE, rules).receipt.reason == "invited"
    two = say(acme, "two", EVE, rules)
    assert list(list_states(acme, EVE).items()) == [("one", "queued"), ("two", "queued")]
    assert two.receipt.state == "queued" and two.wake
    left = requests.get(acme, asked.id)
    assert left is not None and left.state is RequestState.WITHDRAWN


def test_who_is_paired_while_her_message_waits_is_heard_in_order(acme: Db) -> None:
    say(acme, "one", EVE)
    code = pairing.issue_code(acme, ADA, "operator", NOON)
    assert say(acme, code, EVE).receipt.reason == "paired"
    say(acme, "two", EVE)
    assert list(list_states(acme, EVE).items()) == [("one", "queued"), ("two", "queued")]


def test_who_is_paired_is_answered_without_another_word_and_nobody_else_is_asked_about_sooner(acme: Db) -> None:
    say(acme, "one", EVE)
    say(acme, "two", MAL)
    dues = {each.name: each.next_at for each in waiting_requests.list_pending(acme)}
    code = pairing.issue_code(acme, ADA, "operator", NOON)
    assert say(acme, code, EVE).hurried
    move_due(acme, RULES, CHANNELS, NOON)
    assert (list_states(acme, EVE), list_states(acme, MAL)) == ({"one": "queued"}, {"two": "held"})
    (left,) = waiting_requests.list_pending(acme)
    assert (left.name, left.next_at) == (MAL, dues[MAL])


def test_a_code_that_lets_nobody_in_where_they_wait_hurries_nobody(acme: Db) -> None:
    groups.add(acme, "beta", "Beta", "scripted", NOON)
    say(acme, "one", EVE)
    new = NewInvitation(folder="beta", uses=1, expires_at=None, created_by="operator")
    accepted = say(acme, f"/join {invitations.issue(acme, new, NOON).code}", EVE)
    assert (accepted.receipt.reason, accepted.hurried) == ("invited", False)
    assert list_states(acme, EVE) == {"one": "held"}


def test_what_is_held_for_a_room_goes_first_when_the_operator_adds_a_route(unrouted: Db) -> None:
    let_in(unrouted)
    say(unrouted, "one", EVE)
    assert list_states(unrouted, EVE) == {"one": "held"}
    add_route(unrouted)
    say(unrouted, "two", EVE)
    assert list(list_states(unrouted, EVE).items()) == [("one", "queued"), ("two", "queued")]


def test_a_direct_chat_is_known_as_such_when_what_was_held_there_goes_on(acme: Db) -> None:
    direct: dict[str, Any] = {"address": "fake:direct/eve", "direct": True, "room_name": "Eve"}
    channels = ChannelInstances({"fake": replace(KIND, policy=RoomPolicy.REQUEST_APPROVAL)})
    say(acme, "one", EVE, channels=channels, **direct)
    assert list_states(acme, EVE) == {"one": "held"} and rooms.get(acme, "fake", "fake:direct/eve") is None
    let_in(acme)
    say(acme, "two", EVE, channels=channels, **direct)
    assert list(list_states(acme, EVE).items()) == [("one", "queued"), ("two", "queued")]
    room = rooms.get(acme, "fake", "fake:direct/eve")
    assert room is not None and (room.name, room.direct) == ("Eve", True)


def test_a_stranger_in_a_room_that_got_a_route_goes_on_waiting(unrouted: Db) -> None:
    let_in(unrouted)
    say(unrouted, "one", MAL)
    say(unrouted, "one", EVE)
    add_route(unrouted)
    say(unrouted, "two", EVE)
    assert list_states(unrouted, MAL) == {"one": "held"} and list_states(unrouted, EVE)["one"] == "queued"
    move_due(unrouted, RULES, CHANNELS, NOON + 700 * SECOND)
    assert list_states(unrouted, MAL) == {"one": "refused"}


@pytest.mark.parametrize("end", ["denied", "expired"])
def test_a_member_loses_nothing_when_the_old_card_ends(acme: Db, end: str) -> None:
    say(acme, "one", EVE)
    let_in(acme)
    if end == "denied":
        assert decide(acme, CHANNELS, get_pending(acme).id, DENY, ADA, NOON + 1).wake
    else:
        assert move_due(acme, RULES, CHANNELS, NOON + 700 * SECOND).sessions
    assert list_states(acme, EVE) == {"one": "queued"}


def test_who_is_blocked_by_the_old_card_is_not_heard(acme: Db) -> None:
    say(acme, "one", EVE)
    decide(acme, CHANNELS, get_pending(acme).id, BLOCK, ADA, NOON + 1)
    assert list_states(acme, EVE) == {"one": "refused"}


def test_a_message_of_somebody_else_costs_no_further_statement_while_strangers_wait(acme: Db) -> None:
    let_in(acme)
    rules = RuleCache()
    before = [_count_statements(acme, rules) for _ in range(3)][-1]
    say(acme, "one", MAL, rules)
    _count_statements(acme, rules)  # what is kept is read anew
    assert _count_statements(acme, rules) == before


def _count_statements(db: Db, rules: RuleCache) -> int:
    counting = CountingDb(db)
    say(counting, "hello", EVE, rules)
    return counting.statements


def gate(db: Db, ttl_s: int | None = None) -> None:
    """Mentions wake `acme`; it observes the rest."""
    for seq, (match, target) in enumerate((("verb=mention", "acme"), ("", "acme#observe"))):
        new = Route(seq=seq, match=match, target=target, folder="acme", ttl_s=ttl_s, created_by="t", created_at=NOON)
        routes.add(db, new)


ENGAGING = ChannelInstances({"fake": KIND}, engages_s=600)
LATER = NOON + 60 * SECOND


def list_engaged(db: Db, thread: str = "") -> list[tuple[str, int | None]]:
    return [(each.folder, each.until) for each in engagements.list_at(db, "fake", ROOM, thread)]


def test_a_strangers_mention_engages_once_somebody_lets_it_in(unrouted: Db) -> None:
    gate(unrouted)
    say(unrouted, "one", EVE)
    say(unrouted, "two", EVE, verb=Verb.MESSAGE)  # she goes on, and nobody is in the conversation yet
    assert list_engaged(unrouted) == []
    decide(unrouted, ENGAGING, get_pending(unrouted).id, ALLOW_ALWAYS, ADA, LATER)
    assert list_states(unrouted, EVE)["one"] == "queued"
    assert list_engaged(unrouted) == [("acme", LATER + 600 * SECOND)]
    after = say(unrouted, "and now?", EVE, verb=Verb.MESSAGE)
    assert after.receipt.state == "queued"


def test_what_is_released_again_and_again_engages_once(unrouted: Db) -> None:
    gate(unrouted, ttl_s=60)
    for text in ("one", "two"):
        say(unrouted, text, EVE)
    decide(unrouted, ENGAGING, get_pending(unrouted).id, ALLOW_ONCE, ADA, LATER)
    assert list_states(unrouted, EVE) == {"one": "queued", "two": "queued"}
    assert list_engaged(unrouted) == [("acme", LATER + 60 * SECOND)]


def test_a_mention_that_is_let_in_by_a_later_message_engages_too(unrouted: Db) -> None:
    gate(unrouted)
    say(unrouted, "one", EVE, channels=ENGAGING)
    let_in(unrouted)
    say(unrouted, "two", EVE, channels=ENGAGING, thread="T")
    assert list_engaged(unrouted) == [("acme", NOON + 600 * SECOND)]


def test_what_was_refused_engages_nobody(unrouted: Db) -> None:
    gate(unrouted)
    say(unrouted, "one", EVE)
    decide(unrouted, ENGAGING, get_pending(unrouted).id, DENY, ADA, LATER)
    assert list_engaged(unrouted) == []


def test_a_child_that_a_stranger_names_gets_it_once_she_is_let_in(unrouted: Db) -> None:
    gate(unrouted)
    groups.add(unrouted, "acme/eng", "Eng", "scripted", NOON)
    held = say(unrouted, "@eng look", EVE, verb=Verb.MESSAGE)
    assert held.receipt.state == "held" and get_pending(unrouted).folder == "acme/eng"
    decide(unrouted, ENGAGING, get_pending(unrouted).id, ALLOW_ONCE, ADA, LATER)
    (entry,) = inbox.list_for_message(unrouted, held.receipt.message_id)
    assert (entry.folder, entry.state) == ("acme/eng", "queued")
    assert list_engaged(unrouted) == [("acme/eng", LATER + 600 * SECOND)]


def test_what_a_stranger_said_while_the_group_was_engaged_is_not_lost_when_that_is_over(unrouted: Db) -> None:
    gate(unrouted)
    say(unrouted, "hello", ADA, channels=ENGAGING)
    assert say(unrouted, "one", EVE, verb=Verb.MESSAGE).receipt.state == "held"
    decide(unrouted, ENGAGING, get_pending(unrouted).id, ALLOW_ONCE, ADA, NOON + 601 * SECOND)
    assert list_states(unrouted, EVE) == {"one": "queued"}


def restore_while_it_waits(db: Db) -> Request:
    """A backup in which a message of Eve waits for a word about her is restored. The card about that."""
    say(db, "one", EVE)
    begin_incarnation(db, CHANNELS, RULES, IncarnationReason.RESTORED, NOON)
    (card,) = [each for each in waiting_requests.list_pending(db) if each.kind is RequestKind.RESTORED]
    return card


def test_after_a_restore_what_was_held_does_not_go_first_because_it_was_perhaps_answered(acme: Db) -> None:
    restore_while_it_waits(acme)
    let_in(acme)
    say(acme, "two", EVE)
    move_due(acme, RULES, CHANNELS, NOON)
    assert list_states(acme, EVE) == {"one": "held", "two": "queued"}


@pytest.mark.parametrize("known", [True, False])
def test_after_a_restore_an_owner_gives_what_was_held_for_a_stranger_back_to_its_own_card(
    acme: Db, known: bool
) -> None:
    card = restore_while_it_waits(acme)
    if known:
        let_in(acme)
    decide(acme, CHANNELS, card.id, SEND, "operator", NOON)
    assert list_states(acme, EVE) == {"one": "queued" if known else "held"}
    if not known:
        decide(acme, CHANNELS, get_pending(acme).id, ALLOW_ONCE, "operator", NOON)
        assert list_states(acme, EVE) == {"one": "queued"}


def test_after_a_restore_what_is_held_for_a_room_waits_for_that_on(unrouted: Db) -> None:
    let_in(unrouted)
    card = restore_while_it_waits(unrouted)
    add_route(unrouted)
    say(unrouted, "two", EVE)
    assert list_states(unrouted, EVE) == {"one": "held", "two": "queued"}
    decide(unrouted, CHANNELS, card.id, SEND, "operator", NOON)
    assert list_states(unrouted, EVE)["one"] == "queued"
