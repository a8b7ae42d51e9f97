"""Inbox: numbers, states that end, and what a mailbox must hold."""

import pytest

from gatepost.core.clock import SECOND
from gatepost.core.errors import NotFound
from gatepost.store import inbox, message_steps, messages, sessions
from gatepost.store.port import Db
from gatepost.testing.counting import CountingDb

from .conftest import Desk


def test_nanoclaw_28_both_directions_are_numbered_in_one_row(desk: Desk) -> None:
    first = desk.entry(desk.hear("a"))
    second = desk.say("k", "b")
    third = desk.entry(desk.hear("c"))
    assert [first.seq, second.seq, third.seq] == [1, 2, 3]
    texts = [
        (messages.find_by_seq(desk.db, desk.session.id, seq) or pytest.fail("no such seq")).text for seq in (1, 2, 3)
    ]
    assert texts == ["a", "b", "c"]


def test_an_end_state_is_the_end(desk: Desk) -> None:
    row = desk.hear()
    inbox.set_state(desk.db, row, "answered", "", None, desk.now)
    inbox.set_state(desk.db, row, "failed", "too late", None, desk.now)
    assert desk.entry(row).state == "answered"
    assert [step.step for step in message_steps.list_for_message(desk.db, desk.entry(row).message_id)] == [
        "queued",
        "answered",
    ]


def test_a_message_reaches_a_session_once(desk: Desk) -> None:
    message_id = desk.accept("x")
    inbox.enqueue(desk.db, message_id, desk.session.id, "acme", "member", desk.now)
    with pytest.raises(Exception, match="UNIQUE constraint failed"):
        inbox.enqueue(desk.db, message_id, desk.session.id, "acme", "member", desk.now)


def test_a_session_that_is_gone_is_named(desk: Desk) -> None:
    message_id = desk.accept("x")
    with pytest.raises(NotFound, match="no session named 's-gone'"):
        inbox.enqueue(desk.db, message_id, "s-gone", "acme", "member", desk.now)


def test_a_mailbox_holds_what_is_open_and_the_newest_context(desk: Desk) -> None:
    ended = desk.hear("ended")
    inbox.set_state(desk.db, ended, "answered", "", None, desk.now)
    seen = [
        inbox.observe(desk.db, desk.accept(f"context {number}"), desk.session.id, "acme", "guest", desk.now)
        for number in range(3)
    ]
    open_row = desk.hear("open")

    assert held(desk.db, desk, observed=2) == [*seen[1:], open_row]
    assert held(desk.db, desk) == [open_row]
    assert [entry.id for entry, _ in inbox.list_open(desk.db, desk.session.id)] == [open_row]


def held(
    db: Db, desk: Desk, observed: int = 0, chars: int = 10**6, rows: int = 100, size: int = 10**6, **most: int
) -> list[int]:
    limits = inbox.ProjectionLimits(observed, chars, rows, size, **most)
    return [entry.id for entry, _ in inbox.list_to_project(db, desk.session.id, limits).pairs]


def test_the_window_of_a_session_counts_before_that_of_its_group(desk: Desk) -> None:
    seen = [
        inbox.observe(desk.db, desk.accept(f"context {number}"), desk.session.id, "acme", "guest", desk.now)
        for number in range(2 * inbox.PAGE)
    ]
    assert held(desk.db, desk, observed=3) == seen[-3:]
    sessions.set_window(desk.db, desk.session.id, inbox.PAGE + 5, None)
    assert held(desk.db, desk, observed=3) == seen[-inbox.PAGE - 5 :]
    assert held(desk.db, desk, observed=3, most_observed=7) == seen[-7:]
    sessions.set_window(desk.db, desk.session.id, 0, None)
    assert held(desk.db, desk, observed=3) == []
    sessions.set_window(desk.db, desk.session.id, None, len("context 99") * 2)
    assert held(desk.db, desk, observed=9) == seen[-2:]


def test_sessions_with_work_are_those_with_a_row_that_is_due(desk: Desk) -> None:
    row = desk.hear()
    assert inbox.list_sessions_with_work(desk.db, desk.now) == [(desk.session.id, "acme", desk.now)]
    inbox.set_state(desk.db, row, "retry", "", desk.now + SECOND, desk.now)
    assert inbox.list_sessions_with_work(desk.db, desk.now) == []
    assert inbox.get_next_due(desk.db) == desk.now + SECOND
    inbox.set_state(desk.db, row, "failed", "", None, desk.now)
    assert inbox.get_next_due(desk.db) is None


def test_looking_after_a_session_never_brings_a_moment_nearer(desk: Desk) -> None:
    soon, late = desk.hear("soon"), desk.hear("late")
    inbox.set_state(desk.db, late, "queued", "", desk.now + 100 * SECOND, desk.now)
    inbox.defer_session_due(desk.db, desk.session.id, desk.now + 10 * SECOND)
    assert [desk.entry(row).next_at for row in (soon, late)] == [desk.now + 10 * SECOND, desk.now + 100 * SECOND]


def test_withdrawing_takes_what_waits_and_leaves_what_is_worked_on(desk: Desk) -> None:
    desk.begun("worked on")
    desk.hear("waiting")
    assert inbox.cancel_waiting(desk.db, desk.session.id, "stopped", desk.now) == 1
    assert desk.states() == ["working", "cancelled"]


def test_stranger_new_of_what_waits_only_the_next_rows_are_projected(desk: Desk) -> None:
    working = [desk.hear(f"working {number}") for number in range(3)]
    claim = desk.claim()
    assert claim is not None and list(claim.rows) == working
    waiting = [desk.hear(f"waiting {number}") for number in range(30)]

    assert held(desk.db, desk, rows=20, size=10_000) == [*working, *waiting[:20]]
    assert held(desk.db, desk, rows=20, size=10) == [*working, *waiting[:5]]  # each has the content {}
    assert held(desk.db, desk, rows=20, size=1) == [*working, waiting[0]]
    assert held(desk.db, desk, rows=0, size=0) == working


def test_stranger_new_context_that_does_not_fit_is_not_read(desk: Desk) -> None:
    rows = [
        inbox.observe(desk.db, desk.accept("x" * 1000), desk.session.id, "acme", "guest", desk.now) for _ in range(300)
    ]
    counting = CountingDb(desk.db)
    assert held(counting, desk, observed=1_000_000, chars=120_000) == rows[-120:]
    assert counting.read_rows <= 2 * 120 + 2 * inbox.PAGE
