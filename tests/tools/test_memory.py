"""remember, recall and forget: what a turn keeps, and for whom."""

import dataclasses
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gatepost.access.grants import parse
from gatepost.access.tiers import Tier
from gatepost.core.registry import Registry, load_package
from gatepost.gate.dispatch import INVALID_PARAMS, Dispatch
from gatepost.gate.tool_answers import ToolAnswer
from gatepost.store.engine.sqlite_store import SqliteStore
from gatepost.store.memory import memories
from gatepost.store.memory.memories import LONGEST_TEXT, Memory, MemoryFilter, MemoryScope, MemoryTrust
from gatepost.store.people import person_rows
from gatepost.store.port import Db
from gatepost.store.rooms import direct_rooms, origins
from gatepost.store.rooms.origins import Origin
from gatepost.store.sessions import forks, sessions, tool_calls, turns
from gatepost.store.sessions.sessions import SessionMode
from gatepost.store.sessions.turns import TurnState
from gatepost.tools.call import ToolCall
from gatepost.tools.contract import TOOLS, Tool
from gatepost_testing.counting import CountingDb
from gatepost_testing.gate_agent import FOLDERS, ROOM, GateAgent, is_invalid

load_package("gatepost.tools")

SENDER = "fake:user/1"
GOOD_ARGUMENTS: dict[str, dict[str, Any]] = {
    "remember": {"text": "x"},
    "recall": {},
    "forget": {"id": 1},
    "keep_facts": {"facts": ["x"]},
}


@pytest.fixture
async def agent(tmp_path: Path, store: SqliteStore) -> GateAgent:
    return await GateAgent.create(tmp_path, store)


def result(answer: ToolAnswer) -> dict[str, Any]:
    assert not answer.failed and not answer.code, answer.text
    found = json.loads(answer.text)
    assert isinstance(found, dict)
    return found


async def remembered(agent: GateAgent) -> list[Memory]:
    return await agent.store.read(memories.list_chosen, MemoryFilter(), agent.deps.clock.now())


def make_direct(db: Db) -> None:
    """The agent's room is the direct room of whoever writes there."""
    db.run("UPDATE rooms SET direct = 1 WHERE address = ?", (ROOM,))
    direct_rooms.add(db, SENDER, "fake", ROOM, 1)


@pytest.mark.parametrize("name", sorted(GOOD_ARGUMENTS))
@pytest.mark.parametrize("tier", list(Tier))
async def test_each_tool_is_there_for_its_tiers_and_for_no_other(
    name: str, tier: Tier, tmp_path: Path, store: SqliteStore
) -> None:
    agent = await GateAgent.create(tmp_path, store, FOLDERS[tier])
    answer = await agent.call(name, **GOOD_ARGUMENTS[name])
    assert (answer.code == INVALID_PARAMS and "Unknown tool" in answer.text) == (tier > TOOLS[name].tier)


async def test_what_is_said_in_a_room_stays_there_with_its_source(agent: GateAgent) -> None:
    made = result(await agent.call("remember", text="The meeting is on Friday.", about="meeting"))
    assert made["known_to"] == "room"

    (kept,) = await remembered(agent)
    assert (kept.scope, kept.instance, kept.address, kept.person) == (MemoryScope.ROOM, "fake", ROOM, "")
    assert kept.message_id is not None and kept.speaker and kept.turn_id
    (told,) = result(await agent.call("recall", query="meetings"))["memories"]
    assert (told["text"], told["about"]) == ("The meeting is on Friday.", "meeting")


async def test_what_is_said_in_private_is_kept_for_that_person(agent: GateAgent) -> None:
    await agent.store.write(make_direct)
    assert result(await agent.call("remember", text="Ann is ill."))["known_to"] == "person"
    (kept,) = await remembered(agent)
    assert (kept.person, kept.address) == (SENDER, "")


@pytest.mark.parametrize("known_to", ["agent", "family"])
async def test_what_few_have_said_is_told_to_many_only_if_a_person_agrees(known_to: str, agent: GateAgent) -> None:
    answer = await agent.call("remember", text="Ann is ill.", known_to=known_to)
    assert answer.failed  # nobody can be asked here
    assert await remembered(agent) == []


@pytest.mark.parametrize("scope", [MemoryScope.AGENT, MemoryScope.FAMILY])
async def test_what_everybody_is_told_is_changed_and_forgotten_only_if_a_person_agrees(
    scope: MemoryScope, agent: GateAgent
) -> None:
    """Else a secret would be told to all by way of a correction, and a stranger would have all of it forgotten."""
    wide = Memory(folder="acme/eng", text="We open at 9.", scope=scope, trust=MemoryTrust.MEMBER, created_at=1)
    known = await agent.store.write(memories.add, wide)
    await agent.store.write(make_direct)
    for name, arguments in (
        ("remember", {"text": "Ann is ill.", "replaces": known.id}),
        ("remember", {"text": "Ann is ill.", "replaces": known.id, "known_to": "person"}),
        ("forget", {"id": known.id}),
        ("call_tool", {"name": "forget", "arguments": {"id": known.id}}),
    ):
        answer = await agent.call(name, **arguments)
        assert answer.failed and "a person's approval" in answer.text  # nobody can be asked here
    assert [each.text for each in await remembered(agent)] == ["We open at 9."]


@pytest.mark.parametrize("name", ["remember", "forget"])
async def test_what_was_not_there_when_a_call_was_judged_is_not_changed_by_it(name: str, agent: GateAgent) -> None:
    """An agent that names the next number again and again, while a person agrees to an entry."""
    judge = TOOLS[name].holds_if
    assert judge is not None
    wide = Memory(
        folder="acme/eng", text="We open at 9.", scope=MemoryScope.AGENT, trust=MemoryTrust.MEMBER, created_at=1
    )
    last = await agent.store.write(memories.add, wide)
    await agent.store.write(memories.end, [last.id], "test", 2)
    given = {"text": "Mail the bills to eve.", "replaces": last.id} if name == "remember" else {"id": last.id}

    async def judge_then_restore(call: ToolCall, arguments: Mapping[str, Any]) -> str:
        try:
            return await judge(call, arguments)
        finally:
            await agent.store.write(memories.restore, [last.id])

    between: Registry[Tool] = Registry("tool")
    between.add(name, msgspec.structs.replace(TOOLS[name], holds_if=judge_then_restore), origin="test")
    dispatch = Dispatch(between, agent.deps)
    answer = await dispatch.call(agent.caller, name, json.dumps(given).encode(), "call-1")
    assert answer.failed and "recall shows" in answer.text
    assert [each.text for each in await remembered(agent)] == ["We open at 9."]


async def test_a_correction_that_was_allowed_is_made_in_no_room_as_well(tmp_path: Path, store: SqliteStore) -> None:
    agent = await GateAgent.create(tmp_path, store, rules=(parse("remember"),), turn=False)
    wide = Memory(folder="acme/eng", text="At 9.", scope=MemoryScope.AGENT, trust=MemoryTrust.MEMBER, created_at=1)
    known = await agent.store.write(memories.add, wide)
    assert result(await agent.call("remember", text="At 10.", replaces=known.id))["known_to"] == "agent"
    assert [(each.text, each.scope) for each in await remembered(agent)] == [("At 10.", MemoryScope.AGENT)]


async def test_a_turn_that_somebody_else_asked_for_recalls_nothing_private(agent: GateAgent) -> None:
    """A task or an errand in somebody's direct room, which another person planted there."""
    await agent.store.write(make_direct)
    result(await agent.call("remember", text="Ann is ill."))
    (kept,) = await remembered(agent)

    def plant(db: Db) -> None:
        row = db.row("SELECT id FROM messages ORDER BY id DESC LIMIT 1")
        assert row is not None
        db.run("UPDATE messages SET kind = 'task' WHERE id = ?", (row[0],))
        origins.put(db, int(row[0]), [Origin("fake:user/eve", "fake", "fake:room/other")], 1)

    await agent.store.write(plant)
    assert result(await agent.call("recall", query="Ann"))["memories"] == []
    assert (await agent.call("forget", id=kept.id)).failed


async def test_in_a_room_of_several_nothing_is_kept_for_one_of_them(agent: GateAgent) -> None:
    answer = await agent.call("remember", text="Ann is ill.", known_to="person")
    assert answer.failed or answer.code
    assert "others read here" in answer.text
    assert await remembered(agent) == []


@pytest.mark.parametrize(
    ("rights", "source", "trust"),
    [
        ("member", "said", MemoryTrust.MEMBER),
        ("guest", "said", MemoryTrust.STRANGER),
        ("owner", "read", MemoryTrust.READ),
        ("owner", "concluded", MemoryTrust.CONCLUDED),
        ("guest", "concluded", MemoryTrust.STRANGER),
    ],
)
async def test_an_entry_says_how_far_its_source_is_to_be_trusted(
    rights: str, source: str, trust: MemoryTrust, agent: GateAgent
) -> None:
    def set_rights(db: Db) -> None:
        db.run("UPDATE turns SET rights = ?", (rights,))

    await agent.store.write(set_rights)
    result(await agent.call("remember", text="The sky is green.", source=source))
    assert [each.trust for each in await remembered(agent)] == [trust]


async def test_a_correction_takes_the_place_of_an_entry_and_its_scope(agent: GateAgent) -> None:
    first = result(await agent.call("remember", text="The code is 1."))["id"]
    await agent.store.write(make_direct)
    missing = await agent.call("remember", text="The code is 2.", replaces=first + 100)
    assert missing.failed and "recall shows" in missing.text
    result(await agent.call("remember", text="The code is 2.", replaces=first))

    (kept,) = await remembered(agent)
    assert (kept.text, kept.scope, kept.replaces) == ("The code is 2.", MemoryScope.ROOM, first)


async def test_an_agent_forgets_what_it_may_see_and_not_what_the_operator_wrote(agent: GateAgent) -> None:
    def add(db: Db) -> tuple[int, int]:
        made = [
            memories.add(db, Memory(folder="acme/eng", text="x", trust=trust, created_at=1, **where)).id
            for trust, where in (
                (MemoryTrust.OPERATOR, {"scope": MemoryScope.FAMILY}),
                (MemoryTrust.MEMBER, {"scope": MemoryScope.ROOM, "instance": "fake", "address": ROOM}),
            )
        ]
        return made[0], made[1]

    operators, own = await agent.store.write(add)
    refused = await agent.call("forget", id=operators)
    assert refused.failed and "the operator wrote it" in refused.text
    assert result(await agent.call("forget", id=own)) == {"ok": True}
    assert [each.id for each in await remembered(agent)] == [operators]


@pytest.mark.parametrize("text", ["", "   ", "x" * (LONGEST_TEXT + 1)])
async def test_a_text_that_is_none_or_too_long_is_refused(text: str, agent: GateAgent) -> None:
    answer = await agent.call("remember", text=text)
    assert (answer.failed or answer.code) and "text" in answer.text
    assert await remembered(agent) == []


async def test_words_of_an_entry_are_kept_out_of_the_audit_log(agent: GateAgent) -> None:
    result(await agent.call("remember", text="The alarm code is 4711."))

    def look(db: Db) -> str:
        return json.dumps([str(row[0]) for row in db.rows("SELECT details FROM audit")])

    assert "4711" not in await agent.store.read(look)


# Facts of a conversation that is summed up.


async def test_facts_of_a_conversation_are_kept_for_its_readers_and_once(agent: GateAgent) -> None:
    assert result(await agent.call("keep_facts", facts=["Ann is away.", " "], read=["It rains."])) == {"kept": 2}
    assert result(await agent.call("keep_facts", facts=["ann is  away", "Bob is here."])) == {"kept": 1}

    kept = {each.text: each for each in await remembered(agent)}
    assert {text: each.trust for text, each in kept.items()} == {
        "Ann is away.": MemoryTrust.CONCLUDED,
        "It rains.": MemoryTrust.READ,
        "Bob is here.": MemoryTrust.CONCLUDED,
    }
    assert {(each.scope, each.address) for each in kept.values()} == {(MemoryScope.ROOM, ROOM)}
    assert kept["Ann is away."].speaker == SENDER and kept["Ann is away."].message_id is not None


async def test_a_fact_that_was_forgotten_does_not_come_again_with_the_next_summary(agent: GateAgent) -> None:
    await agent.call("keep_facts", facts=["Ann is away."])
    (kept,) = await remembered(agent)
    result(await agent.call("forget", id=kept.id))
    assert result(await agent.call("keep_facts", facts=["Ann is away"])) == {"kept": 0}
    assert await remembered(agent) == []


async def test_what_was_said_in_private_is_kept_for_that_person_whoever_asked_last(agent: GateAgent) -> None:
    def plant(db: Db) -> None:
        make_direct(db)
        row = db.row("SELECT id FROM messages ORDER BY id DESC LIMIT 1")
        assert row is not None
        db.run("UPDATE messages SET kind = 'task' WHERE id = ?", (row[0],))
        origins.put(db, int(row[0]), [Origin("fake:user/eve", "fake", "fake:room/other")], 1)

    await agent.store.write(plant)
    assert result(await agent.call("keep_facts", facts=["Ann is ill."])) == {"kept": 1}
    (kept,) = await remembered(agent)
    assert (kept.scope, kept.person) == (MemoryScope.PERSON, SENDER)
    assert result(await agent.call("recall", query="ill"))["memories"] == []  # eve asked


async def test_facts_of_a_conversation_with_a_stranger_in_it_are_theirs(agent: GateAgent) -> None:
    await agent.store.write(lambda db: db.run("UPDATE turns SET rights = 'guest'"))
    await agent.call("keep_facts", facts=["The bank is eve's."])
    assert [each.trust for each in await remembered(agent)] == [MemoryTrust.STRANGER]


async def read_page(agent: GateAgent) -> None:
    turn = await agent.store.read(turns.find_open, agent.session.id)
    assert turn is not None
    await agent.store.write(tool_calls.mark_foreign, turn.id)


async def begin_another(agent: GateAgent) -> None:
    turn = await agent.store.read(turns.find_open, agent.session.id)
    assert turn is not None
    await agent.store.write(lambda db: turns.end(db, turn, TurnState.DONE, "", "{}", 2))
    await agent.receive("go on")
    await agent.begin()


@pytest.mark.parametrize("later", [False, True])
async def test_facts_of_a_conversation_that_read_a_page_count_as_read(agent: GateAgent, later: bool) -> None:
    """Else a page has an agent keep its words as a conclusion, which `undo --from-untrusted` leaves. What is summed up
    is of earlier turns."""
    await read_page(agent)
    if later:
        await begin_another(agent)
    await agent.call("keep_facts", facts=["The bank is eve's."])
    assert [each.trust for each in await remembered(agent)] == [MemoryTrust.READ]


@pytest.mark.runs_once
async def test_many_facts_are_kept_in_writes_that_are_short(agent: GateAgent, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else everybody waits for one agent."""
    write, counted = agent.store.write, list[int]()

    async def count(fn: Callable[..., Any], *args: Any, **more: Any) -> Any:
        def run(db: Db, *given: Any) -> Any:
            counting = CountingDb(db)
            answer = fn(counting, *given)
            counted.append(counting.statements)
            return answer

        return await write(run, *args, **more)

    monkeypatch.setattr(agent.store, "write", count)
    facts = [f"Number {number} is {number}." for number in range(30)]
    assert result(await agent.call("keep_facts", facts=facts)) == {"kept": 30}
    assert len(counted) >= 6 and max(counted) <= 100


@pytest.mark.parametrize("rules", [("*", "!remember"), ("!remember",), ("hold remember",)])
async def test_whoever_may_not_remember_keeps_no_facts(
    rules: tuple[str, ...], tmp_path: Path, store: SqliteStore
) -> None:
    agent = await GateAgent.create(tmp_path, store, rules=tuple(map(parse, rules)))
    answer = await agent.call("keep_facts", facts=["Ann is away."])
    assert answer.failed or answer.code
    assert await remembered(agent) == []


@pytest.mark.parametrize("arguments", [{"facts": ["x"] * 31}, {"facts": ["x" * (LONGEST_TEXT + 1)]}])
async def test_too_many_facts_and_too_long_ones_are_refused(arguments: dict[str, Any], agent: GateAgent) -> None:
    answer = await agent.call("keep_facts", **arguments)
    assert (answer.failed or answer.code) and "facts" in answer.text


async def test_a_conversation_of_several_rooms_is_told_and_keeps_what_everybody_may_know_alone(
    tmp_path: Path, store: SqliteStore
) -> None:
    agent = await GateAgent.create(tmp_path, store, mode=SessionMode.AGENT_SHARED)

    def add(db: Db) -> None:
        make_direct(db)
        for text, where in (
            ("Plum one.", {"scope": MemoryScope.PERSON, "person": SENDER}),
            ("Plum two.", {"scope": MemoryScope.ROOM, "instance": "fake", "address": ROOM}),
            ("Plum three.", {"scope": MemoryScope.AGENT}),
        ):
            memories.add(db, Memory(folder="acme/eng", text=text, trust=MemoryTrust.MEMBER, created_at=1, **where))

    await agent.store.write(add)
    for query in ("plum", ""):
        found = result(await agent.call("recall", query=query))["memories"]
        assert [each["text"] for each in found] == ["Plum three."]
    answer = await agent.call("remember", text="Ann is ill.")
    assert "say agent or family" in answer.text
    assert result(await agent.call("keep_facts", facts=["Ann is ill."])) == {"kept": 0}
    assert len(await remembered(agent)) == 3


async def test_a_fork_of_a_conversation_of_another_room_is_told_what_everybody_may_know_alone(agent: GateAgent) -> None:
    await agent.call("remember", text="Plum one.")

    def fork(db: Db) -> None:
        parent = sessions.find_or_add(db, SessionMode.PER_THREAD, "acme/eng", "fake", "fake:room/other", "", 1)
        how = forks.ForkMethod.COPIED
        forks.add(db, forks.Fork(agent.session.id, parent.id, "acme/eng", "scripted", "c-1", how, 1, 1))

    assert result(await agent.call("recall", query="plum"))["memories"] != []
    await agent.store.write(fork)
    assert result(await agent.call("recall", query="plum"))["memories"] == []


async def test_a_fork_in_the_same_room_knows_what_the_conversation_did(agent: GateAgent) -> None:
    await agent.call("remember", text="Plum one.")

    def fork(db: Db) -> None:
        parent = sessions.find_or_add(db, SessionMode.PER_THREAD, "acme/eng", "fake", ROOM, "other", 1)
        how = forks.ForkMethod.COPIED
        forks.add(db, forks.Fork(agent.session.id, parent.id, "acme/eng", "scripted", "c-1", how, 1, 1))

    await agent.store.write(fork)
    assert [each["text"] for each in result(await agent.call("recall", query="plum"))["memories"]] == ["Plum one."]


async def test_a_replay_recalls_and_keeps_nothing(agent: GateAgent) -> None:
    await agent.call("remember", text="Plum one.")
    (kept,) = await remembered(agent)
    agent.caller = dataclasses.replace(agent.caller, replays=True)
    assert result(await agent.call("recall", query="plum"))["memories"] != []
    for name, given in (
        ("remember", {"text": "Plum two."}),
        ("keep_facts", {"facts": ["Plum three."]}),
        ("forget", {"id": kept.id}),
    ):
        await agent.call(name, **given)
    assert await remembered(agent) == [kept]


async def test_facts_go_with_the_conversation_of_somebody_who_is_forgotten(agent: GateAgent) -> None:
    await agent.call("remember", text="We open at 9.")
    await agent.call("keep_facts", facts=["Ann is away."])
    await agent.store.write(person_rows.reset_session, agent.session.id)
    assert [each.text for each in await remembered(agent)] == ["We open at 9."]


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [("forget", {"id": 2**64}), ("remember", {"text": "x", "replaces": -(2**64)}), ("recall", {"limit": 2**63})],
)
async def test_a_number_that_no_row_holds_is_the_agents_to_mend(
    agent: GateAgent, tool: str, arguments: dict[str, Any]
) -> None:
    assert is_invalid(await agent.call(tool, **arguments))
