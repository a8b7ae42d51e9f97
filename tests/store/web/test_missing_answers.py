"""What the store says of a message that has no answer."""

from tests.store.conftest import NOON, Desk

from gatepost.access.budgets import NO_ROOM
from gatepost.core.clock import DAY, Period
from gatepost.flow.missing_answer import NOBODY, MissingAnswer, explain_missing, read_message_facts
from gatepost.flow.overview import StepAdvice
from gatepost.flow.reports import SafeStep
from gatepost.store.messages import inbox, messages
from gatepost.store.money import budgets
from gatepost.store.money.budgets import BudgetScope, BudgetScopeKind
from gatepost.store.rights import requests, switches
from gatepost.store.rights.requests import NewRequest, RequestKind

SPENT = f"Today's budget of acme {NO_ROOM}: $1 of $2"


def read(desk: Desk, message_id: int) -> MissingAnswer:
    message = messages.get(desk.db, message_id)
    assert message is not None
    return explain_missing(
        read_message_facts(desk.db, message, inbox.list_for_message(desk.db, message_id), desk.now), desk.now
    )


def test_a_message_behind_two_others_is_the_third(desk: Desk) -> None:
    heard = [desk.hear(text) for text in ("one", "two", "three")]
    third = desk.db.row("SELECT message_id FROM inbox WHERE id = ?", (heard[2],))
    assert third is not None and read(desk, third[0]).text.startswith("It is third in line")


def test_a_turn_that_asks_a_person_is_told_as_a_decision(desk: Desk) -> None:
    turn = desk.begun("hello")
    new = NewRequest(
        kind=RequestKind.CALL,
        name="a",
        digest="a",
        folder="acme",
        session_id=turn.session_id,
        turn_id=turn.id,
        input={},
    )
    asked = requests.add(desk.db, new, NOON)[0].id
    row = desk.db.row("SELECT message_id FROM inbox WHERE turn_id = ?", (turn.id,))
    assert row is not None and read(desk, row[0]).step == StepAdvice(SafeStep.ANSWER, asked)
    requests.withdraw(desk.db, asked, "over", NOON)
    assert read(desk, row[0]).step is None


def test_a_rest_of_a_group_above_is_ended_there(desk: Desk) -> None:
    desk.hear("hello")
    switches.turn_on(desk.db, switches.name_rest("acme"), "", "op", NOON)
    assert read(desk, 1).step == StepAdvice(SafeStep.WAKE, "acme")


def test_the_budget_is_named_that_a_call_did_not_fit_into(desk: Desk) -> None:
    desk.break_off(desk.begun("hello"), SPENT, final=True)
    budgets.put(desk.db, BudgetScope(BudgetScopeKind.INSTANCE), Period.DAY, 10, "op", desk.now)
    assert read(desk, 1).step == StepAdvice(SafeStep.RAISE, "")
    budgets.put(desk.db, BudgetScope(BudgetScopeKind.GROUP, "acme"), Period.DAY, 10, "op", desk.now)
    budgets.add_spending(desk.db, "acme", "", desk.now, spent=10)
    assert read(desk, 1).step == StepAdvice(SafeStep.RAISE, "acme")


def test_a_group_that_only_watches_another_is_not_told_of(desk: Desk) -> None:
    desk.hear("hello")
    desk.db.run("UPDATE inbox SET state = 'observed', mode = 'observe', reason = 'watched beta', next_at = NULL")
    assert read(desk, 1) == MissingAnswer(NOBODY)


def test_a_failure_of_days_ago_says_so(desk: Desk) -> None:
    desk.break_off(desk.begun("hello"), "no key", final=True)
    desk.now += 3 * DAY
    found = read(desk, 1)
    assert found.text.endswith("failed 3 days ago: no key.")
    assert found.step == StepAdvice(SafeStep.RETRY, "1")
