"""Conversations of the own part of the tree: listed, read, begun anew, spoken into."""

import json
from pathlib import Path
from typing import Any

import pytest

from gatepost.access.grants import parse
from gatepost.core.registry import load_package
from gatepost.gate.tool_answers import LARGEST_ANSWER, ToolAnswer
from gatepost.store.engine.sqlite_store import SqliteStore
from gatepost.store.messages import destinations, inbox, messages
from gatepost.store.port import Db
from gatepost.store.sessions import errands, groups, sessions
from gatepost.store.sessions.sessions import Session, SessionMode
from gatepost.tools.group_sessions import LARGEST_INJECTED, MOST_INJECTED
from gatepost_testing.gate_agent import ROOM, GateAgent, is_invalid

load_package("gatepost.tools")


def told(answer: ToolAnswer) -> dict[str, Any]:
    assert not answer.failed and not answer.code, answer.text
    assert answer.structured is not None
    found: dict[str, Any] = json.loads(answer.structured)
    return found


def _talk(db: Db, folder: str, address: str) -> Session:
    groups.add(db, folder, folder, "", 1)
    return sessions.find_or_add(db, SessionMode.PER_THREAD, folder, "fake", address, "", 1)


async def test_the_conversations_of_the_own_part_of_the_tree_are_listed(tmp_path: Path, store: SqliteStore) -> None:
    agent = await GateAgent.create(tmp_path, store, "acme")
    below = await store.write(_talk, "acme/eng", "fake:room/2")
    await store.write(_talk, "other", "fake:room/3")
    found = told(await agent.call("list_sessions"))

    assert {each["session_id"]: each["own"] for each in found["sessions"]} == {agent.session.id: True, below.id: False}
    assert told(await agent.call("list_sessions", limit=0))["count"] == 1


async def test_a_conversation_is_read_in_both_directions_and_page_by_page(tmp_path: Path, store: SqliteStore) -> None:
    agent = await GateAgent.create(tmp_path, store, "acme")
    await agent.call("reply", text="hello yourself")
    whole = told(await agent.call("read_session", sessionId=agent.session.id))

    assert [(each["who"], each["text"]) for each in whole["entries"]] == [
        ("Ada", "hello"),
        ("agent:acme", "hello yourself"),
    ]
    last = told(await agent.call("read_session", sessionId=agent.session.id, limit=1))
    assert [each["text"] for each in last["entries"]] == ["hello yourself"]
    first = told(await agent.call("read_session", sessionId=agent.session.id, limit=1, before=last["oldest"]))
    assert [each["text"] for each in first["entries"]] == ["hello"]


async def test_the_timeline_tells_turns_and_calls_and_takes_a_grant_of_its_own(
    tmp_path: Path, store: SqliteStore
) -> None:
    agent = await GateAgent.create(tmp_path, store, "acme")
    await agent.call("reply", text="hello yourself")
    entries = told(await agent.call("read_session", sessionId=agent.session.id, level="timeline"))["entries"]
    assert [each["kind"] for each in entries] == ["turn", "call"]
    assert entries[1]["text"] == "reply: allowed"

    rules = (parse("!read_session(level=timeline)"),)
    narrower = await GateAgent.create(tmp_path / "n", store, "beta", rules=rules)
    assert (await narrower.call("read_session", sessionId=narrower.session.id, level="timeline")).failed
    assert told(await narrower.call("read_session", sessionId=narrower.session.id))["count"] == 1


@pytest.mark.parametrize("level", ["messages", "timeline"])
@pytest.mark.parametrize("before", [2**64, -(2**64)])
async def test_a_place_that_nothing_can_have_is_refused_in_the_declaration(
    level: str, before: int, tmp_path: Path, store: SqliteStore
) -> None:
    agent = await GateAgent.create(tmp_path, store, "acme")
    answer = await agent.call("read_session", sessionId=agent.session.id, level=level, before=before)
    assert is_invalid(answer)


async def test_a_conversation_elsewhere_does_not_exist(tmp_path: Path, store: SqliteStore) -> None:
    agent = await GateAgent.create(tmp_path, store, "acme")
    foreign = await store.write(_talk, "other", "fake:room/3")
    for wanted in (foreign.id, "s-nope"):
        assert "no session named" in (await agent.call("read_session", sessionId=wanted)).text
    assert is_invalid(await agent.call("read_session", sessionId=agent.session.id, level="secrets"))


def _remember(db: Db, session_id: str) -> None:
    sessions.set_conversation(db, session_id, "scripted", "c-1", 1)


async def test_a_reset_forgets_the_conversation_of_the_group_named_and_no_other(
    tmp_path: Path, store: SqliteStore
) -> None:
    agent = await GateAgent.create(tmp_path, store, "acme")
    below, other = await store.write(_talk, "acme/eng", "fake:room/2"), await store.write(_talk, "other", "fake:room/3")
    for session in (agent.session, below, other):
        await store.write(_remember, session.id)

    async def known(session: Session) -> str:
        return await store.read(sessions.get_conversation, session.id, "scripted")

    assert told(await agent.call("reset_session", groupFolder="acme/eng"))["sessions"] == 1
    assert [await known(each) for each in (agent.session, below, other)] == ["c-1", "", "c-1"]
    assert told(await agent.call("clear_session", folder="acme"))["sessions"] == 1
    assert (await agent.call("reset_session", groupFolder="other")).failed
    assert [await known(each) for each in (agent.session, other)] == ["", "c-1"]


async def test_arizuko_41_an_injected_message_carries_its_true_origin_and_is_no_command(
    tmp_path: Path, store: SqliteStore
) -> None:
    agent = await GateAgent.create(tmp_path, store, "acme")
    woken: list[str] = []
    agent.deps.events.on_session(woken.append)
    answer = told(
        await agent.call("inject_message", content="/stop now", sender="terminal:owner", senderName="the operator")
    )
    message = await store.read(messages.get, answer["id"])
    (entry,) = await store.read(inbox.list_for_message, answer["id"])

    assert message is not None and message.sender == "agent:acme"
    assert message.content["senderName"] == "agent acme (for the operator)"
    assert "command" not in message.content
    assert (entry.state, entry.session_id, entry.rights) == ("queued", agent.session.id, "agent")
    assert woken == [agent.session.id]


async def test_a_message_is_injected_below_and_not_elsewhere(tmp_path: Path, store: SqliteStore) -> None:
    agent = await GateAgent.create(tmp_path, store, "acme")
    below = await store.write(_talk, "acme/eng", "fake:room/2")
    await store.write(_talk, "other", "fake:room/3")
    number = told(await agent.call("inject_message", content="look", chatJid="fake:room/2"))["id"]
    assert [each.session_id for each in await store.read(inbox.list_for_message, number)] == [below.id]
    for room in ("fake:room/3", "fake:room/9"):
        answer = await agent.call("inject_message", content="look", chatJid=room)
        assert answer.failed and "no route to this group" in answer.text
    assert "is empty" in (await agent.call("inject_message", content="  ")).text
    assert is_invalid(await agent.call("inject_message"))


async def test_in_a_room_that_both_are_in_the_worker_gets_it_and_without_a_room_the_caller(
    tmp_path: Path, store: SqliteStore
) -> None:
    agent = await GateAgent.create(tmp_path, store, "acme")
    worker = await store.write(_talk, "acme/eng", ROOM)
    await agent.receive("the caller's own conversation is the busier one")

    assert told(await agent.call("inject_message", content="look", chatJid=ROOM))["session_id"] == worker.id
    assert told(await agent.call("inject_message", content="look"))["session_id"] == agent.session.id
    mine = await agent.call("inject_message", content="look", chatJid=ROOM, sessionId=agent.session.id)
    assert told(mine)["session_id"] == agent.session.id


async def test_of_several_workers_in_a_room_the_caller_names_one(tmp_path: Path, store: SqliteStore) -> None:
    agent = await GateAgent.create(tmp_path, store, "acme")
    first, second = [await store.write(_talk, folder, "fake:room/2") for folder in ("acme/eng", "acme/ops")]
    answer = await agent.call("inject_message", content="look", chatJid="fake:room/2")
    assert answer.failed and f"{first.id} of acme/eng" in answer.text and f"{second.id} of acme/ops" in answer.text
    for each in (first, second):
        given = {"content": "look", "chatJid": "fake:room/2", "sessionId": each.id}
        assert told(await agent.call("inject_message", **given))["session_id"] == each.id


async def test_a_named_conversation_must_be_in_the_room_and_below_the_caller(
    tmp_path: Path, store: SqliteStore
) -> None:
    """Rules on rooms hold for a conversation that is named by its id, too."""
    agent = await GateAgent.create(tmp_path, store, "acme")
    below = await store.write(_talk, "acme/eng", "fake:room/2")
    other = await store.write(_talk, "other", "fake:room/2")
    for given in ({"sessionId": below.id}, {"sessionId": other.id, "chatJid": "fake:room/2"}, {"sessionId": "s-0"}):
        answer = await agent.call("inject_message", content="look", **given)
        assert answer.failed and "name its room as chatJid" in answer.text
    await store.write(sessions.close, below.id, 1)
    closed = await agent.call("inject_message", content="look", sessionId=below.id, chatJid="fake:room/2")
    assert closed.failed


async def test_nothing_is_put_into_a_conversation_whose_answer_nobody_hears(tmp_path: Path, store: SqliteStore) -> None:
    agent = await GateAgent.create(tmp_path, store, "acme")
    await store.write(lambda db: groups.add(db, "acme/eng", "eng", "scripted", 1))
    await agent.call("delegate_group", group="acme/eng", prompt="look")
    (errand,) = await store.read(errands.list_given_out, agent.session.id)
    answer = await agent.call("inject_message", content="hurry", chatJid=errand.room)
    assert answer.failed and "send_to_agent" in answer.text
    assert len(await store.read(_waiting, errand.session_id)) == 1


async def test_where_nobody_talks_yet_a_conversation_of_the_own_group_begins(
    tmp_path: Path, store: SqliteStore
) -> None:
    agent = await GateAgent.create(tmp_path, store, "acme")
    await store.write(destinations.add_room, "acme", "ops", "fake", "fake:room/7", "", 1)
    told(await agent.call("inject_message", content="look", chatJid="ops"))
    assert [each.folder for each in await store.read(sessions.list_in_room, "fake:room/7")] == ["acme"]
    assert ROOM != "fake:room/7"


async def test_stranger_new_reading_a_conversation_stops_at_the_bound_and_goes_on_from_there(
    tmp_path: Path, store: SqliteStore
) -> None:
    agent = await GateAgent.create(tmp_path, store, "acme")
    for number in range(8):
        await agent.receive(f"{number}" + "\\" * 40_000)
    await agent.receive("8" + "\\" * 400_000)

    given: dict[str, Any] = {"sessionId": agent.session.id, "limit": 200}
    found: list[str] = []
    more = True
    while more:
        answer = await agent.call("read_session", **given)
        assert answer.structured is not None and len(answer.structured) <= LARGEST_ANSWER
        page = told(answer)
        given["before"], more = page["oldest"], page["more"]
        found = [each["text"] for each in page["entries"]] + found
    assert [text[:2] for text in found] == ["he", *(f"{number}\\" for number in range(9))]
    assert found[-1].endswith("of 400001 characters)")
    assert [len(text) for text in found[1:-1]] == [40_001] * 8


@pytest.mark.slow
async def test_stranger_new_so_many_messages_are_put_into_a_conversation_and_no_more(
    tmp_path: Path, store: SqliteStore
) -> None:
    agent = await GateAgent.create(tmp_path, store, "acme")
    for number in range(MOST_INJECTED):
        told(await agent.call("inject_message", content=f"look {number}"))
    before = len(await store.read(_waiting, agent.session.id))
    answer = await agent.call("inject_message", content="once more")

    assert answer.failed and "50 such messages wait there" in answer.text and "try again when" in answer.text
    assert len(await store.read(_waiting, agent.session.id)) == before == MOST_INJECTED + 1
    assert await agent.receive("people are not held up")

    await store.write(inbox.cancel_waiting, agent.session.id, "", 1)
    told(await agent.call("inject_message", content="there is room again"))


@pytest.mark.slow
async def test_stranger_new_so_much_is_put_into_a_conversation_and_no_more(tmp_path: Path, store: SqliteStore) -> None:
    agent = await GateAgent.create(tmp_path, store, "acme")
    for _ in range(LARGEST_INJECTED // 100_000):
        told(await agent.call("inject_message", content="x" * 100_000))
    answer = await agent.call("inject_message", content="once more")
    assert answer.failed and "may have 1000000 characters together at most" in answer.text


def _waiting(db: Db, session_id: str) -> list[inbox.InboxEntry]:
    return [entry for entry, _ in inbox.list_open(db, session_id)]
