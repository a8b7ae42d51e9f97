"""The loop that runs what was allowed: one call that takes long holds up nobody else."""

import asyncio
from contextlib import suppress
from typing import Any

import pytest
from msgspec import Struct
from tests.store.conftest import make_desk

from gatepost.core.event_bus import EventBus
from gatepost.core.settings import Config
from gatepost.flow.delivery.outgoing_messages import ChannelInstances
from gatepost.flow.requests.agent_questions import AgentQuestions
from gatepost.flow.requests.choices import ALLOW_ONCE, list_choices
from gatepost.flow.requests.deciding import decide
from gatepost.flow.requests.held_calls import HeldCalls
from gatepost.flow.requests.provider_answers import ProviderAnswers
from gatepost.flow.requests.request_loop import RequestLoop, move_due
from gatepost.messages.outbound import Op
from gatepost.store import database_lives, groups, inbox, incarnations, outbox, requests, sessions, turns
from gatepost.store.database_lives import DatabaseLife
from gatepost.store.outbox import EffectOrigin, EffectState, NewEffect
from gatepost.store.port import Db
from gatepost.store.requests import NewRequest, Request, RequestKind, RequestState
from gatepost.store.sqlite_store import SqliteStore
from gatepost.testing.clock import NOON, FixedClock
from gatepost.testing.waiting import PATIENCE_S
from gatepost.tools.call import Caller

from .acme_people import BOB, RULES, add_people
from .acme_people import REACH as PEOPLE


class Answer(Struct):
    text: str = "done"
    failed: bool = False
    code: int = 0


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


REACH = ChannelInstances({})


def prepare(db: Db) -> list[str]:
    groups.add(db, "acme", "Acme", "scripted", NOON)
    found = []
    for room in ("fake:room/1", "fake:room/2"):
        session_id = sessions.find_or_add(db, "per-thread", "acme", "fake", room, "", NOON).id
        for number in range(2):
            new = NewRequest(
                kind=RequestKind.CALL, name=str(number), folder="acme", session_id=session_id, tool="send", input={}
            )
            request, _ = requests.add(db, new, NOON)
            decide(db, REACH, request.id, ALLOW_ONCE, "operator", NOON)
        found.append(session_id)
    return found


async def test_a_call_that_takes_long_holds_up_no_other_session(store: SqliteStore) -> None:
    slow, other = await store.write(prepare)
    clock, bells, gate = FixedClock(), EventBus(), SlowGate(slow)
    calls = HeldCalls(store, clock, Config(), bells, REACH)
    questions = AgentQuestions(store, clock, Config(), bells, REACH)
    answers = ProviderAnswers(store, clock, bells, NoProviders())
    loop = RequestLoop(store, clock, Config(), bells, REACH, calls, gate, answers, questions)
    woken, twice = list[str](), asyncio.Event()

    def wake(session_id: str) -> None:
        woken.append(session_id)
        if woken.count(other) == 2:
            twice.set()

    bells.on_session(wake)
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
