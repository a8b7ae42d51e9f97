"""Mailbox rows: what a mailbox must hold, and how little is read to know it."""

import pytest
from tests.store.conftest import Desk

from gatepost.store.messages import inbox, mailbox_rows
from gatepost.store.messages.inbox import InboxState
from gatepost.store.port import Db
from gatepost.store.sessions import sessions
from gatepost_testing.counting import CountingDb


def test_a_mailbox_holds_what_is_open_and_the_newest_context(desk: Desk) -> None:
    ended = desk.hear("ended")
    inbox.set_state(desk.db, ended, InboxState.ANSWERED, "", None, desk.now)
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
    limits = mailbox_rows.ProjectionLimits(observed, chars, rows, size, **most)
    return [entry.id for entry, _ in mailbox_rows.list_to_project(db, desk.session.id, limits).pairs]


def test_the_window_of_a_session_counts_before_that_of_its_group(desk: Desk) -> None:
    seen = [
        inbox.observe(desk.db, desk.accept(f"context {number}"), desk.session.id, "acme", "guest", desk.now)
        for number in range(2 * mailbox_rows.PAGE)
    ]
    assert held(desk.db, desk, observed=3) == seen[-3:]
    sessions.set_window(desk.db, desk.session.id, mailbox_rows.PAGE + 5, None)
    assert held(desk.db, desk, observed=3) == seen[-mailbox_rows.PAGE - 5 :]
    assert held(desk.db, desk, observed=3, most_observed=7) == seen[-7:]
    sessions.set_window(desk.db, desk.session.id, 0, None)
    assert held(desk.db, desk, observed=3) == []
    sessions.set_window(desk.db, desk.session.id, None, len("context 99") * 2)
    assert held(desk.db, desk, observed=9) == seen[-2:]


def test_stranger_new_of_what_waits_only_the_next_rows_are_projected(desk: Desk) -> None:
    working = [desk.hear(f"working {number}") for number in range(3)]
    claim = desk.claim()
    assert claim is not None and list(claim.rows) == working
    waiting = [desk.hear(f"waiting {number}") for number in range(30)]

    assert held(desk.db, desk, rows=20, size=10_000) == [*working, *waiting[:20]]
    assert held(desk.db, desk, rows=20, size=10) == [*working, *waiting[:5]]  # each has the content {}
    assert held(desk.db, desk, rows=20, size=1) == [*working, waiting[0]]
    assert held(desk.db, desk, rows=0, size=0) == working


@pytest.mark.slow
def test_stranger_new_context_that_does_not_fit_is_not_read(desk: Desk) -> None:
    rows = [
        inbox.observe(desk.db, desk.accept("x" * 1000), desk.session.id, "acme", "guest", desk.now) for _ in range(300)
    ]
    counting = CountingDb(desk.db)
    assert held(counting, desk, observed=1_000_000, chars=120_000) == rows[-120:]
    assert counting.read_rows <= 2 * 120 + 2 * mailbox_rows.PAGE
