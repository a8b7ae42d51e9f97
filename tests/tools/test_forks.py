"""fork_topic: what it answers, what it refuses, and that it leaves nothing half done."""

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from gatepost.core.registry import load_package
from gatepost.core.settings import Config
from gatepost.flow import grant_changes
from gatepost.flow.sessions import forking
from gatepost.gate.tool_answers import ToolAnswer
from gatepost.store.engine.sqlite_store import SqliteStore
from gatepost.store.port import Db
from gatepost.store.sessions import forks, sessions, turns
from gatepost.store.sessions.forks import Fork, ForkMethod
from gatepost.store.sessions.sessions import Session, SessionMode
from gatepost_testing.gate_agent import ROOM, GateAgent

load_package("gatepost.tools")
CONVERSATION = "c-1"
PLUM = "a plum\n"


def told(answer: ToolAnswer) -> dict[str, Any]:
    assert not answer.failed and not answer.code, answer.text
    assert answer.structured is not None
    found: dict[str, Any] = json.loads(answer.structured)
    return found


async def an_agent(
    path: Path, store: SqliteStore, *, files: bool = True, given: Mapping[str, Any] | None = None
) -> GateAgent:
    """In the middle of a turn, with a conversation. `files`: its sandbox has not lost them."""
    agent = await GateAgent.create(path, store, "acme/eng", config=Config(given))
    await store.write(_name_conversation, agent.session.id, agent.deps.clock.now())
    if files:
        state = state_of(agent, agent.session.id)
        state.mkdir(parents=True)
        (state / f"{CONVERSATION}.jsonl").write_text(PLUM)
    return agent


def _name_conversation(db: Db, session_id: str, now: int) -> None:
    turn = turns.find_open(db, session_id)
    assert turn is not None
    rows = tuple(row[0] for row in db.rows("SELECT id FROM inbox WHERE turn_id = ?", (turn.id,)))
    turns.begin(db, turn.id, turn.epoch, rows, now)
    turns.set_conversation(db, turn.id, turn.epoch, CONVERSATION, now)


def state_of(agent: GateAgent, session_id: str) -> Path:
    return agent.deps.home.session(session_id) / "state" / "scripted"


async def find_topic(agent: GateAgent, topic: str) -> Session | None:
    key = sessions.key_of(SessionMode.PER_THREAD, "acme/eng", "fake", ROOM, topic)
    return await agent.store.read(sessions.find_by_key, key)


def list_folders(agent: GateAgent) -> set[str]:
    return {each.name for each in agent.deps.home.sessions.iterdir()}


async def test_a_fork_is_a_session_of_the_same_room_with_a_copy_of_the_conversation(
    tmp_path: Path, store: SqliteStore
) -> None:
    agent = await an_agent(tmp_path, store)
    found = told(await agent.call("fork_topic", child="side"))
    child = await find_topic(agent, "side")

    assert child is not None
    assert found == {
        "folder": "acme/eng",
        "parent_topic": "",
        "child_topic": "side",
        "session_id": child.id,
        "how": "copied",
    }
    assert await store.read(sessions.get_conversation, child.id, "scripted") == CONVERSATION
    assert (state_of(agent, child.id) / f"{CONVERSATION}.jsonl").read_text() == PLUM
    assert (state_of(agent, agent.session.id) / f"{CONVERSATION}.jsonl").read_text() == PLUM
    assert ("fork_topic", "allowed") in await agent.audited()


async def test_what_people_set_for_the_conversation_holds_in_its_fork(tmp_path: Path, store: SqliteStore) -> None:
    agent = await an_agent(tmp_path, store)
    await store.write(sessions.set_model, agent.session.id, "small-one")
    await store.write(sessions.set_pinned_note, agent.session.id, "be brief", "fake:user/1")
    child_id = told(await agent.call("fork_topic", child="side"))["session_id"]
    child, notes = await store.read(sessions.get, child_id), await store.read(sessions.get_notes, child_id)

    assert child is not None and child.model == "small-one"
    assert (notes.pinned, notes.pinned_by) == ("be brief", "fake:user/1")


async def test_without_files_the_fork_gets_the_transcript_and_the_answer_says_so(
    tmp_path: Path, store: SqliteStore
) -> None:
    agent = await an_agent(tmp_path, store, files=False)
    await agent.call("reply", text="hello yourself")
    found = told(await agent.call("fork_topic", child="side"))
    notes = await store.read(sessions.get_notes, found["session_id"])

    assert found["how"] == ForkMethod.TRANSCRIPT
    assert await store.read(sessions.get_conversation, found["session_id"], "scripted") == ""
    assert notes.lines == [
        {"own": False, "sender": "Ada", "text": "hello"},
        {"own": True, "sender": "", "text": "hello yourself"},
    ]


async def test_what_was_said_before_a_fresh_start_is_not_in_the_transcript(tmp_path: Path, store: SqliteStore) -> None:
    agent = await an_agent(tmp_path, store, files=False)
    await store.write(sessions.remove_conversations, agent.session.id, 1)
    found = told(await agent.call("fork_topic", child="side"))

    assert (await store.read(sessions.get_notes, found["session_id"])).lines == []


async def test_arizuko_27_forking_onto_a_topic_that_exists_is_refused_unless_forced(
    tmp_path: Path, store: SqliteStore
) -> None:
    agent = await an_agent(tmp_path, store)
    first = told(await agent.call("fork_topic", child="side"))["session_id"]
    refused = await agent.call("fork_topic", child="side")
    (state_of(agent, agent.session.id) / f"{CONVERSATION}.jsonl").write_text("a pear\n")
    second = told(await agent.call("fork_topic", child="side", force=True))["session_id"]
    old, lineage = await store.read(sessions.get, first), await store.read(forks.get, second)

    assert refused.failed and "topic_exists" in refused.text
    assert second != first and old is not None and old.closed_at is not None
    assert lineage is not None and lineage.parent_id == agent.session.id
    assert (state_of(agent, second) / f"{CONVERSATION}.jsonl").read_text() == "a pear\n"
    assert not state_of(agent, first).exists()  # a closed conversation takes no room


async def test_a_refused_fork_leaves_no_files(tmp_path: Path, store: SqliteStore) -> None:
    agent = await an_agent(tmp_path, store)
    await agent.call("fork_topic", child="side")
    before = list_folders(agent)
    await agent.call("fork_topic", child="side")

    assert list_folders(agent) == before


async def test_a_topic_with_waiting_messages_is_not_replaced(tmp_path: Path, store: SqliteStore) -> None:
    agent = await an_agent(tmp_path, store)
    child = told(await agent.call("fork_topic", child="side"))["session_id"]
    waiting = await store.read(sessions.get, child)
    assert waiting is not None
    agent.session, own = waiting, agent.session
    await agent.receive("is anybody there?")
    agent.session = own
    refused = await agent.call("fork_topic", child="side", force=True)

    assert refused.failed and "messages waiting" in refused.text
    assert (await find_topic(agent, "side")) is not None


async def test_a_fork_of_another_topic_begins_with_what_that_one_knows(tmp_path: Path, store: SqliteStore) -> None:
    agent = await an_agent(tmp_path, store)
    side = told(await agent.call("fork_topic", child="side"))["session_id"]
    (state_of(agent, side) / f"{CONVERSATION}.jsonl").write_text("a fig\n")
    found = told(await agent.call("fork_topic", parent="side", child="side two"))
    unknown = await agent.call("fork_topic", parent="nowhere", child="x")

    assert (found["parent_topic"], found["child_topic"]) == ("side", "side two")
    assert (state_of(agent, found["session_id"]) / f"{CONVERSATION}.jsonl").read_text() == "a fig\n"
    assert unknown.failed and "no topic named 'nowhere'" in unknown.text
    assert await store.read(forks.list_descendants, [agent.session.id]) == [side, found["session_id"]]


@pytest.mark.parametrize(
    ("given", "why"),
    [({"child": ""}, "1 to 128"), ({"child": "x" * 129}, "1 to 128"), ({"child": "a\nb"}, "printable")],
)
async def test_a_topic_that_is_none_is_refused(
    given: dict[str, Any], why: str, tmp_path: Path, store: SqliteStore
) -> None:
    agent = await an_agent(tmp_path, store)
    refused = await agent.call("fork_topic", **given)

    assert refused.failed and why in refused.text


async def test_a_conversation_cannot_take_its_own_place(tmp_path: Path, store: SqliteStore) -> None:
    agent = await an_agent(tmp_path, store)
    side = await store.read(sessions.get, told(await agent.call("fork_topic", child="side"))["session_id"])
    assert side is not None
    refused = await agent.call("fork_topic", parent="side", child="side", force=True)

    assert refused.failed and "its own place" in refused.text


async def test_a_loop_of_forks_is_refused_at_the_groups_limit(tmp_path: Path, store: SqliteStore) -> None:
    agent = await an_agent(tmp_path, store, given={forking.MOST_FORKS.name: 3})
    answers = [await agent.call("fork_topic", child=f"side {number}") for number in range(5)]

    assert [each.failed for each in answers] == [False, False, False, True, True]
    assert "this group has 3 forked conversations, and 3 are allowed" in answers[-1].text
    again = told(await agent.call("fork_topic", child="side 0", force=True))  # in the place of an old one
    await store.write(sessions.close, again["session_id"], agent.deps.clock.now())
    assert not (await agent.call("fork_topic", child="side 9")).failed


async def test_forks_made_at_once_do_not_pass_the_limit_together(tmp_path: Path, store: SqliteStore) -> None:
    agent = await an_agent(tmp_path, store, given={forking.MOST_FORKS.name: 2})
    answers = await asyncio.gather(*(agent.call("fork_topic", child=f"side {number}") for number in range(6)))

    assert sum(not each.failed for each in answers) == 2
    assert len(list_folders(agent)) == 3  # the parent's and two


@pytest.mark.parametrize(("rule", "said"), [("!erase", "Unknown tool"), ("!erase(jid=tg:*)", "forbids it")])
async def test_who_may_erase_nothing_takes_the_place_of_no_conversation(
    tmp_path: Path, store: SqliteStore, rule: str, said: str
) -> None:
    agent = await an_agent(tmp_path, store)
    first = told(await agent.call("fork_topic", child="side"))["session_id"]
    await store.write(grant_changes.add_rule, "acme/eng", rule, "test", agent.deps.clock.now())
    agent.deps.events.tools()
    assert said in (await agent.call("fork_topic", child="side", force=True)).text
    still = await find_topic(agent, "side")
    assert still is not None and still.id == first


async def test_forks_by_force_are_limited_by_the_hour(tmp_path: Path, store: SqliteStore) -> None:
    agent = await an_agent(tmp_path, store)
    child = told(await agent.call("fork_topic", child="side"))["session_id"]
    lineage = await store.read(forks.get, child)
    assert lineage is not None
    await store.write(_add_closed, lineage, forking.MOST_LATELY)
    refused = await agent.call("fork_topic", child="side", force=True)

    assert refused.failed and "within an hour" in refused.text


def _add_closed(db: Db, like: Fork, many: int) -> None:
    for number in range(many):
        made = sessions.find_or_add(
            db, SessionMode.PER_THREAD, like.folder, "fake", ROOM, f"old {number}", like.created_at
        )
        sessions.close(db, made.id, like.created_at)
        forks.add(
            db,
            Fork(made.id, like.parent_id, like.folder, like.provider, "", ForkMethod.TRANSCRIPT, 0, like.created_at),
        )


async def test_copies_of_a_group_take_no_more_of_the_disk_than_they_may(tmp_path: Path, store: SqliteStore) -> None:
    agent = await an_agent(tmp_path, store, given={forking.FORKS_MB.name: 1})
    (state_of(agent, agent.session.id) / "media").write_bytes(b"x" * 600_000)
    first = await agent.call("fork_topic", child="one")
    before = list_folders(agent)
    second = await agent.call("fork_topic", child="two")

    assert not first.failed
    assert second.failed and "too many for what forks of this group may take" in second.text
    assert list_folders(agent) == before and await find_topic(agent, "two") is None


async def test_files_that_cannot_be_read_are_replaced_by_the_transcript(tmp_path: Path, store: SqliteStore) -> None:
    agent = await an_agent(tmp_path, store, files=False)
    state = state_of(agent, agent.session.id)
    state.parent.mkdir(parents=True)
    state.symlink_to(tmp_path)  # a sandbox's own doing
    found = told(await agent.call("fork_topic", child="side"))

    assert found["how"] == "transcript"
    assert not state_of(agent, found["session_id"]).exists()
