"""What the first screen reads: of all groups, in as many statements as of one."""

from collections.abc import Sequence
from typing import Any

import pytest
from tests.store.conftest import NOON, Desk

from gatepost.core.clock import DAY, MINUTE
from gatepost.flow.overview import AgentFacts, AwakeSandbox, ProviderDefaults, list_facts, read_groups, read_open_work
from gatepost.store.messages import inbox
from gatepost.store.messages.outbox import EffectState
from gatepost.store.money import budgets
from gatepost.store.port import Row
from gatepost.store.rights import requests, switches
from gatepost.store.rights.requests import NewRequest, RequestKind
from gatepost.store.sessions import agents, groups, sessions, turns
from gatepost.store.sessions.agents import NewAgent
from gatepost.store.sessions.sessions import Session, SessionMode, SessionState
from gatepost.store.sessions.turns import TurnState
from gatepost.store.web import overview
from gatepost_testing.counting import CountingDb

USUAL = ProviderDefaults("demo", "demo", "home", "agents")


def read_facts(desk: Desk, *awake: AwakeSandbox) -> dict[str, AgentFacts]:
    found = list_facts(read_groups(desk.db, desk.now), read_open_work(desk.db, desk.now), awake, USUAL)
    return {each.id: each for each in found}


def ask(desk: Desk, name: str, session_id: str | None, folder: str = "acme", at: int = NOON) -> str:
    new = NewRequest(
        kind=RequestKind.CALL, name=name, digest=name, folder=folder, session_id=session_id, turn_id="t", input={}
    )
    return requests.add(desk.db, new, at)[0].id


def test_a_group_has_its_turn_queue_and_last_conversation(desk: Desk) -> None:
    turn = desk.begun("first")
    desk.hear("second")
    facts = read_facts(desk, AwakeSandbox(desk.session.id, "acme"))["acme"]
    assert [each.session_id for each in facts.turns] == [turn.session_id] == [facts.session_id]
    assert (facts.queued, facts.awake, facts.provider, facts.is_connected) == (1, 1, "demo", False)


def test_the_oldest_request_of_a_group_is_named_and_all_are_counted(desk: Desk) -> None:
    first = "p-0"  # ids of one millisecond have no order
    desk.db.run("UPDATE requests SET id = ? WHERE id = ?", (first, ask(desk, "a", desk.session.id, at=NOON - MINUTE)))
    ask(desk, "b", desk.session.id)
    other = sessions.find_or_add(desk.db, SessionMode.SHARED, "acme", "fake", "fake:room/2", "", NOON)
    ask(desk, "c", other.id)
    facts = read_facts(desk)["acme"]
    assert (facts.requests, facts.request_id, facts.requested_at) == (3, first, NOON - MINUTE)


def test_what_is_a_managed_agents_is_not_its_groups(desk: Desk) -> None:
    made = agents.create(desk.db, NewAgent(folder="acme", provider="claude", title="Fix it"), NOON)
    asked = ask(desk, "a", made.id)
    found = read_facts(desk, AwakeSandbox(made.id, "acme"))
    assert (found[made.id].request_id, found[made.id].awake, found[made.id].title) == (asked, 1, "Fix it")
    assert (found["acme"].requests, found["acme"].awake) == (0, 0)


def test_a_group_that_every_gateway_has_is_shown_once_it_is_used(desk: Desk) -> None:
    groups.add(desk.db, "root", "Root", "", NOON)
    assert "root" not in read_facts(desk)
    sessions.find_or_add(desk.db, SessionMode.SHARED, "root", "fake", "fake:room/9", "", NOON)
    assert "root" in read_facts(desk)


def test_a_failure_counts_until_something_goes_well_or_it_is_old(desk: Desk) -> None:
    turn = desk.begun("broken")
    desk.break_off(turn, "no key", final=True)
    failure = read_facts(desk)["acme"].failure
    assert failure is not None and failure.reason == "no key"
    desk.now += 8 * DAY
    assert read_facts(desk)["acme"].failure is None
    desk.now -= 8 * DAY - MINUTE
    well = desk.begun("again")
    desk.finish(well)
    assert read_facts(desk)["acme"].failure is None


def test_an_answer_in_another_conversation_ends_the_failure_of_an_abandoned_one(desk: Desk) -> None:
    desk.break_off(desk.begun("broken"), "no key", final=True)
    desk.now += MINUTE
    other = sessions.find_or_add(desk.db, SessionMode.SHARED, "acme", "fake", "fake:room/2", "", desk.now)
    answer(desk, other)
    assert read_facts(desk)["acme"].failure is None


def answer(desk: Desk, session: Session) -> None:
    """A message that is answered in this conversation."""
    at = desk.now
    turns.TURNS.put(
        desk.db,
        id=f"t-{session.id}",
        session_id=session.id,
        folder=session.folder,
        provider="demo",
        instance="fake",
        address=session.address,
        thread="",
        rights="owner",
        state=TurnState.DONE,
        next_at=at,
        owner="",
        lease_until=at,
        started_at=at,
        ended_at=at + 1,
    )
    sessions.set_state(desk.db, session.id, SessionState.IDLE, at + 1)


def test_a_trial_neither_marks_an_agent_as_failing_nor_ends_a_failure(desk: Desk) -> None:
    trial = sessions.find_or_add(
        desk.db, SessionMode.PER_THREAD, "acme", "terminal", f"{sessions.TRIAL_ROOMS}1", "", desk.now
    )
    row = desk.begun("broken")
    desk.break_off(row, "no key", final=True)
    desk.now += MINUTE
    answer(desk, trial)
    facts = read_facts(desk)["acme"]
    assert facts.failure is not None and facts.session_id == desk.session.id
    desk.db.run("UPDATE inbox SET session_id = ?", (trial.id,))
    assert read_facts(desk)["acme"].failure is None


def test_a_failure_of_a_managed_agent_hides_none_of_its_group(desk: Desk) -> None:
    desk.break_off(desk.begun("broken"), "no key", final=True)
    made = agents.create(desk.db, NewAgent(folder="acme", provider="claude", title="Fix it"), NOON)
    desk.db.run(
        "INSERT INTO inbox (message_id, session_id, folder, seq, state, reason, created_at, updated_at)"
        " SELECT message_id, ?, folder, 9, state, 'no disk', created_at, updated_at FROM inbox",
        (made.id,),
    )
    sessions.set_state(desk.db, made.id, SessionState.ERROR, NOON)
    found = read_facts(desk)
    assert [each.failure.reason for each in (found["acme"], found[made.id]) if each.failure] == ["no key", "no disk"]


def test_what_waits_for_money_is_told_from_what_waits_for_a_word_about_its_sender(desk: Desk) -> None:
    asked = NewRequest(kind=RequestKind.BUDGET, name="day 1 group acme", folder="acme", input={})
    money = requests.add(desk.db, asked, NOON)[0].id
    message = desk.hear("hello")
    inbox.hold(desk.db, message, "acme", "member", money, NOON + DAY, NOON)
    facts = read_facts(desk)["acme"]
    assert (facts.held_for, facts.held_for_money) == (money, True)
    requests.withdraw(desk.db, money, "raised", NOON)
    assert not read_facts(desk)["acme"].held_for_money


def test_a_rest_holds_for_the_groups_below(desk: Desk) -> None:
    groups.add(desk.db, "acme/eng", "Eng", "", NOON)
    switches.turn_on(desk.db, switches.name_rest("acme"), "", "op", NOON)
    assert [each.rest.folder for each in read_facts(desk).values() if each.rest] == ["acme", "acme"]


def test_what_was_spent_today_is_the_groups_with_all_below_it(desk: Desk) -> None:
    groups.add(desk.db, "acme/eng", "Eng", "", NOON)
    budgets.add_spending(desk.db, "acme/eng", "", NOON, spent=5)
    budgets.add_spending(desk.db, "acme", "", NOON - DAY, spent=100)
    found = read_facts(desk)
    assert (found["acme"].spent, found["acme/eng"].spent) == (5, 5)


def test_the_last_words_of_a_conversation_are_those_of_either_side(desk: Desk) -> None:
    desk.hear("a question")
    last = overview.list_last_messages(desk.db, [desk.session.id])[desk.session.id]
    assert last.text == "a question"
    desk.say("k1", "an answer", turn=desk.begun("another"))
    assert overview.list_last_messages(desk.db, [desk.session.id])[desk.session.id].text == "an answer"
    desk.hear("  ")
    assert overview.list_last_messages(desk.db, [desk.session.id])[desk.session.id].text == "an answer"
    assert overview.list_last_messages(desk.db, []) == {}


def test_what_went_out_perhaps_is_counted_for_a_while(desk: Desk) -> None:
    effect = desk.say("k1", "hello", turn=desk.begun("hi")).id
    for state in (EffectState.UNCERTAIN, EffectState.SENT):
        desk.db.run("UPDATE outbox SET state = ?, updated_at = ? WHERE id = ?", (state, NOON, effect))
        found = [(each.state, each.count) for each in overview.list_unclear(desk.db, NOON - 1)]
        assert found == ([(EffectState.UNCERTAIN, 1)] if state is EffectState.UNCERTAIN else [])
    assert overview.list_unclear(desk.db, NOON) == []


def test_many_groups_take_as_many_statements_as_one(desk: Desk) -> None:
    def count() -> int:
        counted = CountingDb(desk.db)
        list_facts(read_groups(counted, desk.now), read_open_work(counted, desk.now), (), USUAL)
        return counted.statements

    few = count()
    for number in range(60):
        groups.add(desk.db, f"beta/g{number}", "", "", NOON)
        made = sessions.find_or_add(
            desk.db, SessionMode.SHARED, f"beta/g{number}", "fake", f"fake:room/b{number}", "", NOON
        )
        ask(desk, "x", made.id, f"beta/g{number}")
    assert count() == few


@pytest.mark.sqlite(reason="reads the plans of SQLite")
def test_no_statement_walks_through_all_messages(desk: Desk) -> None:
    """By the plan of the engine: whatever has grown with years is reached by an index."""
    plans: list[str] = []

    class ExplainingDb(CountingDb):
        def rows(self, sql: str, params: Sequence[Any] = ()) -> list[Row]:
            plans.extend(str(row[3]) for row in self._db.rows(f"EXPLAIN QUERY PLAN {sql}", params))
            return super().rows(sql, params)

    explaining = ExplainingDb(desk.db)
    desk.hear("hello")
    list_facts(read_groups(explaining, NOON), read_open_work(explaining, NOON), (), USUAL)
    overview.list_last_messages(explaining, [desk.session.id])
    overview.list_unclear(explaining, NOON)
    overview.sum_costs(explaining, [desk.session.id], NOON)
    large = (
        "messages",
        "inbox",
        "outbox",
        "turns",
        "costs",
        "spending",
        "sessions",
        "requests",
        "i",
        "f",
        "o",
        "s",
        "t",
    )
    walked = [each for each in plans if any(each == f"SCAN {table}" for table in large)]
    assert plans and walked == []
