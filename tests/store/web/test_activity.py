"""Rows of everything that happened, in portions from the newest back."""

from tests.store.conftest import NOON, ROOM, Desk

from gatepost.core.clock import MINUTE
from gatepost.store.messages.inbox import InboxState
from gatepost.store.messages.outbox import EffectState
from gatepost.store.money import costs
from gatepost.store.money.costs import NewCost
from gatepost.store.people import users
from gatepost.store.rights import audit
from gatepost.store.rights.audit import AuditRecord
from gatepost.store.rooms import rooms
from gatepost.store.rooms.rooms import RoomPolicy
from gatepost.store.schedule import firings, tasks
from gatepost.store.schedule.firings import FiringState
from gatepost.store.schedule.tasks import NewTask, ScheduleKind
from gatepost.store.web import activity

NEWEST = 2**62


def test_messages_come_in_portions_with_the_groups_that_got_them_and_what_became_of_answers(desk: Desk) -> None:
    turn = desk.begun("one", "two")
    desk.say("k1", "an answer", turn=turn)
    newest = activity.list_messages(desk.db, NEWEST, 2)
    assert [row.text for row in newest] == ["an answer", "two"]
    older = activity.list_messages(desk.db, newest[-1].id, 2)
    assert [row.text for row in older] == ["one"]
    ids = [row.id for row in (*newest, *older)]
    targets = activity.list_targets(desk.db, ids)
    assert {each.folder for found in targets.values() for each in found} == {"acme"} and len(targets) == 2
    assert targets[ids[-1]][0].state is InboxState.WORKING
    assert activity.list_deliveries(desk.db, ids) == {ids[0]: EffectState.PENDING}
    assert [row.id for row in activity.list_messages_of(sorted(ids), desk.db, ids[0], 1)] == [ids[1]]
    assert activity.list_messages_of([], desk.db, NEWEST, 1) == []


def test_the_record_is_read_without_what_was_erased_or_is_long(desk: Desk) -> None:
    for number, details in enumerate(({"a": 1}, {"a": "x" * 9000})):
        audit.append(desk.db, AuditRecord(NOON + number, "operator", "task.add", "done", details))
    desk.db.run("UPDATE audit SET details = NULL WHERE at = ?", (NOON,))
    assert [(row.at, row.details) for row in activity.list_audit(desk.db, NEWEST, 9)] == [(NOON + 1, ""), (NOON, "")]


def test_costs_and_firings_say_whose_they_are(desk: Desk) -> None:
    costs.add_external(desk.db, NewCost(key="a", at=NOON, folder="acme", model="m", micro=5, user="u"), NOON)
    (cost,) = activity.list_costs(desk.db, NEWEST, 9)
    assert (cost.folder, cost.user, cost.model, cost.micro) == ("acme", "u", "m", 5)
    new = NewTask(
        folder="acme",
        instance=ROOM[0],
        address=ROOM[1],
        prompt="read the news " + "x" * 200,
        kind=ScheduleKind.EVERY,
        schedule="1h",
        every=MINUTE,
        created_by="op",
        next_at=NOON,
    )
    task = tasks.add(desk.db, new, (), 0, NOON)
    firings.add(desk.db, task.id, NOON, NOON, FiringState.SKIPPED)
    (fired,) = activity.list_firings(desk.db, NEWEST, 9)
    assert (fired.folder, fired.state, len(fired.title)) == ("acme", "skipped", 80)
    assert activity.list_firings(desk.db, fired.id, 9) == []


def test_names_are_read_for_many_at_once(desk: Desk) -> None:
    users.add(desk.db, "fake:user/9", "Ann", NOON)
    rooms.add(desk.db, "fake", "fake:room/7", "General", False, RoomPolicy.STRICT, NOON)
    assert activity.list_names(desk.db, "users", ["fake:user/9", "x"]) == {"fake:user/9": "Ann"}
    assert activity.list_names(desk.db, "groups", []) == {}
    wanted = [("fake", "fake:room/7"), ("fake", "fake:room/8")]
    assert activity.list_room_names(desk.db, wanted) == {("fake", "fake:room/7"): "General"}
    assert activity.list_room_names(desk.db, []) == {}


def test_the_first_row_after_a_moment_is_found_by_halves(desk: Desk) -> None:
    for number in range(9):
        audit.append(desk.db, AuditRecord(NOON + number, "operator", "task.add", "done", {}))
    rows = {row.at: row.id for row in activity.list_audit(desk.db, NEWEST, 9)}
    assert activity.find_first_after(desk.db, "audit", NOON + 3) == rows[NOON + 4]
    assert activity.find_first_after(desk.db, "audit", NOON + 99) == rows[NOON + 8] + 1
    assert activity.find_first_after(desk.db, "costs", NOON) == 0
    assert [activity.find_first_after(desk.db, table, NOON) for table in ("messages", "firings")] == [0, 0]
