"""Which times of tasks run, which are skipped, and which fail at once."""

from collections.abc import Mapping
from typing import Any

import pytest

from gatepost.core.clock import HOUR
from gatepost.flow.schedule.firing_facts import FiringFacts, check_overlap, judge_times, make_place_request, read_facts
from gatepost.store.messages import inbox
from gatepost.store.people import users
from gatepost.store.port import Db
from gatepost.store.rights import acl
from gatepost.store.rights.acl import AclEffect, AclRow
from gatepost.store.rooms.origins import Origin
from gatepost.store.schedule import firings, tasks
from gatepost.store.schedule.firings import FiringState, make_firing
from gatepost.store.schedule.task_places import TaskPlace
from gatepost.store.schedule.tasks import MissedPolicy, NewTask, ScheduleKind, Task, TaskContext, TaskState
from gatepost.store.sessions import agents, groups, sessions
from gatepost.store.sessions.sessions import SessionMode
from gatepost_testing.arrivals import add_arrival
from gatepost_testing.clock import NOON

HERE, AWAY = TaskPlace(True, "", "acme"), TaskPlace(False, "", "acme")
ANN, ROOM = "fake:user/ann", "fake:room/1"


def make_new(**more: Any) -> NewTask:
    fields: dict[str, Any] = {
        "folder": "acme", "instance": "fake", "address": ROOM, "prompt": "look", "kind": ScheduleKind.EVERY,
        "schedule": "1h", "every": HOUR, "next_at": NOON, "created_by": "operator",
    }  # fmt: skip
    return NewTask(**(fields | more))


def make_task(name: str = "t1", **more: Any) -> Task:
    new = make_new(**more)
    given = {each: getattr(new, each) for each in NewTask.__struct_fields__}
    return Task(
        **given, id=name, state=TaskState.ACTIVE, reason="", runs=0, failures=0, depth=0, created_at=1, updated_at=1
    )


def make_facts(
    task: Task,
    *,
    waiting: int = 0,
    place: TaskPlace = HERE,
    fired: set[tuple[str, int]] | None = None,
    behind: tuple[Origin, ...] = (),
    shut_out: set[tuple[str, str]] | None = None,
) -> FiringFacts:
    return FiringFacts(
        waiting={task.id: waiting} if waiting else {},
        behind={task.id: behind},
        places={task.id: place},
        fired=fired or set(),
        shut_out=shut_out or set(),
    )


def judge(facts: FiringFacts, task: Task, *times: int, most_late: int = 3, parts: int = 1) -> list[tuple[str, str]]:
    """Return (skipped, refused) of each time that is judged."""
    judged = judge_times(facts, [(task, each) for each in times], most_late, {task.id: parts})
    return [(each.skipped, each.refused) for each in judged]


RUNS = ("", "")


def test_a_time_that_has_come_runs() -> None:
    task = make_task()
    assert judge(make_facts(task), task, NOON) == [RUNS]


def test_a_time_that_was_fired_is_not_fired_again() -> None:
    task = make_task(missed=MissedPolicy.ALL)
    facts = make_facts(task, fired={(task.id, NOON), ("another", NOON + HOUR)})
    judged = judge_times(facts, [(task, NOON), (task, NOON + HOUR)], 3, {task.id: 1})
    assert [each.due_at for each in judged] == [NOON + HOUR]


@pytest.mark.parametrize("missed", [MissedPolicy.SKIP, MissedPolicy.ONCE])
def test_only_one_run_at_a_time_where_missed_times_are_not_made_up_for(missed: MissedPolicy) -> None:
    """Also within one look: the first of two times holds up the second."""
    task = make_task(missed=missed)
    assert judge(make_facts(task, waiting=1), task, NOON) == [("the run before has not ended", "")]
    assert judge(make_facts(task), task, NOON, NOON + HOUR) == [RUNS, ("the run before has not ended", "")]


def test_all_missed_times_run_up_to_the_limit() -> None:
    task = make_task(missed=MissedPolicy.ALL)
    assert judge(make_facts(task, waiting=1), task, NOON, NOON + 1, NOON + 2) == [
        RUNS,
        RUNS,
        ("3 runs of it have not ended", ""),
    ]
    assert judge(make_facts(task), task, NOON, most_late=0) == [("0 runs of it have not ended", "")]


def test_a_text_of_several_parts_fills_the_limit_by_its_parts() -> None:
    task = make_task(prompt="", text="long", missed=MissedPolicy.ALL)
    assert judge(make_facts(task), task, NOON, NOON + 1, NOON + 2, parts=2) == [
        RUNS,
        RUNS,  # two wait, and three may
        ("4 runs of it have not been delivered", ""),
    ]


def test_a_text_that_is_still_on_its_way_holds_up_the_next() -> None:
    task = make_task(prompt="", text="hello")
    assert check_overlap(task, 1, 3) == "the run before has not been delivered"


def test_a_task_whose_group_cannot_reach_the_room_fails_and_holds_up_nothing() -> None:
    task = make_task(missed=MissedPolicy.ONCE)
    lost = ("", "acme has no way to its room any more")
    assert judge(make_facts(task, place=AWAY), task, NOON, NOON + 1) == [lost, lost]


def test_a_task_of_somebody_who_was_shut_out_fails() -> None:
    task, ann = make_task(), Origin(ANN, "fake", ROOM)
    facts = make_facts(task, behind=(ann,), shut_out={(ANN, "acme")})
    assert judge(facts, task, NOON) == [
        ("", "somebody on whose behalf it was made may not speak to acme any more"),
    ]
    assert judge(make_facts(task, behind=(ann,), shut_out={(ANN, "beta"), ("fake:user/bob", "acme")}), task, NOON) == [
        RUNS
    ]


def test_a_time_that_is_skipped_is_not_refused_too() -> None:
    """A failure counts towards pausing the task, a skipped time does not."""
    task = make_task()
    assert judge(make_facts(task, waiting=1, place=AWAY), task, NOON) == [("the run before has not ended", "")]


def test_the_folders_below_a_group_lie_between_its_bounds() -> None:
    asked = make_place_request(make_task())
    between = [each for each in ("acme/", "acme/eng", "acme/eng/1") if asked.low <= each < asked.high]
    assert between == ["acme/", "acme/eng", "acme/eng/1"]
    assert not [
        each for each in ("acme", "acme-2", "acme.x/y", "acmes/eng", "beta/x") if asked.low <= each < asked.high
    ]
    root = make_place_request(make_task(folder="root"))
    assert all(root.low <= each < root.high for each in ("acme", "zeta/\u4e2d"))


def test_only_a_task_in_the_conversation_of_its_room_names_conversations() -> None:
    lasting = make_place_request(make_task())
    assert lasting.of_room == sessions.key_of(SessionMode.SHARED, "acme", "fake", ROOM, "")
    assert len({lasting.of_room, lasting.of_thread, lasting.of_group}) == 3
    for each in (make_task(context=TaskContext.ISOLATED), make_task(instance=agents.INSTANCE)):
        found = make_place_request(each)
        assert (found.of_room, found.of_thread, found.of_group) == ("", "", "")


@pytest.fixture
def acme(db: Db) -> Db:
    groups.add(db, "acme", "Acme", "", NOON)
    users.add(db, ANN, "", NOON)
    users.add_member(db, ANN, "acme", "test", NOON)
    return db


def read(db: Db, task: Task, times: Mapping[str, int], *behind: Origin) -> FiringFacts:
    return read_facts(db, [task], [*times.items()], 3, {task.id: behind})


def test_a_run_that_waits_is_counted_and_its_time_is_known_as_fired(acme: Db) -> None:
    task = tasks.add(acme, make_new(), (), 0, NOON)
    assert read(acme, task, {task.id: NOON}).waiting.get(task.id, 0) == 0
    session = sessions.find_or_add(acme, SessionMode.SHARED, "acme", "fake", ROOM, "", NOON)
    message_id = add_arrival(acme, NOON)
    inbox.enqueue(acme, message_id, session.id, "acme", "member", NOON)
    row = make_firing(task.id, NOON, NOON, FiringState.QUEUED, message_id=message_id, session_id=session.id)
    firings.add_all(acme, [row])
    found = read(acme, task, {task.id: NOON})
    assert (found.waiting[task.id], found.fired) == (1, {(task.id, NOON)})
    assert read(acme, task, {task.id: NOON + 1}).fired == set()


def test_the_place_of_a_task_is_reached_by_a_conversation_of_its_group(acme: Db) -> None:
    task = tasks.add(acme, make_new(), (), 0, NOON)
    assert not read(acme, task, {}).places[task.id].reached
    session = sessions.find_or_add(acme, SessionMode.SHARED, "acme", "fake", ROOM, "", NOON)
    place = read(acme, task, {}).places[task.id]
    assert (place.reached, place.session_id) == (True, session.id)


def test_whoever_was_denied_since_is_shut_out(acme: Db) -> None:
    ann = Origin(ANN, "fake", ROOM)
    task = tasks.add(acme, make_new(), (ann,), 0, NOON)
    assert read(acme, task, {}, ann).shut_out == set()
    acl.put(acme, AclRow(id=0, principal=ANN, action="interact", scope="acme", effect=AclEffect.DENY), NOON)
    assert read(acme, task, {}, ann).shut_out == {(ANN, "acme")}
