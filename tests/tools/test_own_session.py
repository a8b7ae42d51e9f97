"""work.md and the facts of the session."""

import json
import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any, TypeVar, TypeVarTuple

import pytest

from gatepost.access.tiers import Tier
from gatepost.core.process.thread_pools import FairThreadPool
from gatepost.core.records import replace
from gatepost.core.registry import load_package
from gatepost.gate.dispatch import INVALID_PARAMS, Dispatch
from gatepost.gate.tool_answers import LARGEST_ANSWER, ToolAnswer
from gatepost.store.engine.sqlite_store import SqliteStore
from gatepost.store.port import Db
from gatepost.store.sessions import groups, sessions, turns
from gatepost.store.sessions.sessions import SessionMode
from gatepost.tools.contract import TOOLS
from gatepost.tools.own_session import LARGEST_WORK
from gatepost_testing.gate_agent import FOLDERS, ROOM, GateAgent, is_invalid

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

load_package("gatepost.tools")

GOOD_ARGUMENTS: dict[str, dict[str, Any]] = {"get_work": {}, "set_work": {"content": "x"}, "inspect_session": {}}


@pytest.fixture
async def agent(tmp_path: Path, store: SqliteStore) -> GateAgent:
    return await GateAgent.create(tmp_path, store)


def result(answer: ToolAnswer) -> dict[str, Any]:
    assert not answer.failed and not answer.code, answer.text
    found = json.loads(answer.text)
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize("name", sorted(GOOD_ARGUMENTS))
@pytest.mark.parametrize("tier", list(Tier))
async def test_each_tool_is_there_for_its_tiers_and_for_no_other(
    name: str, tier: Tier, tmp_path: Path, store: SqliteStore
) -> None:
    agent = await GateAgent.create(tmp_path, store, FOLDERS[tier])
    answer = await agent.call(name, **GOOD_ARGUMENTS[name])
    if tier <= TOOLS[name].tier:
        assert result(answer)
    else:
        assert (answer.code, answer.text) == (INVALID_PARAMS, f"Unknown tool: {name}")


async def test_work_that_was_never_written_is_empty(agent: GateAgent) -> None:
    assert result(await agent.call("get_work")) == {"content": "", "exists": False}


async def test_what_is_set_is_what_is_got_and_it_is_written_down(agent: GateAgent) -> None:
    assert result(await agent.call("set_work", content="# plan\nship it ✓")) == {"ok": True}
    assert result(await agent.call("get_work")) == {"content": "# plan\nship it ✓", "exists": True}
    assert await agent.audited() == [("set_work", "allowed")]
    folder = agent.deps.home.group("acme/eng")
    assert [path.name for path in folder.iterdir()] == ["work.md"]
    assert (folder / "work.md").stat().st_uid == folder.stat().st_uid


async def test_work_that_is_a_link_is_neither_read_nor_written(agent: GateAgent, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("not yours")
    (agent.deps.home.group("acme/eng") / "work.md").symlink_to(secret)
    for answer in (await agent.call("get_work"), await agent.call("set_work", content="x")):
        assert answer.failed
        assert "not yours" not in answer.text
    assert secret.read_text() == "not yours"


async def test_too_much_work_is_refused(agent: GateAgent) -> None:
    answer = await agent.call("set_work", content="x" * (256 * 1024 + 1))
    assert answer.failed
    assert answer.text.startswith("content: ")
    assert not (agent.deps.home.group("acme/eng") / "work.md").exists()


async def test_bad_input_is_named(agent: GateAgent) -> None:
    for name, arguments, field in (("set_work", {}, "content"), ("get_work", {"x": 1}, "x")):
        answer = await agent.call(name, **arguments)
        assert is_invalid(answer)
        assert field in answer.text


async def test_a_session_tells_its_facts_and_its_room(agent: GateAgent) -> None:
    facts = result(await agent.call("inspect_session"))
    assert facts["session_id"] == agent.session.id
    assert (facts["folder"], facts["tier"], facts["provider"]) == ("acme/eng", 2, "scripted")
    assert (facts["state"], facts["seq"], facts["attempt"]) == ("running", 1, 1)
    assert str(facts["turn"]).startswith("t-")
    assert facts["room"] == ROOM
    assert result(await agent.call("inspect_session", limit=None))["room"] == ROOM


async def test_a_session_that_spans_rooms_tells_the_address_of_its_turn(tmp_path: Path, store: SqliteStore) -> None:
    agent = await GateAgent.create(tmp_path, store, "acme/all", mode=SessionMode.AGENT_SHARED)
    assert result(await agent.call("inspect_session"))["room"] == ROOM


@pytest.mark.slow
async def test_a_session_tells_its_topic_its_counts_its_last_error_and_reset_and_the_newest_ten_turns(
    agent: GateAgent, store: SqliteStore
) -> None:
    await agent.call("reply", text="one")
    await agent.call("reply", text="two")
    first = result(await agent.call("inspect_session"))
    assert (first["topic"], first["received"], first["sent"]) == ("", 1, 2)
    assert (first["last_error"], first["last_reset"]) == ("", None)
    for number in range(12):
        turn = await store.read(turns.find_open, agent.session.id)
        assert turn is not None
        why = "the model is away" if number == 3 else ""
        await store.write(turns.cancel, turn.id, why, agent.deps.clock.now())
        await agent.receive(f"more {number}")
        await agent.receive(f"and more {number}")
        await agent.begin()
    await store.write(sessions.remove_conversations, agent.session.id, 1_800_000_000_000_000)
    found = result(await agent.call("inspect_session"))

    assert (found["received"], found["last_error"]) == (25, "the model is away")
    assert str(found["last_reset"]).startswith("2027-01-15")
    recent = found["recent"]
    assert isinstance(recent, list) and len(recent) == 10
    assert [each["messages"] for each in recent] == [2] * 10
    assert recent[-1]["turn"] == found["turn"]


async def test_the_newest_turns_are_told_as_many_as_are_asked_for(agent: GateAgent) -> None:
    plain = result(await agent.call("inspect_session", limit=None))
    assert (plain["recent"], plain["topic"], plain["received"]) == (None, None, None)
    for limit in (0, 1, 1000):
        found = result(await agent.call("inspect_session", limit=limit))
        assert found["session_id"] == agent.session.id and found["seq"] == plain["seq"]
        recent = found["recent"]
        assert isinstance(recent, list) and [each["turn"] for each in recent] == [plain["turn"]]
        assert recent[0]["ended_at"] is None


async def test_the_groups_conversation_about_another_topic_is_told_and_none_of_others(
    agent: GateAgent, store: SqliteStore
) -> None:
    def talk(db: Db) -> str:
        groups.add(db, "other", "other", "scripted", 1)
        sessions.find_or_add(db, SessionMode.PER_THREAD, "other", agent.session.instance, ROOM, "theirs", 1)
        return sessions.find_or_add(db, SessionMode.PER_THREAD, "acme/eng", agent.session.instance, ROOM, "ours", 1).id

    ours = await store.write(talk)
    found = result(await agent.call("inspect_session", topic="ours", limit=5))
    assert (found["session_id"], found["topic"], found["turn"], found["recent"]) == (ours, "ours", None, [])
    assert result(await agent.call("inspect_session", topic=""))["session_id"] == agent.session.id
    for topic in ("theirs", "nothing"):
        answer = await agent.call("inspect_session", topic=topic)
        assert answer.failed and "list_sessions" in answer.text
    assert is_invalid(await agent.call("inspect_session", limit="x"))


async def test_stranger_04_sixty_calls_of_a_neighbour_do_not_delay_mine(agent: GateAgent) -> None:
    finished = threading.Event()
    for _ in range(60):
        agent.deps.threads.submit("s-neighbour", finished.wait)
    try:
        assert result(await agent.call("set_work", content="mine")) == {"ok": True}
    finally:
        finished.set()


class _CountedThreads(FairThreadPool):
    """Threads that name what they were given."""

    def __init__(self) -> None:
        super().__init__()
        self.given: list[str] = []

    def submit(self, owner: str, fn: Callable[[*Ts], T], *args: *Ts) -> Future[T]:
        self.given.append(fn.__name__)
        return super().submit(owner, fn, *args)


async def test_stranger_new_work_is_read_in_a_thread(agent: GateAgent) -> None:
    threads = _CountedThreads()
    dispatch = Dispatch(TOOLS, replace(agent.deps, threads=threads))
    answer = await dispatch.call(agent.caller, "get_work", b"{}", "1")
    assert result(answer) == {"content": "", "exists": False}
    assert threads.given == ["_read_work"]
    assert not dispatch.is_quick(agent.caller, "get_work")


async def test_stranger_new_work_that_is_too_large_for_an_answer_is_cut(agent: GateAgent) -> None:
    (agent.deps.home.group("acme/eng") / "work.md").write_bytes(b"\x01" * LARGEST_WORK)
    answer = await agent.call("get_work")
    assert str(result(answer)["content"]).endswith(f"of {LARGEST_WORK} characters)")
    assert len(answer.text) <= LARGEST_ANSWER
