"""A message that a spent budget stops waits, one card offers more, and it goes on or is refused by the answer."""

import itertools
from typing import Any

import pytest
from tests.flow.requests.acme_people import ADA, BOB, CHANNELS, EVE, MAL, add_people

from gatepost.core.clock import DAY, SECOND, Period
from gatepost.core.money import MICRO
from gatepost.core.records import replace
from gatepost.flow.intake.accepted_message import IntakeResult
from gatepost.flow.intake.intake import IntakeLimits, make_arrival
from gatepost.flow.intake.message_acceptance import accept
from gatepost.flow.requests import spent_budgets
from gatepost.flow.requests.ask_approver import AskingRules
from gatepost.flow.requests.choices import DENY, DROP, SEND, AnswerChoice, find_answer, list_choices
from gatepost.flow.requests.decide import Decision, decide
from gatepost.flow.requests.request_loop import move_due
from gatepost.flow.requests.restored_rows import begin_incarnation
from gatepost.messages.inbound import Inbound, Verb
from gatepost.store.gateways import incarnations
from gatepost.store.gateways.incarnations import IncarnationReason
from gatepost.store.messages import messages
from gatepost.store.money import budgets, costs
from gatepost.store.money.budgets import BudgetScope, BudgetScopeKind, CapSpan
from gatepost.store.money.costs import NewCost
from gatepost.store.people import users
from gatepost.store.port import Db
from gatepost.store.rights import requests, waiting_requests
from gatepost.store.rights.requests import Request, RequestKind, RequestState
from gatepost.store.rooms import rooms, routes
from gatepost.store.rooms.rooms import RoomPolicy
from gatepost.store.rooms.routes import Route
from gatepost.store.sessions import sessions
from gatepost_testing.clock import NOON

RULES = AskingRules(escalate=60 * SECOND, expire=2 * DAY, quorum=1)
ACME = BudgetScope(BudgetScopeKind.GROUP, "acme")
EVERYTHING = BudgetScope(BudgetScopeKind.INSTANCE)
ROOM, OTHER = "fake:room/1", "fake:room/2"
_ids = itertools.count(1)


@pytest.fixture
def acme(db: Db) -> Db:
    add_people(db)
    routes.add(db, Route(seq=0, match="platform=fake", target="acme", folder="acme", created_by="t", created_at=NOON))
    users.add(db, EVE, "Eve", NOON)
    users.add_member(db, EVE, "acme", "test", NOON)
    return db


def spend(db: Db, micro: int, limit: int, scope: BudgetScope = ACME) -> None:
    budgets.put(db, scope, Period.DAY, limit, "test", NOON)
    costs.add_external(db, NewCost(key=f"c{next(_ids)}", at=NOON, folder="acme", model="m", micro=micro), NOON)


def say(db: Db, text: str, now: int = NOON, **more: Any) -> IntakeResult:
    told = {"address": ROOM, "sender": EVE, "text": text, "verb": Verb.MENTION, **more}
    given = Inbound(platform_id=f"m{next(_ids)}", **told)
    return accept(db, CHANNELS, make_arrival("fake", given, IntakeLimits(), now, 0), now, asking=RULES)


def get_pending(db: Db) -> Request:
    (found,) = waiting_requests.list_pending(db)
    return found


def answer(db: Db, words: str, by: str = ADA) -> Decision:
    asked = get_pending(db)
    found = find_answer(list_choices(asked), words)
    assert found is not None
    return decide(db, CHANNELS, asked.id, found.choice, by, NOON)


def list_states(db: Db) -> dict[str, str]:
    sql = "SELECT m.text, i.state FROM inbox i JOIN messages m ON m.id = i.message_id ORDER BY i.id"
    return {row[0]: row[1] for row in db.rows(sql)}


def list_told(db: Db, address: str = ROOM) -> list[str]:
    return [each.text for each in messages.list_in_room(db, "fake", address, 0, 100) if each.direction == "out"]


def test_what_a_spent_budget_stops_waits_with_one_card_and_one_word_in_each_room(acme: Db) -> None:
    spend(acme, MICRO, MICRO)
    said = [say(acme, "one"), say(acme, "two"), say(acme, "three", address=OTHER)]
    assert [each.receipt.state for each in said] == ["held", "held", "held"]
    assert [len(each.asked) for each in said] == [1, 0, 0]
    asked = get_pending(acme)
    assert (asked.kind, asked.folder) == (RequestKind.BUDGET, "acme")
    assert [each.label for each in list_choices(asked)] == ["$1.00 more", "Deny"]
    (told,) = list_told(acme)
    assert told.startswith("Today's budget of acme is spent: $1.00 of $1.00. Your message waits")
    assert len(list_told(acme, OTHER)) == 1


def test_nobody_takes_all_places_of_those_that_wait(acme: Db) -> None:
    spend(acme, MICRO, MICRO)
    flood = [say(acme, f"flood {number}").receipt.state for number in range(60)]
    assert flood == ["held"] * spent_budgets.MOST_OF_SENDER + ["refused"] * (60 - spent_budgets.MOST_OF_SENDER)
    assert say(acme, "urgent", sender=ADA).receipt.state == "held"


def test_strangers_of_many_names_leave_places_to_those_who_are_known(acme: Db) -> None:
    """Whoever has the address of a chat link is somebody new with each visit."""
    rooms.add(acme, "fake", OTHER, OTHER, False, RoomPolicy.PUBLIC, NOON)
    spend(acme, MICRO, MICRO)
    flood = [say(acme, f"flood {at}", sender=f"fake:user/x{at}", address=OTHER).receipt.state for at in range(60)]
    assert flood.count("held") == spent_budgets.MOST_OF_GUESTS
    assert say(acme, "urgent").receipt.state == "held"


@pytest.mark.parametrize("words", ["1", "yes", "$1.00 more"])
def test_more_money_lets_all_of_it_go_on_in_its_order(acme: Db, words: str) -> None:
    spend(acme, MICRO, MICRO)
    say(acme, "one")
    say(acme, "two", address=OTHER)
    decision = answer(acme, words)
    assert decision.decided and len(decision.wake) == 2
    assert list_states(acme) == {"one": "queued", "two": "queued"}
    (status,) = budgets.list_all(acme, NOON)
    assert (status.limit, status.is_spent) == (2 * MICRO, False)
    assert say(acme, "three").receipt.state == "queued"


def test_what_was_added_ends_with_its_period(acme: Db) -> None:
    spend(acme, MICRO, MICRO)
    say(acme, "one")
    answer(acme, "yes")
    assert [each.limit for each in budgets.list_all(acme, NOON + DAY)] == [MICRO]


def test_a_second_time_asks_again_and_adds_to_the_first(acme: Db) -> None:
    spend(acme, MICRO, MICRO)
    say(acme, "one")
    answer(acme, "yes")
    spend(acme, MICRO, MICRO)
    assert say(acme, "two").receipt.state == "held"
    answer(acme, "yes")
    assert [each.limit for each in budgets.list_all(acme, NOON)] == [4 * MICRO]  # as much again as there was, up to $2


def test_nobody_adds_more_than_two_dollars_at_once(acme: Db) -> None:
    spend(acme, 10 * MICRO, 10 * MICRO)
    say(acme, "one")
    assert list_choices(get_pending(acme))[0].label == "$2.00 more"
    answer(acme, "yes")
    assert [each.limit for each in budgets.list_all(acme, NOON)] == [12 * MICRO]


def test_what_was_spent_over_the_limit_does_not_eat_up_what_is_added(acme: Db) -> None:
    spend(acme, 17_883, 4_000)
    say(acme, "one")
    assert list_choices(get_pending(acme))[0].label == "$0.27 more"
    answer(acme, "yes")
    (status,) = budgets.list_all(acme, NOON)
    assert (status.limit, status.is_spent) == (274_000, False)


def test_a_no_refuses_what_waits_tells_each_room_and_asks_no_more_in_the_period(acme: Db) -> None:
    spend(acme, MICRO, MICRO)
    say(acme, "one")
    say(acme, "two", address=OTHER)
    decision = answer(acme, "no")
    assert list_states(acme) == {"one": "refused", "two": "refused"}
    assert {("fake", ROOM), ("fake", OTHER)} <= {*decision.rooms}
    for address in (ROOM, OTHER):
        assert list_told(acme, address)[-1].startswith("Today's budget of acme was not raised")
    assert say(acme, "three").receipt.state == "refused"
    assert waiting_requests.list_pending(acme) == []


def test_it_goes_on_by_itself_when_the_budget_starts_anew(acme: Db) -> None:
    spend(acme, MICRO, MICRO)
    say(acme, "one")
    asked = get_pending(acme)
    assert asked.expires_at is not None and asked.expires_at <= NOON + DAY
    moved = move_due(acme, RULES, CHANNELS, asked.expires_at)
    assert list_states(acme) == {"one": "queued"} and len(moved.sessions) == 1
    ended = requests.get(acme, asked.id)
    assert ended is not None and ended.state is RequestState.WITHDRAWN


def test_it_goes_on_when_the_budget_is_raised_by_command_or_taken_away(acme: Db) -> None:
    spend(acme, MICRO, MICRO)
    say(acme, "one")
    budgets.put(acme, ACME, Period.DAY, None, "test", NOON)
    waiting_requests.hurry(acme, RequestKind.BUDGET, NOON)
    move_due(acme, RULES, CHANNELS, NOON)
    assert list_states(acme) == {"one": "queued"}


def test_what_nobody_decides_in_time_is_refused_while_the_budget_is_spent(acme: Db) -> None:
    rules = replace(RULES, expire=3600 * SECOND)
    spend(acme, MICRO, MICRO)
    say(acme, "one")
    asked = get_pending(acme)
    acme.run("UPDATE requests SET expires_at = ?, next_at = ?", (NOON + SECOND, NOON + SECOND))
    move_due(acme, rules, CHANNELS, NOON + SECOND)
    ended = requests.get(acme, asked.id)
    assert ended is not None and ended.state is RequestState.EXPIRED
    assert list_states(acme) == {"one": "refused"} and "was not raised" in list_told(acme)[-1]


def test_the_admin_of_a_group_raises_no_budget_above_it(acme: Db) -> None:
    spend(acme, MICRO, MICRO, EVERYTHING)
    say(acme, "one")
    asked = get_pending(acme)
    assert asked.folder == "" and asked.name.endswith(" instance ")
    refused = decide(acme, CHANNELS, asked.id, list_choices(asked)[0], ADA, NOON)
    assert not refused.decided and list_states(acme) == {"one": "held"}
    assert decide(acme, CHANNELS, asked.id, list_choices(asked)[0], BOB, NOON).decided
    assert list_states(acme) == {"one": "queued"}


def test_whoever_is_shut_out_while_their_message_waits_is_not_heard(acme: Db) -> None:
    spend(acme, MICRO, MICRO)
    say(acme, "one")
    acme.run("DELETE FROM group_members WHERE user_id = ?", (EVE,))
    answer(acme, "yes")
    assert list_states(acme) == {"one": "refused"}


def test_no_more_than_so_many_messages_wait(acme: Db, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spent_budgets, "MOST_HELD", 2)
    spend(acme, MICRO, MICRO)
    assert [say(acme, text).receipt.state for text in ("one", "two", "three")] == ["held", "held", "refused"]


def test_a_command_does_not_wait(acme: Db) -> None:
    spend(acme, MICRO, MICRO)
    assert say(acme, "/compact").receipt.state != "held"
    assert waiting_requests.list_pending(acme) == []


def test_a_budget_of_somebody_with_an_odd_name_is_found_again(acme: Db) -> None:
    scope = BudgetScope(BudgetScopeKind.USER, "fake:user/a b c")
    spent = spent_budgets.SpentBudget(scope, Period.MONTH, NOON)
    request = replace(_make_request(acme), name=spent.name, folder="")
    assert spent_budgets.read_spent(request) == spent


def _make_request(db: Db) -> Request:
    spend(db, MICRO, MICRO)
    say(db, "one")
    return get_pending(db)


def test_denial_is_the_plain_one(acme: Db) -> None:
    assert list_choices(_make_request(acme))[-1] is DENY


def fill_conversation(db: Db, limit: int = MICRO) -> str:
    """A conversation that has spent its limit, which the group says."""
    say(db, "before")
    (session,) = sessions.list_open(db, "acme")
    budgets.put(db, ACME, CapSpan.SESSION, limit, "test", NOON)
    new = NewCost(key=f"c{next(_ids)}", at=NOON, folder="acme", model="m", micro=MICRO, session_id=session.id)
    costs.add_external(db, new, NOON)
    return session.id


def test_a_conversation_at_its_limit_waits_with_a_card_and_hears_of_a_new_one(acme: Db) -> None:
    fill_conversation(acme)
    assert [say(acme, text).receipt.state for text in ("one", "two")] == ["held", "held"]
    assert say(acme, "elsewhere", address=OTHER).receipt.state == "queued"
    asked = get_pending(acme)
    assert (asked.folder, asked.input["budget"]) == ("acme", "The limit of a conversation of acme")
    assert [each.label for each in list_choices(asked)] == ["$1.00 more", "Deny"]
    (told,) = list_told(acme)
    assert told.startswith("This conversation reached its limit of $1.00. /new starts a new one. Your message waits")


def test_more_for_a_conversation_lets_what_waits_go_on(acme: Db) -> None:
    fill_conversation(acme)
    say(acme, "one")
    assert answer(acme, "yes").decided
    assert list_states(acme)["one"] == "queued" and say(acme, "two").receipt.state == "queued"


def test_a_no_to_a_conversation_names_the_new_one(acme: Db) -> None:
    fill_conversation(acme)
    say(acme, "one")
    answer(acme, "no")
    assert list_states(acme)["one"] == "refused"
    assert list_told(acme)[-1].endswith("is not answered. /new starts a new conversation.")
    assert say(acme, "two").receipt.state == "refused" and waiting_requests.list_pending(acme) == []


def test_a_new_conversation_takes_up_what_waits_for_the_old_one(acme: Db) -> None:
    fill_conversation(acme)
    say(acme, "one")
    say(acme, "/new")
    move_due(acme, RULES, CHANNELS, NOON)
    assert list_states(acme)["one"] == "queued" and waiting_requests.list_pending(acme) == []


def test_a_limit_of_the_gateway_is_raised_by_owners_alone(acme: Db) -> None:
    session = fill_conversation(acme)
    budgets.put(acme, ACME, CapSpan.SESSION, None, "test", NOON)
    budgets.put(acme, EVERYTHING, CapSpan.SESSION, MICRO, "test", NOON)
    say(acme, "one")
    assert get_pending(acme).folder == ""
    assert not answer(acme, "yes", ADA).decided and answer(acme, "yes", BOB).decided
    found = budgets.find_session_cap(acme, session)
    assert found is not None and found.limit == 2 * MICRO


def restore_while_it_waits(db: Db) -> Request:
    """A backup in which a message waits for money is restored when the budget has room. The card about that."""
    spend(db, MICRO, MICRO)
    say(db, "one")
    begin_incarnation(db, CHANNELS, RULES, IncarnationReason.RESTORED, NOON + DAY)
    while move_due(db, RULES, CHANNELS, NOON + DAY).more:
        pass
    (card,) = [each for each in waiting_requests.list_pending(db) if each.kind is RequestKind.RESTORED]
    return card


def test_after_a_restore_it_does_not_go_on_by_itself_because_it_was_perhaps_answered(acme: Db) -> None:
    card = restore_while_it_waits(acme)
    assert list_states(acme) == {"one": "held"}
    assert card.input["not answered"] == "1"


@pytest.mark.parametrize(("choice", "state"), [(SEND, "queued"), (DROP, "cancelled")])
def test_after_a_restore_an_owner_decides_about_what_waits_for_money(
    acme: Db, choice: AnswerChoice, state: str
) -> None:
    card = restore_while_it_waits(acme)
    decision = decide(acme, CHANNELS, card.id, choice, BOB, NOON + DAY)
    assert decision.decided and len(decision.wake) == (choice is SEND)
    assert list_states(acme) == {"one": state}


def test_after_a_failover_it_does_not_go_on_by_itself(acme: Db) -> None:
    spend(acme, MICRO, MICRO)
    say(acme, "one")
    incarnations.hold_open(acme, NOON)
    move_due(acme, RULES, CHANNELS, NOON + DAY)
    assert list_states(acme) == {"one": "held"}


@pytest.mark.parametrize("words", ["yes", "no"])
def test_a_decision_about_a_stranger_leaves_what_waits_for_money(acme: Db, words: str) -> None:
    """In one room strangers are asked about; in another they may speak, until the budget is spent."""
    rooms.add(acme, "fake", OTHER, OTHER, False, RoomPolicy.PUBLIC, NOON)
    assert say(acme, "asked about", sender=MAL).receipt.state == "held"
    asked = get_pending(acme)
    assert asked.kind is RequestKind.SENDER
    spend(acme, MICRO, MICRO)
    assert say(acme, "waits for money", sender=MAL, address=OTHER).receipt.state == "held"
    found = find_answer(list_choices(asked), words)
    assert found is not None
    decide(acme, CHANNELS, asked.id, found.choice, ADA, NOON)
    assert list_states(acme)["waits for money"] == "held"
