"""The key of a call: the same for a call that is made again, another for a further one."""

from pathlib import Path

import pytest

from gatepost.core.records import replace
from gatepost.core.registry import load_package
from gatepost.gate import call_keys
from gatepost.gate.call_keys import CallKeys
from gatepost.store.engine.sqlite_store import SqliteStore
from gatepost.store.sessions import tool_calls, turns
from gatepost.store.sessions.turns import Turn
from gatepost_testing.gate_agent import GateAgent


@pytest.fixture
async def agent(tmp_path: Path, store: SqliteStore) -> GateAgent:
    load_package("gatepost.tools")
    return await GateAgent.create(tmp_path / "h", store)


async def turn_of(agent: GateAgent) -> Turn:
    turn = await agent.store.read(turns.find_open, agent.session.id)
    assert turn is not None
    return turn


@pytest.mark.slow
async def test_stranger_21_equal_calls_are_numbered_and_their_arguments_need_no_order(agent: GateAgent) -> None:
    made, turn = CallKeys(agent.store), await turn_of(agent)
    first = await made.identify(turn, "send", {"text": "x", "chatJid": None})
    second = await made.identify(turn, "send", {"chatJid": None, "text": "x"})
    other = await made.identify(turn, "send", {"text": "y", "chatJid": None})
    assert first and second and other
    assert first.digest == second.digest != other.digest
    assert (first.number, second.number, other.number) == (1, 2, 1)
    assert len({first.key, second.key, other.key}) == 3


@pytest.mark.slow
async def test_stranger_21_a_call_that_failed_or_was_cut_off_is_the_same_call_when_it_is_made_again(
    agent: GateAgent,
) -> None:
    made, turn = CallKeys(agent.store), await turn_of(agent)
    first, second = await made.identify(turn, "send", {}), await made.identify(turn, "send", {})
    assert first and second
    made.failed(second)
    made.failed(first)
    assert await made.identify(turn, "send", {}) == first
    assert await made.identify(turn, "send", {}) == second


async def test_stranger_21_the_next_attempt_repeats_what_its_agent_did_not_go_on_from(agent: GateAgent) -> None:
    made, turn = CallKeys(agent.store), await turn_of(agent)
    known, unknown = await made.identify(turn, "send", {}), await made.identify(turn, "send", {})
    assert known and unknown
    await agent.store.write(tool_calls.record_start, known)
    made.answered(known)
    made.settle_answered()
    await agent.store.write(tool_calls.record_start, unknown, lane=turn.session_id)  # behind what was posted
    made.answered(unknown)

    after, again = CallKeys(agent.store), replace(turn, attempt=2)
    assert await after.identify(again, "send", {}) == unknown
    third = await after.identify(again, "send", {})
    assert third is not None and third.number == 3


async def test_stranger_21_what_a_turn_called_is_forgotten_with_its_end(agent: GateAgent) -> None:
    made, turn = CallKeys(agent.store), await turn_of(agent)
    call = await made.identify(turn, "send", {})
    assert call is not None
    await agent.store.write(tool_calls.record_start, call)
    await agent.store.write(turns.cancel, turn.id, "stopped", agent.deps.clock.now())
    await agent.store.write(tool_calls.record_settled, [call])  # it ended meanwhile
    assert await agent.store.read(tool_calls.list_for_turn, turn.id) == []


async def test_stranger_21_calls_beyond_all_bounds_have_no_identity(
    agent: GateAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(call_keys, "MOST_CALLS", 2)
    made, turn = CallKeys(agent.store), await turn_of(agent)
    assert await made.identify(turn, "send", {"n": 1}) and await made.identify(turn, "send", {"n": 2})
    assert await made.identify(turn, "send", {"n": 3}) is None


async def test_stranger_21_a_repeated_send_is_one_message(agent: GateAgent) -> None:
    turn = await turn_of(agent)
    caller = replace(agent.caller, running=lambda: turn, keys=CallKeys(agent.store))
    first = await agent.dispatch.call(caller, "send", b'{"text": "hello"}', "c.1")
    assert not first.failed
    later = replace(turn, attempt=2)
    caller = replace(agent.caller, running=lambda: later, keys=CallKeys(agent.store))
    again = await agent.dispatch.call(caller, "send", b'{"text": "hello"}', "d.1")
    further = await agent.dispatch.call(caller, "send", b'{"text": "hello"}', "d.2")
    assert again.structured == first.structured != further.structured
