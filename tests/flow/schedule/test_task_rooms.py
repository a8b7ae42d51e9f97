"""The room of a task that a person makes: where its group has a conversation, or would have one."""

from collections.abc import Sequence

import pytest

from gatepost.core.clock import HOUR
from gatepost.core.errors import Invalid, NotFound
from gatepost.core.settings import Config
from gatepost.flow.schedule import task_rooms
from gatepost.flow.schedule.task_changes import read_rules
from gatepost.flow.schedule.task_rooms import TaskRoom, add_task_in, find_new_place, find_task_room
from gatepost.store.messages import destinations
from gatepost.store.port import Db
from gatepost.store.rooms import rooms, routes
from gatepost.store.rooms.rooms import RoomPolicy
from gatepost.store.rooms.routes import Route
from gatepost.store.schedule import tasks
from gatepost.store.schedule.tasks import NewTask, ScheduleKind, TaskState
from gatepost.store.sessions import agents, groups, sessions
from gatepost.store.sessions.sessions import Session, SessionMode
from gatepost_testing.clock import NOON

ONE, TWO = "fake:room/1", "fake:room/2"


@pytest.fixture(autouse=True)
def acme(db: Db) -> None:
    for folder in ("acme", "beta"):
        groups.add(db, folder, folder, "", NOON)


def add_room(db: Db, address: str, instance: str = "fake") -> None:
    rooms.add(db, instance, address, address, False, RoomPolicy.STRICT, NOON)


def converse(db: Db, address: str, mode: SessionMode = SessionMode.SHARED, folder: str = "acme") -> Session:
    add_room(db, address)
    return sessions.find_or_add(db, mode, folder, "fake", address, "", NOON)


def route(db: Db, match: str, target: str) -> None:
    new = Route(seq=0, match=match, target=target, folder=target.partition("#")[0], created_by="t", created_at=NOON)
    routes.add(db, new)


def test_a_room_in_which_the_group_speaks_is_taken(db: Db) -> None:
    converse(db, ONE)
    assert find_task_room(db, "acme", ONE) == TaskRoom(instance="fake", address=ONE)


def test_a_room_that_leads_to_the_group_would_begin_a_conversation(db: Db) -> None:
    add_room(db, ONE)
    route(db, "platform=fake", "acme")
    found = find_task_room(db, "acme", ONE)
    assert (found.instance, found.address) == ("fake", ONE) and found.opens is not None


@pytest.mark.parametrize(("target", "why"), [("beta", "nothing that is written there"), ("acme#observe", "nothing")])
def test_a_room_of_others_or_one_that_is_only_observed_is_refused(db: Db, target: str, why: str) -> None:
    add_room(db, ONE)
    route(db, "platform=fake", target)
    with pytest.raises(NotFound, match=why):
        find_task_room(db, "acme", ONE)


def test_a_room_that_nobody_knows_and_a_group_that_is_none_are_named(db: Db) -> None:
    with pytest.raises(NotFound, match="nobody has written to acme there yet"):
        find_task_room(db, "acme", ONE)
    with pytest.raises(NotFound, match="gatepost group list"):
        find_task_room(db, "gone", ONE)


def test_the_only_room_need_not_be_named_and_of_two_one_must(db: Db) -> None:
    converse(db, ONE)
    converse(db, TWO, folder="beta")
    assert find_task_room(db, "acme", "").address == ONE
    add_room(db, TWO)
    destinations.add_room(db, "acme", "two", "fake", TWO, "", NOON)
    with pytest.raises(Invalid, match=f"acme has 2 rooms.*{ONE}, {TWO}"):
        find_task_room(db, "acme", "")


def test_a_run_of_a_task_alone_is_no_conversation_of_its_group(db: Db) -> None:
    add_room(db, ONE)
    sessions.add_isolated(db, [("acme", "fake", ONE, "")], NOON)
    with pytest.raises(Invalid, match="nobody has written to acme yet"):
        find_task_room(db, "acme", "")


def test_without_any_room_those_are_named_that_would_lead_there(db: Db) -> None:
    add_room(db, ONE)
    route(db, "platform=fake", "acme")
    with pytest.raises(Invalid, match=f"these lead to it: {ONE}"):
        find_task_room(db, "acme", "")


def make_new(**more: object) -> NewTask:
    fields: dict[str, object] = {
        "folder": "acme", "instance": "", "address": "", "prompt": "look", "kind": ScheduleKind.EVERY, "schedule": "1h",
        "every": HOUR, "next_at": NOON + HOUR, "created_by": "fake:user/ann",
    }  # fmt: skip
    return NewTask(**(fields | more))  # type: ignore[arg-type]


def list_modes(db: Db) -> Sequence[SessionMode]:
    return [each.mode for each in sessions.list_open(db, "acme")]


def test_a_task_is_added_with_its_maker_and_the_conversation_that_it_needs(db: Db) -> None:
    room = TaskRoom(instance="fake", address=ONE, thread="t", opens=SessionMode.SHARED)
    task, added = add_task_in(db, room, make_new(), read_rules(Config()), "fake:user/ann", NOON)
    assert added and (task.instance, task.address, task.thread) == ("fake", ONE, "t")
    assert list_modes(db) == [SessionMode.SHARED]
    row = db.row("SELECT person FROM task_origins WHERE task_id = ?", (task.id,))
    assert row == ("fake:user/ann",)


def test_a_task_in_a_room_that_has_its_conversation_begins_none(db: Db) -> None:
    converse(db, ONE, SessionMode.PER_THREAD)
    add_task_in(db, TaskRoom(instance="fake", address=ONE), make_new(), read_rules(Config()), "", NOON)
    assert list_modes(db) == [SessionMode.PER_THREAD]


def test_a_task_moves_to_another_room_and_not_away_from_its_agent(db: Db) -> None:
    converse(db, ONE)
    task, _ = add_task_in(db, TaskRoom(instance="fake", address=ONE), make_new(), read_rules(Config()), "", NOON)
    add_room(db, TWO)
    route(db, "platform=fake", "acme")
    assert find_new_place(db, task, TWO, NOON) == ("fake", TWO, "")
    assert len(list_modes(db)) == 2
    of_agent = TaskRoom(instance=agents.INSTANCE, address="agents:a-1")
    sessions.find_or_add(db, SessionMode.SHARED, "acme", agents.INSTANCE, "agents:a-1", "", NOON)
    task, _ = add_task_in(db, of_agent, make_new(), read_rules(Config()), "", NOON)
    with pytest.raises(Invalid, match="make another task"):
        find_new_place(db, task, TWO, NOON)


def test_a_task_goes_to_an_agent_of_its_group_that_lives_and_ends_with_it(db: Db) -> None:
    session = sessions.find_or_add(db, SessionMode.SHARED, "acme", agents.INSTANCE, "agents:a-1", "", NOON)
    room = task_rooms.find_agent_room(db, "acme", session)
    assert room == TaskRoom(instance=agents.INSTANCE, address="agents:a-1")
    with pytest.raises(Invalid, match="no agent of beta"):
        task_rooms.find_agent_room(db, "beta", session)
    converse(db, ONE)
    mine, _ = add_task_in(db, room, make_new(), read_rules(Config()), "", NOON)
    other, _ = add_task_in(db, TaskRoom(instance="fake", address=ONE), make_new(), read_rules(Config()), "", NOON)
    task_rooms.cancel_agent_tasks(db, session, "fake:user/ann", NOON)
    states = [found.state for each in (mine, other) if (found := tasks.get(db, each.id)) is not None]
    assert states == [TaskState.CANCELLED, TaskState.ACTIVE]
    sessions.close(db, session.id, NOON)
    closed = sessions.get(db, session.id)
    assert closed is not None
    with pytest.raises(Invalid, match="was ended"):
        task_rooms.find_agent_room(db, "acme", closed)
