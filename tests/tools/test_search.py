"""find_messages through the gate: who finds what, how it is answered, and what a bad query does."""

import asyncio
import json
import threading
from pathlib import Path
from typing import Any

import pytest
from pytest import MonkeyPatch

from gatepost.access.tiers import Tier
from gatepost.core.clock import DAY, iso
from gatepost.core.registry import load_package
from gatepost.gate.tool_answers import LARGEST_ANSWER, ToolAnswer
from gatepost.store import search
from gatepost.store.engine.sqlite_store import SqliteStore
from gatepost.store.messages import destinations, inbox
from gatepost.store.messages.inbox import InboxState
from gatepost.store.port import Db
from gatepost.store.search import Hit, SearchQuery
from gatepost.store.sessions import groups, sessions
from gatepost.store.sessions.sessions import SessionMode
from gatepost.tools.contract import TOOLS
from gatepost_testing.arrivals import add_arrival
from gatepost_testing.gate_agent import FOLDERS, PLATFORM, ROOM, GateAgent, is_invalid

load_package("gatepost.tools")


def told(answer: ToolAnswer) -> dict[str, Any]:
    assert not answer.failed and not answer.code, answer.text
    found = json.loads(answer.text)
    assert isinstance(found, dict)
    return found


def rooms(answer: ToolAnswer) -> set[str]:
    return {each["chat_jid"] for each in told(answer)["messages"]}


def _room(db: Db, folder: str, room: str, *texts: str, at: int = DAY) -> None:
    groups.add(db, folder, folder, "scripted", 1)
    sessions.find_or_add(db, SessionMode.PER_THREAD, folder, PLATFORM, room, "", 1)
    for text in texts:
        message_id = add_arrival(db, at, instance=PLATFORM, address=room, sender="fake:user/2", text=text)
        inbox.refuse(db, message_id, folder, "guest", "", at, state=InboxState.SILENT)


@pytest.mark.parametrize("tier", list(Tier))
async def test_every_tier_finds_what_was_said_in_its_own_room(tier: Tier, tmp_path: Path, store: SqliteStore) -> None:
    assert TOOLS["find_messages"].tier is Tier.WORKER
    agent = await GateAgent.create(tmp_path, store, FOLDERS[tier])
    answer = told(await agent.call("find_messages", query="hello"))
    (hit,) = answer["messages"]
    assert (answer["count"], answer["source"]) == (1, "local-db")
    assert (hit["chat_jid"], hit["sender"], hit["content"]) == (ROOM, "fake:user/1", "«hello»")
    assert (hit["is_from_me"], hit["is_bot_message"]) == (False, False) and hit["rank"] < 0


async def test_what_the_agent_itself_said_is_found_as_its_own(tmp_path: Path, store: SqliteStore) -> None:
    agent = await GateAgent.create(tmp_path, store)
    await agent.call("reply", text="a green 答え")
    (hit,) = told(await agent.call("find_messages", query="答"))["messages"]
    assert (hit["is_from_me"], hit["is_bot_message"], hit["content"]) == (True, True, "a green «答»え")


@pytest.mark.parametrize(
    ("folder", "expected"),
    [
        ("root", {"fake:w", "fake:e", "fake:s", "fake:o"}),
        ("acme", {"fake:w", "fake:e", "fake:s"}),
        ("acme/eng", {"fake:e", "fake:s"}),
        ("acme/eng/sre", {"fake:s"}),
        ("other", {"fake:o"}),
        ("acm", set()),
    ],
)
async def test_arizuko_35_each_group_finds_what_its_part_of_the_tree_may_read(
    folder: str, expected: set[str], tmp_path: Path, store: SqliteStore
) -> None:
    for owner, room in (("acme", "fake:w"), ("acme/eng", "fake:e"), ("acme/eng/sre", "fake:s"), ("other", "fake:o")):
        await store.write(_room, owner, room, "one cup of tea")
    agent = await GateAgent.create(tmp_path, store, folder)
    assert rooms(await agent.call("find_messages", query="tea")) == expected
    for room in ("fake:w", "fake:e", "fake:s", "fake:o"):
        assert rooms(await agent.call("find_messages", query="tea", scope=room)) == expected & {room}


async def test_a_worker_does_not_find_what_is_below_it(tmp_path: Path, store: SqliteStore) -> None:
    await store.write(_room, "acme/eng/sre/deep", "fake:d", "tea")
    agent = await GateAgent.create(tmp_path, store, "acme/eng/sre")
    assert rooms(await agent.call("find_messages", query="tea")) == set()
    assert rooms(await agent.call("find_messages", query="tea", scope="acme/eng/sre")) == set()


async def test_a_destination_is_readable_and_a_closed_conversation_is_not(tmp_path: Path, store: SqliteStore) -> None:
    await store.write(_room, "other", "fake:o", "tea", "milk")
    agent = await GateAgent.create(tmp_path, store, "acme")
    (session,) = await store.read(sessions.list_in_room, ROOM)
    for number in await store.read(lambda db: [row[0] for row in db.rows("SELECT id FROM messages")]):
        await store.write(inbox.refuse, number, "acme", "guest", "", 1, "observed")
    assert rooms(await agent.call("find_messages", query="tea")) == set()
    await store.write(destinations.add_room, "acme", "o", PLATFORM, "fake:o", "", 1)
    assert rooms(await agent.call("find_messages", query="tea")) == {"fake:o"}
    await store.write(_room, "other", "fake:o", "coffee")  # which acme was not given
    assert rooms(await agent.call("find_messages", query="coffee")) == set()
    await store.write(destinations.remove, "acme", "o")
    assert rooms(await agent.call("find_messages", query="tea")) == set()
    assert rooms(await agent.call("find_messages", query="hello")) == {ROOM}
    await store.write(sessions.close, session.id, 2)
    assert rooms(await agent.call("find_messages", query="hello")) == set()


async def test_a_scope_without_a_colon_is_a_group_of_the_own_part(tmp_path: Path, store: SqliteStore) -> None:
    for owner, room in (("acme", "fake:w"), ("acme/eng", "fake:e"), ("acme/ops", "fake:p"), ("other", "fake:o")):
        await store.write(_room, owner, room, "tea")
    agent = await GateAgent.create(tmp_path, store, "acme")
    assert rooms(await agent.call("find_messages", query="tea", scope="acme/eng")) == {"fake:e"}
    assert rooms(await agent.call("find_messages", query="tea", scope="acme")) == {"fake:w", "fake:e", "fake:p"}
    assert rooms(await agent.call("find_messages", query="tea", scope="acme/none")) == set()
    for scope in ("other", "root", "acm", "../other"):
        answer = await agent.call("find_messages", query="tea", scope=scope)
        assert answer.failed and "own or below" in answer.text


@pytest.mark.slow
async def test_limits_sender_and_since(tmp_path: Path, store: SqliteStore) -> None:
    agent = await GateAgent.create(tmp_path, store)
    await store.write(_room, "acme/eng", ROOM, *["tea"] * 230)
    for limit, expected in ((500, 200), (0, 1), (-1, 1), (7, 7)):
        assert told(await agent.call("find_messages", query="tea", limit=limit))["count"] == expected
    assert told(await agent.call("find_messages", query="tea"))["count"] == 20
    assert told(await agent.call("find_messages", query="tea", sender="fake:user/1"))["count"] == 0
    assert told(await agent.call("find_messages", query="tea", sender="fake:user/2"))["count"] == 20
    assert told(await agent.call("find_messages", query="tea", since=iso(DAY)))["count"] == 20
    assert told(await agent.call("find_messages", query="tea", since=iso(DAY + 1_000_000)))["count"] == 0


@pytest.mark.parametrize("query", ['"', "AND", "a) OR (b", "*", "marks : x", "", "x'; DROP TABLE messages; --"])
async def test_arizuko_35_a_malformed_query_is_a_tools_error_and_the_next_call_works(
    query: str, tmp_path: Path, store: SqliteStore
) -> None:
    agent = await GateAgent.create(tmp_path, store)
    answer = await agent.call("find_messages", query=query)
    assert answer.failed and answer.text.startswith("query: ")
    assert told(await agent.call("find_messages", query="hello"))["count"] == 1


async def test_bad_input_is_refused(tmp_path: Path, store: SqliteStore) -> None:
    agent = await GateAgent.create(tmp_path, store)
    assert is_invalid(await agent.call("find_messages"))
    assert is_invalid(await agent.call("find_messages", query=3))
    answer = await agent.call("find_messages", query="hello", since="last week")
    assert answer.failed and "since" in answer.text


async def test_the_audit_keeps_no_words_of_a_query(tmp_path: Path, store: SqliteStore) -> None:
    assert "query" in TOOLS["find_messages"].bodies


async def test_a_group_searches_once_at_a_time(tmp_path: Path, store: SqliteStore, monkeypatch: MonkeyPatch) -> None:
    agent = await GateAgent.create(tmp_path, store)
    running, most, lock, find = 0, 0, threading.Lock(), search.find

    def counted(db: Db, wanted: SearchQuery) -> list[Hit]:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        met.wait(0.05)  # where two could be at it, they would meet here
        found = find(db, wanted)
        with lock:
            running -= 1
        return found

    met = threading.Event()
    monkeypatch.setattr(search, "find", counted)
    answers = await asyncio.gather(*(agent.call("find_messages", query="hello") for _ in range(3)))
    assert [told(each)["count"] for each in answers] == [1, 1, 1] and most == 1


async def test_stranger_new_hits_stop_at_the_bound(tmp_path: Path, store: SqliteStore) -> None:
    agent = await GateAgent.create(tmp_path, store, "acme")
    await store.write(_room, "acme", ROOM, *(f"found{number:03d} word " + "x" * 3900 for number in range(150)))
    answer = await agent.call("find_messages", query="word", limit=200)

    assert len(answer.text) <= LARGEST_ANSWER
    found = told(answer)
    assert found["more"] and 0 < found["count"] == len(found["messages"]) < 150
