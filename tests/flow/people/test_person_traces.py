"""Traces of a person in a home: also in conversations that they never wrote in."""

from contextlib import nullcontext
from pathlib import Path

from gatepost.core.registry import load_package
from gatepost.flow.people.person_erasure import PersonErasure
from gatepost.flow.people.person_traces import find_traces
from gatepost.store import session_notes, sessions, turns
from gatepost.store.port import Db
from gatepost.store.session_notes import SessionNotes
from gatepost.store.sqlite_store import SqliteStore
from gatepost.testing.gate_agent import GateAgent

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
    home, now = agent.around.home, agent.around.clock.now()
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
    await PersonErasure(home, store, agent.around.clock, asleep=lambda _: nullcontext(True)).erase(HER, "me")
    for each in children:
        assert not home.session(each).exists()
        assert await store.read(session_notes.get, each) == SessionNotes(each)
        assert await store.read(sessions.get_conversation, each, "scripted") == ""
