"""Somebody is forgotten who decided, answered or was asked about: what follows from it is not lost, their words are."""

import asyncio
import itertools
import json
import re
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from tests.flow.requests.acme_people import ADA, BOB, CHANNELS, EVE, MAL, ROOM, RULES, add_people, hold_call

from gatepost.core.clock import SECOND
from gatepost.core.errors import Invalid
from gatepost.core.event_bus import EventBus
from gatepost.core.home import Home
from gatepost.core.settings import Config
from gatepost.flow.intake.intake import IntakeLimits, make_arrival
from gatepost.flow.intake.message_acceptance import accept
from gatepost.flow.people.person_erasure import PersonErasure
from gatepost.flow.requests.ask_approver import ask
from gatepost.flow.requests.choices import ALLOW_ONCE
from gatepost.flow.requests.decide import answer_question, decide
from gatepost.flow.requests.held_calls import HeldCalls, get_arguments
from gatepost.flow.requests.request_loop import move_due
from gatepost.gate.tool_answers import ToolAnswer
from gatepost.messages.inbound import Inbound, Verb
from gatepost.store.engine.sqlite_store import SqliteStore
from gatepost.store.people import users
from gatepost.store.port import Db
from gatepost.store.rights import audit, request_cards, requests, waiting_requests
from gatepost.store.rights.requests import NewRequest, Request, RequestAsker, RequestKind, RequestState
from gatepost.store.sessions import sessions
from gatepost.store.sessions.sessions import SessionMode
from gatepost_testing.clock import NOON, FixedClock

HERE = ("fake", ROOM)
_ids = itertools.count(1)


def settle(db: Db) -> None:
    """Nothing leads from the room to acme."""
    add_people(db)
    db.run("DELETE FROM routes")


def ask_two_things(db: Db) -> Request:
    session = sessions.find_or_add(db, SessionMode.PER_THREAD, "acme", "fake", ROOM, "", NOON)
    users.add(db, EVE, "", NOON)
    users.add_member(db, EVE, "acme", "test", NOON)
    new = NewRequest(
        kind=RequestKind.QUESTION,
        asker=RequestAsker.AGENT,
        name="q",
        digest="q",
        folder="acme",
        session_id=session.id,
        instance="fake",
        address=ROOM,
        input={"questions": [{"question": "Where?"}, {"question": "When?"}]},
    )
    return ask(db, CHANNELS, RULES, new, NOON).request


def mention(db: Db, text: str, sender: str) -> None:
    given = Inbound(address=ROOM, platform_id=f"m{next(_ids)}", sender=sender, text=text, verb=Verb.MENTION)
    accept(db, CHANNELS, make_arrival("fake", given, IntakeLimits(), NOON, 0), NOON, asking=RULES)


SCHEMA = Path(__file__).resolve().parents[3] / "docs" / "schema.sql"


def list_states(db: Db, sender: str) -> list[tuple[str, str]]:
    sql = "SELECT m.text, i.state FROM inbox i JOIN messages m ON m.id = i.message_id WHERE m.sender = ? ORDER BY m.id"
    return [(row[0], row[1]) for row in db.rows(sql, (sender,))]


def find_everywhere(db: Db, word: str) -> list[str]:
    tables = [each for each in re.findall(r"CREATE TABLE (\w+)", SCHEMA.read_text()) if each != "unsearched"]
    return [f"{table}: {row}" for table in tables for row in db.rows(f'SELECT * FROM "{table}"') if word in str(row)]


async def forget(store: SqliteStore, tmp_path: Path, who: str) -> None:
    home = Home(tmp_path / "h")
    for each in (home.groups, home.sessions, home.media, home.logs):
        each.mkdir(parents=True, exist_ok=True)
    erasure = PersonErasure(home, store, FixedClock(NOON + 100), asleep=lambda _: nullcontext(True))
    await erasure.erase(who, "operator")


@pytest.mark.slow
async def test_who_changed_a_call_is_not_forgotten_before_it_ran_as_changed(store: SqliteStore, tmp_path: Path) -> None:
    def change(db: Db) -> Request:
        settle(db)
        done = decide(
            db, CHANNELS, hold_call(db, editable=True).id, ALLOW_ONCE, ADA, NOON + 1, given={"text": "harmless"}
        )
        assert done.decided
        return done.request

    request = await store.write(change)
    with pytest.raises(Invalid, match=f"{request.id}.* not carried out"):
        await forget(store, tmp_path, ADA)
    (waits,) = await store.read(requests.list_unnotified, (RequestKind.CALL,), 10)
    assert json.loads(get_arguments(waits)) == {"text": "harmless"}
    await store.write(requests.record_notified, request.id, NOON + 2)
    await forget(store, tmp_path, ADA)
    assert [*await store.read(find_everywhere, ADA), *await store.read(find_everywhere, "harmless")] == []


@pytest.mark.slow
async def test_a_call_that_she_allowed_as_it_was_still_runs(store: SqliteStore, tmp_path: Path) -> None:
    def allow(db: Db) -> None:
        settle(db)
        assert decide(db, CHANNELS, hold_call(db, editable=True).id, ALLOW_ONCE, ADA, NOON + 1).decided

    await store.write(allow)
    await forget(store, tmp_path, ADA)
    (waits,) = await store.read(requests.list_unnotified, (RequestKind.CALL,), 10)
    assert waits.state is RequestState.ALLOWED and json.loads(get_arguments(waits)) == {"text": "original"}


@pytest.mark.parametrize("when", ["before", "meanwhile"])
async def test_who_allowed_a_call_that_fails_and_is_forgotten_before_or_meanwhile_is_not_named_again(
    store: SqliteStore, tmp_path: Path, when: str
) -> None:
    class FailingGate:
        async def call(self, *given: object, approved: Request) -> ToolAnswer:
            if when == "meanwhile":
                await forget(store, tmp_path, ADA)
            return ToolAnswer("no", failed=True, outcome="It failed: the room is away.")

    def allow(db: Db) -> None:
        settle(db)
        request = hold_call(db, quorum=2)
        decide(db, CHANNELS, request.id, ALLOW_ONCE, ADA, NOON + 1)
        assert decide(db, CHANNELS, request.id, ALLOW_ONCE, BOB, NOON + 2).decided

    await store.write(allow)
    if when == "before":
        await forget(store, tmp_path, ADA)
    async with asyncio.TaskGroup() as tasks:
        await HeldCalls(store, FixedClock(NOON + 200), Config(), EventBus(), CHANNELS).start_allowed(
            FailingGate(), tasks
        )
    assert await store.read(find_everywhere, ADA) == []
    ((said,),) = await store.read(lambda db: db.rows("SELECT payload FROM outbox"))
    assert f"Allowed by forgotten, {BOB}. It failed: the room is away." in said


async def test_who_answered_is_not_forgotten_before_the_agent_was_told(store: SqliteStore, tmp_path: Path) -> None:
    def answer_both(db: Db) -> Request:
        settle(db)
        request = ask_two_things(db)
        answer_question(db, CHANNELS, request.id, 0, "zebra street", EVE, NOON + 1, HERE)
        return answer_question(db, CHANNELS, request.id, 1, "noon", ADA, NOON + 2, HERE).request

    request = await store.write(answer_both)
    for who in (ADA, EVE):
        with pytest.raises(Invalid, match="not carried out"):
            await forget(store, tmp_path, who)
    left = await store.read(requests.get, request.id)
    assert left is not None and left.answer == request.answer


@pytest.mark.slow
async def test_who_decided_with_others_leaves_no_name(store: SqliteStore, tmp_path: Path) -> None:
    def agree(db: Db) -> Request:
        settle(db)
        request = hold_call(db, editable=True, quorum=2)
        decide(db, CHANNELS, request.id, ALLOW_ONCE, ADA, NOON + 1)
        done = decide(db, CHANNELS, request.id, ALLOW_ONCE, BOB, NOON + 2)
        assert done.decided
        return done.request

    request = await store.write(agree)
    actors = [row[2] for row in await store.read(audit.list_latest, 100) if row[3] == "request.decide"]
    assert sorted(actors) == [ADA, ADA, BOB]  # her vote, and the decision of each
    await forget(store, tmp_path, ADA)
    assert await store.read(find_everywhere, ADA) == []
    left = await store.read(requests.get, request.id)
    assert left is not None and left.answered_by == f"forgotten, {BOB}"


@pytest.mark.slow
async def test_who_answered_one_of_several_questions_leaves_no_word(store: SqliteStore, tmp_path: Path) -> None:
    def answer_both(db: Db) -> None:
        settle(db)
        request = ask_two_things(db)
        assert answer_question(db, CHANNELS, request.id, 0, "zebra street", EVE, NOON + 1, HERE).kept
        assert answer_question(db, CHANNELS, request.id, 1, "noon", ADA, NOON + 2, HERE).decided
        requests.record_notified(db, request.id, NOON + 3)

    await store.write(answer_both)
    await forget(store, tmp_path, EVE)
    assert [*await store.read(find_everywhere, EVE), *await store.read(find_everywhere, "zebra")] == []


async def test_a_question_of_which_she_answered_a_part_is_withdrawn(store: SqliteStore, tmp_path: Path) -> None:
    """The conversation that asked it begins anew, so nobody waits for the rest."""

    def answer_one(db: Db) -> Request:
        settle(db)
        request = ask_two_things(db)
        assert answer_question(db, CHANNELS, request.id, 0, "zebra street", EVE, NOON + 1, HERE).kept
        return request

    request = await store.write(answer_one)
    await forget(store, tmp_path, EVE)
    assert [*await store.read(find_everywhere, EVE), *await store.read(find_everywhere, "zebra")] == []
    left = await store.read(requests.get, request.id)
    assert left is not None and left.state is RequestState.WITHDRAWN


async def test_a_call_on_which_she_voted_goes_on_waiting_without_her_vote(store: SqliteStore, tmp_path: Path) -> None:
    def vote(db: Db) -> Request:
        settle(db)
        request = hold_call(db, editable=True, quorum=2)
        decide(db, CHANNELS, request.id, ALLOW_ONCE, ADA, NOON + 1)
        return request

    request = await store.write(vote)
    await forget(store, tmp_path, ADA)
    left = await store.read(requests.get, request.id)
    assert left is not None and left.state is RequestState.PENDING
    assert not (await store.write(decide, CHANNELS, request.id, ALLOW_ONCE, BOB, NOON + 200)).decided


@pytest.mark.slow
async def test_a_room_is_asked_about_for_the_others_when_who_wrote_first_is_forgotten(
    store: SqliteStore, tmp_path: Path
) -> None:
    def write_both(db: Db) -> Request:
        settle(db)
        mention(db, "zebra", EVE)
        mention(db, "two", MAL)
        assert list_states(db, MAL) == [("two", "held")]
        (asked,) = waiting_requests.list_pending(db)
        return asked

    asked = await store.write(write_both)
    await forget(store, tmp_path, EVE)
    assert [*await store.read(find_everywhere, EVE), *await store.read(find_everywhere, "zebra")] == []
    await store.write(move_due, RULES, CHANNELS, NOON + 101)
    (again,) = await store.read(waiting_requests.list_pending)
    assert (again.id, again.about, again.input["text"]) == (asked.id, MAL, "two")
    assert await store.read(request_cards.list_for_request, asked.id)
    await store.write(move_due, RULES, CHANNELS, NOON + 700 * SECOND)
    assert await store.read(list_states, MAL) == [("two", "refused")]


async def test_a_room_in_which_she_alone_wrote_is_not_asked_about_any_more(store: SqliteStore, tmp_path: Path) -> None:
    def write(db: Db) -> Any:
        settle(db)
        mention(db, "one", EVE)

    await store.write(write)
    await forget(store, tmp_path, EVE)
    assert await store.read(waiting_requests.list_pending) == []
