"""What the tools that speak have in common: how much a turn may say, and which message a number means."""

from pathlib import Path
from typing import Any

import pytest

from gatepost.core.registry import load_package
from gatepost.core.settings import Config
from gatepost.flow.delivery.outgoing_messages import MOST_RESULTS
from gatepost.store.engine.sqlite_store import SqliteStore
from gatepost.store.messages import outbox
from gatepost.store.port import Db
from gatepost.store.rights.requests import BoundKind
from gatepost.store.sessions import groups, sessions
from gatepost.store.sessions.sessions import SessionMode
from gatepost.tools.kit.outbox_effects import LONGEST_BOUND, LONGEST_TEXT, bind_text, parse_seq
from gatepost_testing.arrivals import add_arrival
from gatepost_testing.gate_agent import PLATFORM, ROOM, GateAgent

load_package("gatepost.tools")
OTHER = "fake:room/2"


async def make_agent(tmp_path: Path, store: SqliteStore, **more: Any) -> GateAgent:
    return await GateAgent.create(tmp_path, store, **more)


async def list_texts(store: SqliteStore) -> list[str]:
    def read(db: Db) -> list[str]:
        return [str(row[0]) for row in db.rows("SELECT text FROM messages WHERE direction = 'out' ORDER BY id")]

    return await store.read(read)


@pytest.mark.parametrize(
    ("named", "seq"), [(7, 7), ("7", 7), ("007", 7), ("p7", None), ("\u0667", None), ("", None), ("1" * 10, None)]
)
def test_a_number_is_ours_and_other_names_are_the_platforms(named: int | str, seq: int | None) -> None:
    assert parse_seq(named) == seq


async def test_a_turn_may_say_so_much_and_no_more(tmp_path: Path, store: SqliteStore) -> None:
    agent = await make_agent(tmp_path, store, config=Config({MOST_RESULTS.name: 3}))
    answers = [await agent.call("send", text=f"word {number}") for number in range(4)]
    assert [each.failed for each in answers] == [False, False, False, True]
    assert "3 things at most" in answers[-1].text
    assert await list_texts(store) == ["word 0", "word 1", "word 2"]


async def test_another_session_has_a_measure_of_its_own(tmp_path: Path, store: SqliteStore) -> None:
    first = await make_agent(tmp_path, store, config=Config({MOST_RESULTS.name: 1}))
    second = await make_agent(tmp_path, store, folder="beta", config=Config({MOST_RESULTS.name: 1}))
    assert not (await first.call("send", text="a")).failed and not (await second.call("send", text="b")).failed
    assert (await first.call("send", text="c")).failed


async def test_a_call_that_is_made_again_says_nothing_twice(tmp_path: Path, store: SqliteStore) -> None:
    agent = await make_agent(tmp_path, store)
    answers = [await agent.call("send", "call-7", text="once") for _ in range(2)]
    assert answers[0].text == answers[1].text and await list_texts(store) == ["once"]


@pytest.mark.parametrize(
    ("text", "why"), [("", "is empty"), (" \n", "is empty"), ("x" * (LONGEST_TEXT + 1), "write a file")]
)
async def test_nothing_and_too_much_are_not_said(tmp_path: Path, store: SqliteStore, text: str, why: str) -> None:
    agent = await make_agent(tmp_path, store)
    answer = await agent.call("send", text=text)
    assert answer.failed and why in answer.text and await list_texts(store) == []


async def test_the_longest_text_is_said_whole(tmp_path: Path, store: SqliteStore) -> None:
    agent = await make_agent(tmp_path, store)
    assert not (await agent.call("send", text="x" * LONGEST_TEXT)).failed
    assert [len(each) for each in await list_texts(store)] == [LONGEST_TEXT]


async def test_only_its_own_messages_are_edited(tmp_path: Path, store: SqliteStore) -> None:
    agent = await make_agent(tmp_path, store)
    heard = await agent.receive("of a person")
    await agent.call("send", text="mine")
    (own,) = await store.read(lambda db: db.rows("SELECT seq FROM outbox"))
    assert not (await agent.call("edit", targetId=int(own[0]), content="better")).failed
    answer = await agent.call("edit", targetId=heard, content="changed")
    assert answer.failed and "only your own messages" in answer.text


async def test_a_message_of_another_room_is_not_reached_by_its_number(tmp_path: Path, store: SqliteStore) -> None:
    agent = await make_agent(tmp_path, store)

    def add(db: Db) -> None:
        groups.add(db, "beta", "Beta", "", 1)
        sessions.find_or_add(db, SessionMode.SHARED, "beta", PLATFORM, OTHER, "", 1)
        add_arrival(db, 1, address=OTHER, platform_id="secret")

    await store.write(add)
    for named in ("secret", 99):
        answer = await agent.call("like", targetId=named, reaction="\U0001f44d")
        assert answer.failed and "use the number that stands with the message" in answer.text


async def test_a_tool_speaks_in_the_room_of_its_turn(tmp_path: Path, store: SqliteStore) -> None:
    agent = await make_agent(tmp_path, store)
    await agent.call("send", text="here")
    effect = await store.read(lambda db: db.row("SELECT key FROM outbox"))
    assert effect is not None
    found = await store.read(outbox.find_by_key, str(effect[0]))
    assert found is not None and (found.instance, found.address) == (PLATFORM, ROOM)
    assert (found.session_id, found.turn_id is not None) == (agent.session.id, True)
    assert agent.woken == [(PLATFORM, ROOM)]


def test_a_text_that_is_too_long_to_be_shown_can_be_allowed_by_nobody() -> None:
    whole, cut = (
        bind_text(BoundKind.TASK, "t", "x" * LONGEST_BOUND),
        bind_text(BoundKind.TASK, "t", "x" * LONGEST_BOUND + "y"),
    )
    assert not whole.cut and whole.shown == "x" * LONGEST_BOUND
    assert cut.cut and len(cut.shown) < LONGEST_BOUND + 150 and f"{LONGEST_BOUND + 1} characters" in cut.shown


def test_a_text_is_bound_with_its_version() -> None:
    kind = BoundKind.MESSAGE
    assert bind_text(kind, "t", "x", [1, 2]).digest != bind_text(kind, "t", "x", [1, 3]).digest
    assert bind_text(kind, "t", "x", [1]).digest == bind_text(kind, "t", "x", [1]).digest
