"""The loop that runs what was allowed: one call that takes long holds up nobody else."""

import asyncio
from contextlib import suppress
from typing import Any

import pytest
from msgspec import Struct
from tests.store.conftest import make_desk

from gatepost.core.event_bus import EventBus
from gatepost.core.records import replace
from gatepost.core.settings import Config
from gatepost.flow.delivery.outgoing_messages import ChannelInstances
from gatepost.flow.requests.agent_questions import AgentQuestions
from gatepost.flow.requests.choices import ALLOW_ONCE, list_choices
from gatepost.flow.requests.decide import decide
from gatepost.flow.requests.held_calls import AT_ONCE, HeldCalls
from gatepost.flow.requests.request_loop import ProviderAnswers, RequestLoop, move_due
from gatepost.messages.outbound import Op
from gatepost.serve.control.arguments.requests import ShowRequestArgs
from gatepost.serve.control.operations.requests import show
from gatepost.store.engine.sqlite_store import SqliteStore
from gatepost.store.gateways import database_lives, incarnations
from gatepost.store.gateways.database_lives import DatabaseLife
from gatepost.store.messages import inbox, outbox
from gatepost.store.messages.outbox import EffectOrigin, EffectState, NewEffect
from gatepost.store.port import Db
from gatepost.store.rights import requests, switches
from gatepost.store.rights.requests import REQUESTS, NewRequest, Request, RequestKind, RequestState
from gatepost.store.rooms import direct_rooms
from gatepost.store.sessions import groups, sessions, turns
from gatepost.store.sessions.sessions import SessionMode
from gatepost.tools.call import Caller
from gatepost_testing.clock import NOON, FixedClock
from gatepost_testing.waiting import PATIENCE_S

from .acme_people import ADA, BOB, KIND, RULES, add_people, hold_call
from .acme_people import CHANNELS as PEOPLE


class Answer(Struct):
    text: str = "done"
    failed: bool = False
    code: int = 0
    outcome: str = ""


class SlowGate:
    """It never answers the first session, and counts what it is asked at once."""

    def __init__(self, slow: str) -> None:
        self.slow, self.asked = slow, list[str]()
        self.other = asyncio.Event()

    async def call(self, caller: Caller, name: str, raw: bytes, call_id: str, *, approved: Request) -> Answer:
        self.asked.append(caller.session_id or "")
        if caller.session_id == self.slow:
            await asyncio.Event().wait()
        self.other.set()
        return Answer("Unknown tool: send", code=-32602)


class NoProviders:
    def list_asking(self) -> list[str]:
        return []

    def is_awaited(self, session_id: str, request: str) -> bool:
        return False

    def answer(self, session_id: str, request: str, verdict: str, given: dict[str, Any]) -> bool:
        pytest.fail("no provider asks")


CHANNELS = ChannelInstances({})
UNEDITED = ChannelInstances({"fake": replace(KIND, features=frozenset())})


def prepare(db: Db) -> list[str]:
    groups.add(db, "acme", "Acme", "scripted", NOON)
    found = []
    for room in ("fake:room/1", "fake:room/2"):
        session_id = sessions.find_or_add(db, SessionMode.PER_THREAD, "acme", "fake", room, "", NOON).id
        for number in range(2):
            new = NewRequest(
                kind=RequestKind.CALL, name=str(number), folder="acme", session_id=session_id, tool="send", input={}
            )
            request, _ = requests.add(db, new, NOON)
            decide(db, CHANNELS, request.id, ALLOW_ONCE, "operator", NOON)
        found.append(session_id)
    return found


async def test_a_call_that_takes_long_holds_up_no_other_session(store: SqliteStore) -> None:
    slow, other = await store.write(prepare)
    clock, events, gate = FixedClock(), EventBus(), SlowGate(slow)
    calls = HeldCalls(store, clock, Config(), events, CHANNELS)
    questions = AgentQuestions(store, clock, Config(), events, CHANNELS)
    answers = ProviderAnswers(store, clock, events, NoProviders())
    loop = RequestLoop(store, clock, Config(), events, CHANNELS, calls, gate, answers, questions)
    woken, twice = list[str](), asyncio.Event()

    def wake(session_id: str) -> None:
        woken.append(session_id)
        if woken.count(other) == 2:
            twice.set()

    events.on_session(wake)
    task = asyncio.create_task(loop.run())
    await asyncio.wait_for(twice.wait(), PATIENCE_S)
    assert gate.asked.count(slow) == 1  # its own calls keep their order
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    done = await store.read(lambda db: [each for each in requests.REQUESTS.list(db, "") if each.session_id == other])
    assert all(each.state is RequestState.ALLOWED and each.notified_at is not None for each in done)

    def read_told(db: Db) -> list[str]:
        return [row[0] for row in db.rows("SELECT content FROM messages WHERE kind = 'system' ORDER BY id")]

    told = await store.read(read_told)
    assert len(told) == 2 and all('"error"' in each for each in told)  # no such tool any more: it is no result


class AnsweringGate:
    def __init__(self, answer: Answer) -> None:
        self.answer = answer

    async def call(self, caller: Caller, name: str, raw: bytes, call_id: str, *, approved: Request) -> Answer:
        return self.answer


class CountingGate(AnsweringGate):
    def __init__(self) -> None:
        super().__init__(Answer())
        self.asked = list[str]()

    async def call(self, caller: Caller, name: str, raw: bytes, call_id: str, *, approved: Request) -> Answer:
        self.asked.append(call_id)
        return self.answer


@pytest.mark.parametrize("switch", [switches.PANIC, switches.name_rest("acme")])
async def test_what_was_allowed_waits_while_everything_is_stopped_or_its_agent_rests(
    store: SqliteStore, switch: str
) -> None:
    await store.write(prepare)
    await store.write(switches.turn_on, switch, "", "operator", NOON)
    calls, gate = HeldCalls(store, FixedClock(), Config(), EventBus(), CHANNELS), CountingGate()
    for wanted in (0, 2):  # one of each session at once
        async with asyncio.TaskGroup() as tasks:
            await calls.start_allowed(gate, tasks)
        assert len(gate.asked) == wanted
        await store.write(switches.turn_off, switch)


async def test_calls_of_an_agent_that_rests_keep_no_other_from_its_own(store: SqliteStore) -> None:
    def add(db: Db) -> str:
        prepare(db)
        groups.add(db, "beta", "Beta", "scripted", NOON)
        for number in range(AT_ONCE):
            session_id = sessions.find_or_add(db, SessionMode.PER_THREAD, "acme", "fake", f"fake:{number}", "", NOON).id
            allow(db, "acme", session_id)
        switches.turn_on(db, switches.name_rest("acme"), "", "operator", NOON)
        other = sessions.find_or_add(db, SessionMode.PER_THREAD, "beta", "fake", "fake:room/1", "", NOON)
        return allow(db, "beta", other.id)

    def allow(db: Db, folder: str, session_id: str) -> str:
        new = NewRequest(
            kind=RequestKind.CALL, name=session_id, folder=folder, session_id=session_id, tool="send", input={}
        )
        request, _ = requests.add(db, new, NOON)
        decide(db, CHANNELS, request.id, ALLOW_ONCE, "operator", NOON)
        return request.id

    wanted = await store.write(add)
    calls, gate = HeldCalls(store, FixedClock(), Config(), EventBus(), CHANNELS), CountingGate()
    async with asyncio.TaskGroup() as tasks:
        await calls.start_allowed(gate, tasks)
    assert gate.asked == [wanted]


INTERNALS = "send: fake:room/1 refused {'text': 'original'} (p-1m7pa9psfk9spmcz8mg5)"
AWAY = Answer(INTERNALS, failed=True, outcome="It failed: the room is away.")


async def run_allowed(store: SqliteStore, channels: ChannelInstances, answer: Answer, by: str) -> list[tuple[str, str]]:
    """Have somebody allow a call that Ada was asked about, and run it. What people read since: the room, the text."""

    def allow(db: Db) -> int:
        add_people(db)
        request = hold_call(db)
        decide(db, channels, request.id, ALLOW_ONCE, by, NOON)
        return max(each.id for each in outbox.OUTBOX.list(db, ""))

    before = await store.write(allow)
    events, woken = EventBus(), list[tuple[str, str]]()
    events.on_room(lambda *room: woken.append(room))
    calls = HeldCalls(store, FixedClock(), Config(), events, channels)
    async with asyncio.TaskGroup() as tasks:
        await calls.start_allowed(AnsweringGate(answer), tasks)
    said = await store.read(lambda db: outbox.OUTBOX.list(db, "WHERE id > ? ORDER BY id", before))
    assert sorted(woken) == sorted({(each.instance, each.address) for each in said})
    assert not any(word in each.payload["text"].partition("Allowed")[2] for each in said for word in INTERNALS.split())
    return [(f"{each.op} {each.address}", each.payload["text"].splitlines()[-1]) for each in said]


async def test_the_card_of_an_allowed_call_that_failed_says_so_in_a_sentence(store: SqliteStore) -> None:
    done = await run_allowed(store, PEOPLE, AWAY, ADA)
    assert done == [("edit fake:direct/ada", f"Allowed by {ADA}. It failed: the room is away.")]


async def test_a_failure_without_words_for_people_is_told_in_ours(store: SqliteStore) -> None:
    done = await run_allowed(store, PEOPLE, Answer(INTERNALS, failed=True), ADA)
    assert done == [("edit fake:direct/ada", f"Allowed by {ADA}. It failed: the tool reported an error.")]


async def test_who_looks_an_allowed_call_up_reads_how_it_failed(store: SqliteStore) -> None:
    await run_allowed(store, PEOPLE, AWAY, ADA)
    [asked] = await store.read(lambda db: REQUESTS.list(db, ""))
    shown = await store.read(show, ShowRequestArgs(id=asked.id), NOON)
    assert shown.decision.startswith("Allowed by ") and shown.decision.endswith(". It failed: the room is away.")


async def test_where_cards_cannot_be_edited_who_allowed_a_call_that_failed_reads_one_line(store: SqliteStore) -> None:
    done = await run_allowed(store, UNEDITED, AWAY, ADA)
    assert done == [("send fake:direct/ada", f"Allowed by {ADA}. It failed: the room is away.")]


@pytest.mark.parametrize("edits", [True, False])
async def test_who_allowed_a_call_without_a_card_is_told_in_their_direct_room(store: SqliteStore, edits: bool) -> None:
    words = f"Allowed by {BOB}. It failed: the room is away."
    done = await run_allowed(store, PEOPLE if edits else UNEDITED, AWAY, BOB)
    assert done == [("edit fake:direct/ada", words)] * edits + [("send fake:direct/bob", words)]


async def test_a_call_whose_outcome_was_told_meanwhile_is_not_said_to_have_failed(store: SqliteStore) -> None:
    class ToldElsewhere(AnsweringGate):
        async def call(self, caller: Caller, name: str, raw: bytes, call_id: str, *, approved: Request) -> Answer:
            await store.write(requests.record_notified, approved.id, NOON)
            return self.answer

    def allow(db: Db) -> int:
        add_people(db)
        decide(db, PEOPLE, hold_call(db).id, ALLOW_ONCE, ADA, NOON)
        return max(each.id for each in outbox.OUTBOX.list(db, ""))

    before = await store.write(allow)
    async with asyncio.TaskGroup() as tasks:
        await HeldCalls(store, FixedClock(), Config(), EventBus(), PEOPLE).start_allowed(ToldElsewhere(AWAY), tasks)
    assert await store.read(lambda db: outbox.OUTBOX.list(db, "WHERE id > ?", before)) == []


async def test_who_allowed_a_call_is_told_of_its_failure_where_a_channel_still_is(store: SqliteStore) -> None:
    await store.write(direct_rooms.add, BOB, "gone", "gone:bob", NOON + 1)
    done = await run_allowed(store, UNEDITED, AWAY, BOB)
    assert [place for place, _ in done] == ["send fake:direct/bob"]


async def test_an_allowed_call_that_succeeds_says_nothing_more(store: SqliteStore) -> None:
    assert await run_allowed(store, PEOPLE, Answer(), ADA) == []


async def test_a_call_that_was_cut_off_is_not_said_to_have_failed(store: SqliteStore) -> None:
    def begin(db: Db) -> None:
        add_people(db)
        request = hold_call(db)
        decide(db, PEOPLE, request.id, ALLOW_ONCE, ADA, NOON)
        requests.settle(db, request.id, NOON)

    await store.write(begin)
    calls = HeldCalls(store, FixedClock(), Config(), EventBus(), PEOPLE)
    for _ in range(2):
        async with asyncio.TaskGroup() as tasks:
            await calls.start_allowed(AnsweringGate(Answer()), tasks)
    *_, last = await store.read(lambda db: outbox.OUTBOX.list(db, "ORDER BY id"))
    assert last.key.endswith(":decided:failed")
    assert last.payload["text"].endswith("The gateway stopped while it ran: it may have been done, or not.")


def test_an_owner_is_asked_once_about_what_a_failover_left_open(db: Db) -> None:
    """Nothing goes out again by itself; whoever decides has it sent, or not."""
    add_people(db)
    new = NewEffect(
        key="k",
        op=Op.SEND,
        origin=EffectOrigin.RESULT,
        instance="fake",
        address="fake:room/9",
        text="x",
        payload={"text": "x"},
    )
    effect = outbox.add(db, new, NOON)
    held = database_lives.hold_effects(db, NOON)
    database_lives.add(db, DatabaseLife("1/2", "a", 0, held, NOON))

    assert move_due(db, RULES, PEOPLE, NOON).rooms == {("fake", "fake:direct/bob")}
    assert move_due(db, RULES, PEOPLE, NOON).rooms == set()
    [request] = requests.REQUESTS.list(db, "WHERE kind = 'restored'")
    assert outbox.claim_head(db, "fake", "fake:room/9", "pump", NOON, 1) is None
    decided = decide(db, PEOPLE, request.id, list_choices(request)[0], BOB, NOON)
    assert decided.decided and ("fake", "fake:room/9") in decided.rooms
    found = outbox.get(db, effect.id)
    assert found is not None and found.state is EffectState.PENDING


@pytest.mark.parametrize("sends", [True, False])
def test_a_turn_that_a_failover_left_open_is_run_again_only_if_an_owner_says_so(db: Db, sends: bool) -> None:
    """Its end may be forgotten, and its answer said. An agent that has it again is told what it had said."""
    add_people(db)
    desk = make_desk(db)
    turn = desk.begun("first")
    desk.say("part", "I look", turn=turn)
    desk.hear("second")
    database_lives.add(db, DatabaseLife("1/2", "a", 0, incarnations.hold_open(db, NOON), NOON))

    assert turns.list_open(db) == [] and desk.claim() is None
    move_due(db, RULES, PEOPLE, NOON)
    [request] = requests.REQUESTS.list(db, "WHERE kind = 'restored'")
    assert request.input == {"perhaps said before": "1", "perhaps answered before": "2"}
    assert desk.states() == ["held", "held"] and desk.claim() is None
    decide(db, PEOPLE, request.id, list_choices(request)[0 if sends else 1], BOB, NOON)
    claim = desk.claim()
    if not sends:
        assert claim is None and desk.states() == ["cancelled", "cancelled"]
        return
    assert claim is not None
    [told] = [message for _, message in inbox.list_for_turn(db, claim.turn.id) if message.kind == "system"]
    assert len(claim.rows) == 3
    assert (told.content["event"], told.content["done"][0]["text"]) == ("continued", "I look")


@pytest.mark.parametrize("runs", [True, False])
def test_a_call_that_was_allowed_before_a_failover_runs_only_if_an_owner_says_so(db: Db, runs: bool) -> None:
    """It has perhaps run, and the database forgot it."""
    add_people(db)
    prepare(db)
    allowed = requests.list_unnotified(db, (RequestKind.CALL,), 10)
    database_lives.add(db, DatabaseLife("1/2", "a", 0, incarnations.hold_open(db, NOON), NOON))

    assert len(allowed) == 4 and requests.list_unnotified(db, (RequestKind.CALL,), 10) == []
    move_due(db, RULES, PEOPLE, NOON)
    [request] = requests.REQUESTS.list(db, "WHERE kind = 'restored'")
    assert request.input == {"allowed, perhaps not done": "4"}
    decide(db, PEOPLE, request.id, list_choices(request)[0 if runs else 1], BOB, NOON)
    assert len(requests.list_unnotified(db, (RequestKind.CALL,), 10)) == (4 if runs else 0)


def count_cards(db: Db) -> int:
    row = db.row("SELECT COUNT(*) FROM request_cards")
    assert row is not None
    return int(row[0])


LONG = {"text": "\u6f22" * 20_000}


def test_long_cards_that_are_due_together_are_made_in_several_transactions(db: Db) -> None:
    """Everybody's writes wait for one: rendering a long card takes some hundredths of a second."""
    add_people(db)
    for number in range(5):
        hold_call(db, name=f"t/{number}", digest=str(number), input=LONG)
    assert count_cards(db) == 5  # Ada's
    later = NOON + RULES.escalate
    made = []
    while move_due(db, RULES, PEOPLE, later).more:
        made.append(count_cards(db))
    assert made == [6, 7, 8, 9] and count_cards(db) == 10  # and Bob's


def test_a_long_card_that_many_must_agree_to_is_shown_to_one_after_the_other_at_once(db: Db) -> None:
    add_people(db)
    asked = hold_call(db, input=LONG, quorum=2)
    assert (asked.quorum, count_cards(db)) == (2, 1)
    assert not move_due(db, RULES, PEOPLE, NOON).more
    assert count_cards(db) == 2
    move_due(db, RULES, PEOPLE, NOON)
    assert count_cards(db) == 2  # nobody else is asked before it is time
