"""Traces of a person in a home: also in conversations that they never wrote in."""

import os
from contextlib import nullcontext
from pathlib import Path

import msgspec
import pytest

from gatepost.core.home import Home
from gatepost.core.registry import load_package
from gatepost.flow.people import person_traces
from gatepost.flow.people.person_erasure import PersonErasure
from gatepost.flow.people.person_traces import find_mentions, find_traces
from gatepost.store.engine.sqlite_store import SqliteStore
from gatepost.store.port import Db
from gatepost.store.sessions import sessions, turns
from gatepost.store.sessions.sessions import SessionNotes
from gatepost_testing.gate_agent import GateAgent

load_package("gatepost.tools")
HER = "fake:user/1"


def _end_turn(db: Db, session_id: str, now: int) -> None:
    turn = turns.find_open(db, session_id)
    assert turn is not None
    turns.cancel(db, turn.id, "done", now)


def _begin(db: Db, session_id: str, now: int) -> None:
    turn = turns.find_open(db, session_id)
    assert turn is not None
    rows = tuple(row[0] for row in db.rows("SELECT id FROM inbox WHERE turn_id = ?", (turn.id,)))
    turns.begin(db, turn.id, turn.epoch, rows, now)
    turns.set_conversation(db, turn.id, turn.epoch, "c-1", now)


async def test_a_fork_of_a_conversation_that_she_wrote_in_is_hers_too(tmp_path: Path, store: SqliteStore) -> None:
    agent = await GateAgent.create(tmp_path, store, "acme/eng")
    home, now = agent.deps.home, agent.deps.clock.now()
    await store.write(_begin, agent.session.id, now)
    state = home.session(agent.session.id) / "state" / "scripted"
    state.mkdir(parents=True)
    (state / "c-1.jsonl").write_text("hello")
    await agent.call("fork_topic", child="side")
    await agent.call("fork_topic", parent="side", child="side two")
    await store.write(_end_turn, agent.session.id, now)
    children = [each.id for each in await store.read(sessions.list_open, "acme/eng") if each.thread]
    found = await find_traces(store, HER)

    assert len(children) == 2 and {*children, agent.session.id} <= {*found.sessions, *found.room_sessions}
    await PersonErasure(home, store, agent.deps.clock, asleep=lambda _: nullcontext(True)).erase(HER, "me")
    for each in children:
        assert not home.session(each).exists()
        assert await store.read(sessions.get_notes, each) == SessionNotes(each)
        assert await store.read(sessions.get_conversation, each, "scripted") == ""


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path / "home")
    home.prepare()
    (home.groups / "acme" / "notes").mkdir(parents=True)
    return home


def test_files_that_hold_a_word_or_are_named_by_it_are_found(home: Home) -> None:
    (home.groups / "acme/notes/a.md").write_text("fake:user/9 likes tea")
    (home.groups / "acme/notes/b.md").write_text("fake:user/91 likes coffee")
    (home.groups / "acme/notes/Ann.md").write_text("nothing")
    assert find_mentions(home, ("fake:user/9", "Ann")) == (["groups/acme/notes/Ann.md", "groups/acme/notes/a.md"], True)
    assert find_mentions(home, ()) == ([], True)


def test_a_file_whose_name_is_no_text_is_told_as_text(home: Home) -> None:
    (home.group("acme") / os.fsdecode(b"\xff.md")).write_text("fake:user/9")
    found, whole = find_mentions(home, ("fake:user/9",))
    assert (msgspec.json.decode(msgspec.json.encode(found)), whole) == (["groups/acme/\\xff.md"], True)


def test_a_link_is_not_followed_and_a_pipe_does_not_hold_it_up(home: Home, tmp_path: Path) -> None:
    (tmp_path / "outside").write_text("fake:user/9")
    (home.groups / "acme/link").symlink_to(tmp_path / "outside")
    (home.groups / "acme/around").symlink_to(home.groups)
    os.mkfifo(home.groups / "acme/pipe")
    assert find_mentions(home, ("fake:user/9",)) == ([], True)


def test_too_many_or_too_large_files_are_told(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    with (home.groups / "acme/large").open("wb") as file:
        file.truncate(person_traces.LARGEST_FILE + 1)
    assert find_mentions(home, ("fake:user/9",)) == ([], False)
    (home.groups / "acme/large").unlink()
    monkeypatch.setattr(person_traces, "MOST_FILES", 3)
    for number in range(5):
        (home.groups / f"acme/{number}").write_text("x")
    assert find_mentions(home, ("fake:user/9",)) == ([], False)
