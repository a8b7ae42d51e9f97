"""Errands as rows: how long they stay, and what an old or a forgotten message takes with it."""

from gatepost.store.messages import inbox
from gatepost.store.messages.inbox import InboxState
from gatepost.store.people import person_rows
from gatepost.store.people.person_scope import FORGOTTEN, PersonScope
from gatepost.store.port import Db
from gatepost.store.rooms import origins
from gatepost.store.rooms.origins import Origin
from gatepost.store.schedule import retention
from gatepost.store.sessions import errands, groups
from gatepost.store.sessions.errands import Errand, ErrandOutcome, ErrandState, NewErrand
from gatepost_testing.arrivals import add_arrival

HER = "fake:user/9"
ROOM = "fake:room/1"
NOON = 1_800_000_000_000_000


def add_errand(db: Db, number: int = 1) -> Errand:
    for folder in ("acme", "acme/eng"):
        groups.add(db, folder, folder, "", NOON)
    session = errands.find_or_add_session(db, "s-1", "acme/eng", "", NOON)
    message_id = add_arrival(
        db,
        NOON,
        instance=errands.INSTANCE,
        address=session.address,
        thread=f"e-{number}",
        sender="agent:acme",
        text="look",
        platform_id=f"errand/e-{number}",
    )
    origins.put(db, message_id, [Origin(HER, "fake", ROOM)], 1)
    row = inbox.enqueue(db, message_id, session.id, "acme/eng", "agent", NOON)
    inbox.set_state(db, row, InboxState.SILENT, "", None, NOON)
    given = NewErrand(
        id=f"e-{number}",
        call_key=f"k-{number}",
        parent="",
        caller_folder="acme",
        caller_session="s-1",
        caller_turn="t-1",
        rights="owner",
        instance="fake",
        address=ROOM,
        thread="",
        folder="acme/eng",
        session_id=session.id,
        room=session.address,
        message_id=message_id,
    )
    return errands.add(db, given, NOON)


def test_two_callers_of_one_group_have_rooms_of_their_own_and_a_group_has_one_for_each_name(db: Db) -> None:
    for folder in ("acme", "acme/eng"):
        groups.add(db, folder, folder, "", NOON)
    found = [
        errands.find_or_add_session(db, caller, folder, name, NOON).id
        for caller in ("s-1", "s-2")
        for folder in ("acme", "acme/eng")
        for name in ("", "apart")
    ]
    assert len(set(found)) == 8
    assert errands.find_or_add_session(db, "s-1", "acme", "", NOON).id == found[0]


def test_the_message_of_an_open_errand_outlives_its_age_and_takes_an_ended_one_along(db: Db) -> None:
    errand = add_errand(db)
    assert retention.remove_messages(db, 0, NOON + 1, 10).removed == 0
    errands.finish(db, errand.id, ErrandOutcome(ErrandState.DONE), None, NOON)
    assert retention.remove_messages(db, 0, NOON + 1, 10).removed == 1
    assert errands.get(db, errand.id) is None


def test_what_was_asked_for_a_forgotten_person_is_gone_with_its_errand(db: Db) -> None:
    errand = add_errand(db)
    scope = PersonScope(names=(HER,), rooms=())
    hers = [each.id for each in person_rows.list_messages(db, scope, 0, 100)]
    assert hers == [errand.message_id]
    person_rows.remove_messages(db, hers, 10)
    assert errands.get(db, errand.id) is None


def test_who_stopped_it_is_forgotten(db: Db) -> None:
    errand = add_errand(db)
    errands.mark_stopping(db, [errand], f"stopped by {HER}")
    (where,) = [each for each in person_rows.COLUMNS if each.table == "errands"]
    person_rows.replace_names(db, where, (HER,), "", 10)
    stopped = errands.get(db, errand.id)
    assert stopped is not None and stopped.reason == f"stopped by {FORGOTTEN}"


def test_an_errand_ends_once_and_in_one_way(db: Db) -> None:
    first, second = add_errand(db), add_errand(db, 2)
    assert errands.finish(db, first.id, ErrandOutcome(ErrandState.DONE), 1, NOON)
    assert not errands.finish(db, first.id, ErrandOutcome(ErrandState.FAILED, reason="x"), 2, NOON)
    errands.mark_stopping(db, [first, second], "stopped by x")
    assert [each.id for each in errands.list_stopping(db, 10)] == [second.id]
    assert not errands.finish(db, second.id, ErrandOutcome(ErrandState.DONE), 3, NOON)
    errands.cancel(db, second.id, NOON)
    assert [(each.state, each.result_id) for each in errands.ERRANDS.list(db, "ORDER BY id")] == [
        (ErrandState.DONE, 1),
        (ErrandState.CANCELLED, None),
    ]
