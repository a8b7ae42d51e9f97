"""How an errand comes back: once, to the conversation that gave it out, with what was said or the reason why not."""

import json
from pathlib import Path
from typing import Any

import pytest

from gatepost.core.registry import load_package
from gatepost.flow.errand_loop import stop_errand
from gatepost.flow.errands import return_result
from gatepost.flow.sessions.session_stop import stop_own_work, stop_session
from gatepost.messages.outbound import Op
from gatepost.store.engine.sqlite_store import SqliteStore
from gatepost.store.messages import inbox, messages, outbox
from gatepost.store.messages.inbox import InboxState
from gatepost.store.messages.messages import Message
from gatepost.store.messages.outbox import EffectOrigin, EffectState, NewEffect
from gatepost.store.money import ledger
from gatepost.store.port import Db
from gatepost.store.rights import requests
from gatepost.store.rights.requests import NewRequest, RequestKind
from gatepost.store.rooms import origins
from gatepost.store.sessions import agents, errands, groups, sessions, turn_claims, turns
from gatepost.store.sessions.errands import CUT, LONGEST_RESULT, Errand, ErrandState
from gatepost.store.sessions.sessions import SessionMode
from gatepost.store.sessions.turn_failures import FailureCause, TurnRetryPolicy, record_failure
from gatepost.store.sessions.turns import Turn
from gatepost.tools.call import Caller
from gatepost_testing.gate_agent import MINUTE, ROOM, GateAgent

load_package("gatepost.tools")

NOW = 2_000_000_000_000_000
POLICY = TurnRetryPolicy(most_tries=1)


class ErrandDesk:
    """A group `acme` that works for a person, and one below it that works for `acme`."""

    def __init__(self, agent: GateAgent, store: SqliteStore) -> None:
        self.agent, self.store = agent, store

    @classmethod
    async def create(cls, path: Path, store: SqliteStore) -> "ErrandDesk":
        def add(db: Db) -> None:
            for folder in ("acme", "acme/eng", "acme/eng/sre"):
                groups.add(db, folder, folder, "scripted", 1)

        await store.write(add)
        return cls(await GateAgent.create(path, store, "acme"), store)

    async def give(self, text: str = "look", **more: Any) -> Errand:
        answer = await self.agent.call("delegate_group", group="acme/eng", prompt=text, **more)
        found = await self.store.read(errands.get, json.loads(answer.structured or "{}")["errand"])
        assert found is not None
        return found

    async def begin(self, session_id: str) -> Turn:
        claim = await self.store.write(turn_claims.claim, session_id, "scripted", "test", NOW, MINUTE, 20)
        assert claim is not None
        await self.store.write(turns.begin, claim.turn.id, claim.turn.epoch, claim.rows, NOW)
        return claim.turn

    async def say(self, turn: Turn, text: str, origin: EffectOrigin = EffectOrigin.RESULT, **payload: Any) -> None:
        """Said, and put away by the channel."""

        def add(db: Db) -> None:
            new = NewEffect(
                key=f"{turn.id}/{text[:20]}/{origin}",
                op=Op.FILE if payload else Op.SEND,
                origin=origin,
                instance=turn.instance,
                address=turn.address,
                thread=turn.thread,
                text=text,
                payload={"text": text, **payload},
                folder=turn.folder,
                session_id=turn.session_id,
                turn_id=turn.id,
            )
            effect = outbox.add(db, new, NOW)
            outbox.record_outcome(db, effect.id, EffectState.SENT, "", NOW)

        await self.store.write(add)

    async def finish(self, turn: Turn) -> None:
        assert await self.store.write(turns.finish, turn.id, turn.epoch, "{}", NOW)

    async def return_all(self) -> list[str]:
        """The sessions that were woken."""
        found = await self.store.read(errands.list_finished, None, 50)
        woken = [await self.store.write(return_result, each, NOW) for each in found]
        return [each for each in woken if each is not None]

    async def list_results(self, session_id: str) -> list[Message]:
        pairs = await self.store.read(inbox.list_open, session_id)
        return [message for _, message in pairs if message.content.get("event") == "errand"]


@pytest.fixture
async def desk(tmp_path: Path, store: SqliteStore) -> ErrandDesk:
    return await ErrandDesk.create(tmp_path, store)


async def test_what_a_turn_said_returns_once_with_the_errands_id(desk: ErrandDesk, store: SqliteStore) -> None:
    errand = await desk.give()
    turn = await desk.begin(errand.session_id)
    await desk.say(turn, "seven")
    await desk.say(turn, "one moment", EffectOrigin.STATUS)
    await desk.say(turn, "Sorry", EffectOrigin.NOTICE)
    assert await desk.return_all() == [], "its turn runs"
    await desk.finish(turn)

    assert await desk.return_all() == [desk.agent.session.id]
    assert await desk.return_all() == []
    assert await store.write(return_result, errand, NOW) is None, "whoever found it finished before"
    (result,) = await desk.list_results(desk.agent.session.id)
    assert (result.instance, result.address, result.text) == ("fake", ROOM, "seven")
    assert result.content["errand"] == errand.id and result.content["state"] == "done"
    chain = await store.read(origins.get_inherited, result.id)
    assert ([each.person for each in chain.origins], chain.depth) == (["fake:user/1"], 1)


async def test_nanoclaw_39_an_answer_lands_in_the_session_that_asked_with_its_files(
    desk: ErrandDesk, store: SqliteStore
) -> None:
    errand = await desk.give()
    newer = await store.write(
        sessions.find_or_add, SessionMode.PER_THREAD, "acme", "fake", "fake:room/3", "", desk.agent.deps.clock.now()
    )
    turn = await desk.begin(errand.session_id)
    files = [{"name": "../sum.txt", "mime": "text/plain", "path": "/gone", "size": 4}]
    await desk.say(turn, "here", EffectOrigin.TOOL, files=[*files, *files])
    await desk.finish(turn)

    assert await desk.return_all() == [desk.agent.session.id]
    assert await desk.list_results(newer.id) == []
    (result,) = await desk.list_results(desk.agent.session.id)
    assert [each["name"] for each in result.content["attachments"]] == ["sum.txt", "sum-2.txt"]
    assert all(each["path"].startswith("errands/") for each in result.content["attachments"])


@pytest.mark.slow
async def test_a_broken_turn_returns_as_an_error_once_it_is_given_up(desk: ErrandDesk, store: SqliteStore) -> None:
    errand = await desk.give()
    turn = await desk.begin(errand.session_id)
    await desk.say(turn, "so far")
    cause = FailureCause(reason="the model is away", final=True)
    await store.write(record_failure, turn.id, turn.epoch, cause, POLICY, NOW)

    assert await desk.return_all() == [desk.agent.session.id]
    (result,) = await desk.list_results(desk.agent.session.id)
    assert (result.content["state"], result.content["error"]) == ("failed", "the model is away")
    assert result.text == "so far"


async def test_a_turn_that_is_tried_again_returns_nothing_yet(desk: ErrandDesk, store: SqliteStore) -> None:
    errand = await desk.give()
    claim = await store.write(turn_claims.claim, errand.session_id, "scripted", "test", NOW, MINUTE, 20)
    assert claim is not None
    await store.write(record_failure, claim.turn.id, claim.turn.epoch, FailureCause(reason="x"), POLICY, NOW)
    assert await desk.return_all() == []


async def test_a_stop_of_the_group_that_works_returns_as_an_error(desk: ErrandDesk, store: SqliteStore) -> None:
    errand = await desk.give()
    turn = await desk.begin(errand.session_id)
    await store.write(turns.cancel, turn.id, "stopped by the operator", NOW)
    assert await desk.return_all() == [desk.agent.session.id]
    (result,) = await desk.list_results(desk.agent.session.id)
    assert result.content["error"] == "stopped by the operator"


async def test_a_removed_group_returns_as_an_error(desk: ErrandDesk, store: SqliteStore) -> None:
    await desk.give()
    await store.write(groups.remove, "acme/eng")
    assert await desk.return_all() == [desk.agent.session.id]
    (result,) = await desk.list_results(desk.agent.session.id)
    assert result.content["error"] == "the group acme/eng was removed"


async def test_nobody_is_woken_when_the_caller_is_gone(desk: ErrandDesk, store: SqliteStore) -> None:
    errand = await desk.give()
    await desk.finish(await desk.begin(errand.session_id))
    await store.write(sessions.close, desk.agent.session.id, NOW)
    assert await desk.return_all() == []
    ended = await store.read(errands.get, errand.id)
    assert ended is not None and ended.ended_at is not None and ended.result_id is None


async def test_it_waits_for_what_the_other_agent_gave_out_itself(
    tmp_path: Path, desk: ErrandDesk, store: SqliteStore
) -> None:
    first = await desk.give()
    turn = await desk.begin(first.session_id)
    person, desk.agent.caller = desk.agent.session, Caller("acme/eng", first.session_id, "scripted")
    answer = await desk.agent.call("send_to_agent", group="acme/eng/sre", text="deeper")
    second = await store.read(errands.get, json.loads(answer.structured or "{}")["errand"])
    assert second is not None and second.parent == first.id
    await desk.say(turn, "I am asking")
    await desk.finish(turn)
    assert await desk.return_all() == [], "the second is open"

    deepest = await desk.begin(second.session_id)
    await desk.say(deepest, "seven")
    await desk.finish(deepest)
    assert await desk.return_all() == [first.session_id]
    assert await desk.return_all() == [], "its result waits there for a turn"
    last = await desk.begin(first.session_id)
    assert last.thread == first.id
    await desk.say(last, "it is seven")
    await desk.finish(last)
    assert await desk.return_all() == [person.id]
    (result,) = await desk.list_results(person.id)
    assert result.text == "I am asking\n\nit is seven"


async def test_it_waits_for_a_person_who_must_agree_to_a_call_of_it(desk: ErrandDesk, store: SqliteStore) -> None:
    errand = await desk.give()
    turn = await desk.begin(errand.session_id)
    new = NewRequest(
        kind=RequestKind.CALL,
        name="c-1",
        folder="acme/eng",
        session_id=errand.session_id,
        turn_id=turn.id,
        tool="write_skill",
        input={},
        digest="d",
        about="write_skill",
        instance=turn.instance,
        address=turn.address,
        thread=turn.thread,
    )
    request, _ = await store.write(requests.add, new, NOW)
    await desk.finish(turn)
    assert await desk.return_all() == []
    await store.write(requests.record_notified, request.id, NOW)
    assert await desk.return_all() == [desk.agent.session.id]


async def test_a_long_result_is_cut_at_its_beginning(desk: ErrandDesk) -> None:
    errand = await desk.give()
    turn = await desk.begin(errand.session_id)
    await desk.say(turn, "a" * LONGEST_RESULT)
    await desk.say(turn, "the end")
    await desk.finish(turn)
    await desk.return_all()
    (result,) = await desk.list_results(desk.agent.session.id)
    assert result.text.startswith(f"{CUT} a") and result.text.endswith("a\n\nthe end")
    assert len(result.text) < LONGEST_RESULT + 100


async def test_an_open_errand_is_in_flight_although_nothing_of_it_waits(desk: ErrandDesk, store: SqliteStore) -> None:
    errand = await desk.give()
    own = await store.read(turns.find_open, desk.agent.session.id)
    assert own is not None
    waiting = tuple(entry.id for entry, _ in await store.read(inbox.list_open, desk.agent.session.id))
    await store.write(turns.begin, own.id, own.epoch, waiting, NOW)
    await desk.finish(own)
    await desk.finish(await desk.begin(errand.session_id))
    assert (await store.read(ledger.check, NOW)).in_flight == 1
    await desk.return_all()
    assert await store.read(errands.count_all_open) == 0


async def test_a_managed_agent_is_at_work_as_long_as_an_errand_of_it_is_open(
    desk: ErrandDesk, store: SqliteStore
) -> None:
    own = desk.agent.session.id
    assert await store.read(agents.count_waiting, own) == 0
    errand = await desk.give()
    await desk.finish(await desk.begin(errand.session_id))
    assert await store.read(agents.count_waiting, own) == 1
    await desk.return_all()
    assert await store.read(agents.count_waiting, own) == 1, "its result waits"


async def test_a_stopped_errand_ends_with_all_below_it_and_returns_nothing(
    desk: ErrandDesk, store: SqliteStore
) -> None:
    first = await desk.give()
    await desk.begin(first.session_id)
    desk.agent.caller = Caller("acme/eng", first.session_id, "scripted")
    assert not (await desk.agent.call("send_to_agent", group="acme/eng/sre", text="deeper")).failed
    channels = desk.agent.deps.channels
    await store.write(stop_session, channels, desk.agent.session.id, "fake:user/1", NOW)  # type: ignore[arg-type]

    ended = []
    while found := await store.read(errands.list_stopping, 10):
        ended += [(each.folder, await store.write(stop_errand, each, NOW)) for each in found]
    assert ended == [("acme/eng", True), ("acme/eng/sre", False)]
    assert await desk.return_all() == []
    assert (await store.read(ledger.check, NOW)).in_flight == 1  # the notice to people
    states = await store.read(lambda db: db.rows("SELECT state FROM errands"))
    assert states == [(ErrandState.CANCELLED,)] * 2
    rows = await store.read(lambda db: db.rows("SELECT state FROM inbox WHERE rights = 'agent'"))
    assert rows == [(InboxState.CANCELLED,)] * 2


async def test_who_stops_her_own_work_leaves_the_errands_of_others(desk: ErrandDesk, store: SqliteStore) -> None:
    errand = await desk.give()
    channels, own = desk.agent.deps.channels, desk.agent.session.id
    await store.write(stop_own_work, channels, own, ("fake:user/2",), "fake:user/2", NOW)  # type: ignore[arg-type]
    assert await store.read(errands.list_stopping, 10) == []
    done = await store.write(
        stop_own_work,
        channels,
        own,
        ("fake:user/1",),
        "fake:user/1",
        NOW,
    )
    assert done.withdrawn == 1
    assert [each.id for each in await store.read(errands.list_stopping, 10)] == [errand.id]


async def test_a_second_errand_in_the_same_conversation_is_not_stopped_with_the_first(
    desk: ErrandDesk, store: SqliteStore
) -> None:
    first, second = await desk.give("one"), await desk.give("two")
    turn = await desk.begin(first.session_id)
    assert turn.thread == first.id
    await store.write(errands.mark_stopping, [second], "stopped by x")
    (marked,) = await store.read(errands.list_stopping, 10)
    assert await store.write(stop_errand, marked, NOW) is False
    assert (await store.read(turns.find_open, first.session_id)) is not None


async def test_a_message_of_another_thread_is_no_part_of_the_result(desk: ErrandDesk, store: SqliteStore) -> None:
    first, second = await desk.give("one"), await desk.give("two")
    one = await desk.begin(first.session_id)
    await desk.say(one, "first")
    await desk.finish(one)
    two = await desk.begin(second.session_id)
    await desk.say(two, "second")
    await desk.finish(two)
    await desk.return_all()
    results = await desk.list_results(desk.agent.session.id)
    assert [(each.content["errand"], each.text) for each in results] == [(first.id, "first"), (second.id, "second")]
    assert await store.read(messages.get, first.message_id) is not None
