"""A task acts by the rights that those behind it have when it fires: which way a right is lost does not matter."""

from collections.abc import Callable

import pytest
from tests.flow.schedule.conftest import INSTANCE, ROOM, TaskDesk

from gatepost.core.errors import Invalid
from gatepost.flow.schedule.task_changes import read_rules, resume_task, run_task
from gatepost.store.messages.outbox import OutboxEffect
from gatepost.store.people import identities, users
from gatepost.store.people.users import UserRole
from gatepost.store.port import Db
from gatepost.store.rights import acl
from gatepost.store.rights.acl import AclEffect, AclRow
from gatepost.store.rooms import direct_rooms, rooms
from gatepost.store.rooms.origins import Origin
from gatepost.store.rooms.rooms import RoomPolicy
from gatepost.store.schedule.tasks import Task, TaskState
from gatepost.store.sessions import groups, sessions
from gatepost.store.sessions.sessions import SessionMode

ANN, ANNS_ROOM = "fake:user/ann", "fake:dm/ann"
HERS = Origin(ANN, INSTANCE, ROOM)


def allow(principal: str, action: str) -> AclRow:
    return AclRow(id=0, principal=principal, action=action, scope="acme")


def close_room(db: Db) -> None:
    """Only who belongs to the group may speak there."""
    rooms.set_policy(db, INSTANCE, ROOM, RoomPolicy.STRICT)


def remove_rows(db: Db) -> None:
    for row in acl.list_rows(db):
        acl.remove(db, row.id)


# How somebody may speak to acme, and how that is lost.
def be_allowed(db: Db) -> None:
    acl.put(db, allow(ANN, "interact"), 1)


def be_in_a_role(db: Db) -> None:
    acl.put(db, allow("role:ops", "interact"), 1)
    acl.add_member(db, ANN, "role:ops", "operator", 1)


def leave_the_role(db: Db) -> None:
    acl.remove_member(db, ANN, "role:ops")


def be_paired(db: Db) -> None:
    users.add(db, "fake:user/owner", "Ann", 1)
    users.add_role(db, "fake:user/owner", UserRole.ADMIN, "acme", "operator", 1)
    identities.add(db, ANN, "fake:user/owner", "operator", 1)


def be_unpaired(db: Db) -> None:
    identities.remove(db, ANN)


def be_a_member(db: Db) -> None:
    users.add(db, ANN, "Ann", 1)
    users.add_member(db, ANN, "acme", "operator", 1)


def be_put_out(db: Db) -> None:
    db.run("DELETE FROM group_members WHERE user_id = ?", (ANN,))


def be_denied(db: Db) -> None:
    deny = AclRow(id=0, principal=ANN, action="interact", scope="acme", effect=AclEffect.DENY)
    acl.put(db, deny, 1)


def be_a_guest(db: Db) -> None:
    rooms.set_policy(db, INSTANCE, ROOM, RoomPolicy.PUBLIC)


WAYS = [
    (be_allowed, remove_rows),
    (be_in_a_role, leave_the_role),
    (be_paired, be_unpaired),
    (be_a_member, be_put_out),
    (be_a_member, be_denied),
    (be_a_guest, close_room),
]


async def fire(desk: TaskDesk) -> None:
    desk.clock.advance(3600)
    await desk.tick()


async def list_notices(desk: TaskDesk) -> list[OutboxEffect]:
    return [each for each in await desk.said() if each.origin == "notice"]


async def assert_refused(desk: TaskDesk, task: Task, why: str) -> None:
    firing = (await desk.log(task))[-1]
    assert firing.state == "failed" and why in firing.reason
    paused = await desk.task(task)
    assert paused.state is TaskState.PAUSED and why in paused.reason


@pytest.mark.parametrize("words", [{"prompt": "look"}, {"text": "look"}])
@pytest.mark.parametrize(("gain", "lose"), WAYS)
async def test_a_task_ends_with_the_right_of_whom_it_was_made_for_to_speak(
    desk: TaskDesk, gain: Callable[[Db], None], lose: Callable[[Db], None], words: dict[str, str]
) -> None:
    await desk.store.write(close_room)
    await desk.store.write(gain)
    task = await desk.add("1h", origins=(HERS,), depth=1, **words)
    await fire(desk)
    assert [each.state for each in await desk.log(task)] == ["sent" if "text" in words else "queued"]

    await desk.store.write(lose)
    await fire(desk)
    await assert_refused(desk, task, "may not speak to acme any more")
    [notice] = await list_notices(desk)
    assert notice.address == ROOM and "is paused" in notice.payload["text"]
    await fire(desk)
    assert len(await list_notices(desk)) == 1


async def test_owner_and_room_are_told_once_each_and_the_room_not_what_the_task_was_to_do(desk: TaskDesk) -> None:
    await desk.store.write(be_a_member)
    await desk.store.write(direct_rooms.add, ANN, INSTANCE, ANNS_ROOM, 1)
    task = await desk.add("1h", prompt="my secret plans", origins=(HERS,), depth=1)
    await desk.store.write(close_room)
    await desk.store.write(be_put_out)
    await fire(desk)
    await desk.store.write(resume_task, task.id, desk.clock.now())
    told = {each.address: each.payload["text"] for each in await list_notices(desk)}
    assert set(told) == {ANNS_ROOM, ROOM} and len(await list_notices(desk)) == 2
    assert "my secret plans" in told[ANNS_ROOM] and "secret" not in told[ROOM]


async def test_somebody_who_asked_another_agent_needs_a_right_where_she_asked(desk: TaskDesk) -> None:
    """The person is no member of the group that made the task: another agent passed their words on."""
    there = "fake:room/front"

    def prepare(db: Db) -> None:
        groups.add(db, "front", "Front", "", 1)
        rooms.add(db, INSTANCE, there, "Front", False, RoomPolicy.STRICT, 1)
        sessions.find_or_add(db, SessionMode.SHARED, "front", INSTANCE, there, "", 1)
        users.add(db, ANN, "Ann", 1)
        users.add_member(db, ANN, "front", "operator", 1)

    await desk.store.write(prepare)
    task = await desk.add("1h", text="on the hour", origins=(Origin(ANN, INSTANCE, there),), depth=2)
    await fire(desk)
    assert [each.state for each in await desk.log(task)] == ["sent"]
    await desk.store.write(be_put_out)
    await fire(desk)
    await assert_refused(desk, task, "may not speak")


async def test_what_a_person_made_by_a_command_ends_with_her_right_to_tasks(desk: TaskDesk) -> None:
    row = await desk.store.write(acl.put, allow(ANN, "op:tasks.write"), 1)
    await desk.store.write(close_room)
    task = await desk.add("1h", text="on the hour", created_by=ANN, origins=(HERS,))
    await fire(desk)
    assert [each.state for each in await desk.log(task)] == ["sent"]
    await desk.deliver()
    await desk.store.write(acl.remove, row.id)
    await fire(desk)
    await assert_refused(desk, task, "has no right to tasks of acme any more (op:tasks.write)")


async def test_a_prompt_is_not_run_once_its_agent_may_not_schedule_any_more(desk: TaskDesk) -> None:
    task = await desk.add("1h", prompt="look")
    await desk.store.write(acl.add_rule, "acme", "!schedule_task", "operator", 1)
    await fire(desk)
    await assert_refused(desk, task, "forbids acme to schedule it")


@pytest.mark.parametrize("folder", ["acme/ann", "acme/people/ann"])
async def test_a_task_of_an_agent_below_a_world_runs_at_its_time(desk: TaskDesk, folder: str) -> None:
    def make(db: Db) -> None:
        for each in ("acme/people", folder):
            groups.add(db, each, "", "", 1)
        sessions.find_or_add(db, SessionMode.PER_THREAD, folder, INSTANCE, ROOM, "", 1)

    await desk.store.write(make)
    task = await desk.add("1h", prompt="look", folder=folder, created_by=f"agent:{folder}")
    await fire(desk)
    assert [(each.state, each.reason) for each in await desk.log(task)] == [("queued", "")]


async def test_a_task_that_another_groups_agent_made_ends_with_that_group(desk: TaskDesk) -> None:
    await desk.store.write(groups.add, "boss", "Boss", "", 1)
    task = await desk.add("1h", prompt="look", created_by="agent:boss")
    await desk.store.write(groups.remove, "boss")
    await fire(desk)
    await assert_refused(desk, task, "whose agent made it, is gone")


async def test_a_room_that_a_group_lost_is_told_nothing(desk: TaskDesk) -> None:
    task = await desk.add("1h", text="secret plans")
    await desk.store.write(lambda db: [sessions.close(db, each.id, 1) for each in sessions.list_open(db)])
    await fire(desk)
    await assert_refused(desk, task, "has no way to its room")
    assert await desk.said() == []


async def test_the_operators_tasks_need_nobodys_rights(desk: TaskDesk) -> None:
    task = await desk.add("1h", text="on the hour", created_by="operator")
    await desk.store.write(close_room)
    await fire(desk)
    assert [each.state for each in await desk.log(task)] == ["sent"]


async def test_what_may_not_run_is_not_run_by_hand_either(desk: TaskDesk) -> None:
    task = await desk.add("1h", prompt="look", origins=(HERS,), depth=1)
    await desk.store.write(close_room)
    with pytest.raises(Invalid, match="may not speak to acme any more"):
        await desk.store.write(run_task, desk.channels, task.id, read_rules(desk.config), desk.clock.now())
    assert await desk.log(task) == []
