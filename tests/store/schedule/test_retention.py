"""What is over age goes, in small portions, and nothing else does."""

from pathlib import Path

import pytest
from tests.store.conftest import LEASE, NOON, ROOM, Desk

from gatepost.core.clock import DAY
from gatepost.store import search
from gatepost.store.engine.sqlite_db import SqliteDb, connect
from gatepost.store.messages import inbox, message_steps, messages, outbox
from gatepost.store.messages.outbox import EffectState
from gatepost.store.money import ledger
from gatepost.store.port import Db
from gatepost.store.rights import audit
from gatepost.store.rights.audit import AuditRecord
from gatepost.store.schedule import firings, retention, tasks
from gatepost.store.schedule.firings import FiringState
from gatepost.store.schedule.retention import RemovalBatch
from gatepost.store.schedule.tasks import NewTask, ScheduleKind, TaskState
from gatepost.store.sessions import groups, sessions, timeline, turns
from gatepost.store.sessions.timeline import TimelineKind

LATER = NOON + 100 * DAY  # everything of NOON is over age before it


def answered(desk: Desk, text: str) -> tuple[int, int]:
    """(message, its answer) of a turn that has ended, with all of it delivered."""
    turn = desk.begun(text)
    effect = desk.say(f"key {text}", f"echo: {text}", turn=turn)
    assert outbox.claim_head(desk.db, *ROOM, "pump", desk.now, LEASE) is not None
    outbox.record_outcome(desk.db, effect.id, EffectState.SENT, "", desk.now, platform_id=f"out {text}")
    assert desk.finish(turn)
    entry, _ = inbox.list_for_turn(desk.db, turn.id)[0]
    return entry.message_id, effect.message_id


def count(db: Db, table: str) -> int:
    row = db.row(f"SELECT COUNT(*) FROM {table}")
    assert row is not None
    return int(row[0])


def test_stranger_23_messages_over_age_go_with_all_that_tells_of_them_and_the_ledger_stays_whole(desk: Desk) -> None:
    old = answered(desk, "old")
    desk.now = LATER
    young = answered(desk, "young")

    done = retention.remove_messages(desk.db, 0, LATER, 50)

    assert done == RemovalBatch(2, old[1], False)
    assert [messages.get(desk.db, each) is not None for each in (*old, *young)] == [False, False, True, True]
    assert (count(desk.db, "inbox"), count(desk.db, "outbox")) == (1, 1)
    assert not message_steps.list_for_message(desk.db, old[0]) and message_steps.list_for_message(desk.db, young[0])
    search.index(desk.db)
    assert count(desk.db, "search") == 2
    assert ledger.check(desk.db, LATER).unaccounted == 0
    assert ledger.was_removed(desk.db, old[0]) and not ledger.was_removed(desk.db, young[0])


def test_stranger_23_a_message_in_flight_stays_whatever_its_age(desk: Desk) -> None:
    queued = desk.entry(desk.hear("waits")).message_id
    said = desk.say("waits", "is not sent yet", origin="tool").message_id

    assert retention.remove_messages(desk.db, 0, LATER, 50).removed == 0
    assert retention.remove_steps(desk.db, 0, LATER, 50).removed == 0
    assert message_steps.list_for_message(desk.db, queued) and message_steps.list_for_message(desk.db, said)


def test_a_message_that_something_pending_answers_stays_and_one_that_was_answered_goes(desk: Desk) -> None:
    first, second = answered(desk, "first"), answered(desk, "second")
    desk.db.run("UPDATE outbox SET target_id = ? WHERE message_id = ?", (first[0], second[1]))
    waiting = desk.say("late", "not sent yet", origin="tool")
    desk.db.run("UPDATE outbox SET target_id = ? WHERE id = ?", (second[0], waiting.id))

    retention.remove_messages(desk.db, 0, LATER, 50)

    assert messages.get(desk.db, first[0]) is None
    assert messages.get(desk.db, second[0]) is not None


def test_a_portion_removes_no_more_than_it_may_and_says_where_to_go_on(desk: Desk) -> None:
    for number in range(5):
        answered(desk, str(number))

    first = retention.remove_messages(desk.db, 0, LATER, 4)
    assert (first.removed, first.more) == (4, True)
    rest = retention.remove_messages(desk.db, first.after, LATER, 100)
    assert (rest.removed, rest.more) == (6, False)
    assert count(desk.db, "messages") == 0


def test_steps_over_age_go_and_their_message_stays(desk: Desk) -> None:
    old, _ = answered(desk, "old")
    desk.now = LATER
    young, _ = answered(desk, "young")

    after, more = 0, True
    while more:
        portion = retention.remove_steps(desk.db, after, LATER, 2)
        assert portion.removed <= 2
        after, more = portion.after, portion.more

    assert messages.get(desk.db, old) is not None
    assert not message_steps.list_for_message(desk.db, old) and len(message_steps.list_for_message(desk.db, young)) == 4
    assert ledger.check(desk.db, LATER).unaccounted == 0


def test_turns_over_age_go_but_for_a_sessions_newest_and_open_one(desk: Desk) -> None:
    for text in ("one", "two"):
        answered(desk, text)
        desk.now += 1
    running = desk.begun("three")

    assert retention.remove_turns(desk.db, "", LATER, 50).removed == 2
    assert [turn.id for turn in turns.list_for_session(desk.db, desk.session.id, LATER, 9)] == [running.id]
    assert desk.finish(running)
    assert retention.remove_turns(desk.db, "", LATER, 50).removed == 0
    assert ledger.check(desk.db, NOON).unaccounted == 0


def test_the_last_entry_of_a_timeline_stays_so_that_its_numbers_go_on(desk: Desk) -> None:
    for _ in range(4):
        timeline.add(desk.db, desk.session.id, "t", TimelineKind.STATUS, {}, NOON)

    first = retention.remove_timeline(desk.db, "", LATER, 2)
    assert first == RemovalBatch(2, "", True)
    second = retention.remove_timeline(desk.db, "", LATER, 2)
    assert second == RemovalBatch(1, desk.session.id, True)
    assert retention.remove_timeline(desk.db, second.after, LATER, 2).more is False
    assert timeline.add(desk.db, desk.session.id, "t", TimelineKind.STATUS, {}, NOON) == 5


def record(db: Db, count: int, at: int) -> None:
    audit.append(db, *(AuditRecord(at, "acme", "send", "allowed", {"number": number}) for number in range(count)))


def cut(db: Db, before: int) -> int:
    through = retention.truncate_audit(db, before, LATER)
    while retention.remove_truncated(db, 0, 3).more:
        assert audit.verify(db)[1] is None
    return through


def test_stranger_23_a_shortened_audit_chain_still_holds_and_shows_every_change(db: Db) -> None:
    record(db, 10, NOON)
    record(db, 5, LATER)

    assert cut(db, LATER) == 10
    assert count(db, "audit") == 6  # with the row that vouches for the anchor
    assert audit.verify(db) == (6, None)
    assert audit.erase_details(db, 16) and audit.verify(db) == (6, None)

    db.run("UPDATE audit SET verdict = 'denied' WHERE seq = 12")
    assert audit.verify(db) == (2, 12)


def test_an_anchor_that_no_row_vouches_for_does_not_hold(db: Db) -> None:
    record(db, 10, NOON)
    row = db.row("SELECT hash FROM audit WHERE seq = 4")
    assert row is not None
    db.run("INSERT INTO audit_anchors (gateway, seq, number, hash, at) VALUES ('', 4, 4, ?, ?)", (row[0], NOON))
    db.run("DELETE FROM audit WHERE seq <= 4")

    assert audit.verify(db)[1] == 5


def test_a_chain_can_be_cut_again_and_again_and_never_whole(db: Db) -> None:
    record(db, 4, NOON)
    head = audit.get_head(db)
    assert cut(db, LATER) == 3  # the newest row stays
    record(db, 4, NOON + DAY)
    assert cut(db, NOON + 1) == 4
    assert audit.continues_from(db, 4, head.partition(":")[2])
    assert cut(db, NOON + 1) == 0
    assert audit.verify(db)[1] is None


def test_uses_and_bookings_over_age_go(db: Db) -> None:
    for at in (NOON, LATER):
        db.run("INSERT INTO secret_uses (at, name, folder, outcome) VALUES (?, 'key', 'acme', 'used')", (at,))
        db.run(
            "INSERT INTO costs (key, at, booked_at, folder, user_id, session_id, turn_id, model, source, measured,"
            " input, output, cache_read, cache_write, micro) VALUES (?, ?, ?, '', '', '', '', '', 'proxy', 1, 0, 0, 0,"
            " 0, 1)",
            (str(at), at, at),
        )

    assert retention.remove_secret_uses(db, 0, LATER, 50).removed == 1
    assert retention.remove_costs(db, 0, LATER, 50).removed == 1
    assert (count(db, "secret_uses"), count(db, "costs")) == (1, 1)


@pytest.mark.sqlite(reason="pages of a file")
def test_stranger_23_a_new_store_gives_its_free_pages_back_a_few_at_a_time(desk: Desk) -> None:
    for number in range(200):
        desk.accept(f"{number} " + "x" * 1000)
    desk.db.run("DELETE FROM messages")
    pages = desk.db.row("PRAGMA page_count")
    assert retention.can_shrink(desk.db) and pages is not None

    left = retention.release_pages(desk.db, 10)
    shrunk = desk.db.row("PRAGMA page_count")

    assert shrunk is not None and shrunk[0] == pages[0] - 10
    while left:
        left, before = retention.release_pages(desk.db, 10), left
        assert left >= before - 10


@pytest.mark.sqlite(reason="FTS5 and its merges")
@pytest.mark.sqlite
def test_the_search_index_never_merges_by_itself_because_of_what_was_removed(desk: Desk) -> None:
    answered(desk, "old")
    search.index(desk.db)
    retention.remove_messages(desk.db, 0, LATER, 50)
    retention.merge_search_index(desk.db, 50)

    assert desk.db.row("SELECT v FROM search_config WHERE k = 'deletemerge'") == (0,)
    assert desk.db.rows("SELECT rowid FROM search WHERE search MATCH 'old'") == []


def test_a_store_that_was_made_without_it_is_left_as_it_is(tmp_path: Path) -> None:
    db = SqliteDb(connect(tmp_path / "old.db"))
    db.define("CREATE TABLE t (x {int}) {strict}")
    db.connection.execute("PRAGMA journal_mode=DELETE")
    db.connection.execute("PRAGMA auto_vacuum=NONE")
    db.connection.execute("VACUUM")

    assert not retention.can_shrink(db)
    assert retention.release_pages(db, 10) == 0


@pytest.mark.parametrize("what", retention.TABLES)
def test_what_there_is_can_be_counted(desk: Desk, what: str) -> None:
    answered(desk, "old")
    assert retention.count(desk.db, what, LATER).rows >= 0
    assert retention.count(desk.db, "messages", LATER) == retention.RetentionStats(2, NOON, 2)


def test_runs_of_tasks_over_age_go_and_then_tasks_that_are_over(db: Db) -> None:
    groups.add(db, "acme", "Acme", "", NOON)
    new = NewTask(
        folder="acme", instance="fake", address="fake:room/1", prompt="x", kind=ScheduleKind.EVERY, schedule="1h",
        every=1,
        next_at=NOON, created_by="agent:acme",
    )  # fmt: skip
    active, over, running = [tasks.add(db, new, (), 0, NOON) for _ in range(3)]
    for each in (over, running):
        tasks.set_state(db, each.id, TaskState.CANCELLED, "", None, NOON)
    for each, state in ((active, "silent"), (over, "failed"), (running, "queued")):
        firings.add(db, each.id, NOON, NOON, FiringState(state))
    assert retention.remove_tasks(db, "", LATER, 50).removed == 0
    assert retention.remove_firings(db, 0, LATER, 50).removed == 2
    assert retention.remove_tasks(db, "", LATER, 50).removed == 1
    assert tasks.get(db, over.id) is None and tasks.get(db, active.id) and tasks.get(db, running.id)


def test_sessions_of_single_runs_go_once_they_are_closed_and_over_age(desk: Desk) -> None:
    place = ("acme", *ROOM, "")
    closed, live, busy = sessions.add_isolated(desk.db, [place] * 3, NOON)
    inbox.enqueue(desk.db, desk.accept("waits"), busy, "acme", "task", NOON, inbox.InboxMode.TASK)
    for each in (closed, busy, desk.session.id):
        sessions.close(desk.db, each, NOON)
    assert retention.remove_isolated_sessions(desk.db, "", LATER, 50).removed == 1
    every = {closed, live, busy, desk.session.id}
    assert {each for each in every if sessions.get(desk.db, each) is not None} == {live, busy, desk.session.id}
