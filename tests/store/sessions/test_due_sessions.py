"""Due sessions: those with a row that is due, and when the next one is."""

from tests.store.conftest import Desk

from gatepost.core.clock import SECOND
from gatepost.store.gateways import gateways
from gatepost.store.messages import inbox
from gatepost.store.messages.inbox import InboxState
from gatepost.store.sessions import due_sessions


def test_sessions_with_work_are_those_with_a_row_that_is_due(desk: Desk) -> None:
    row = desk.hear()
    assert due_sessions.list_sessions_with_work(desk.db, desk.now) == [(desk.session.id, "acme", desk.now)]
    inbox.set_state(desk.db, row, InboxState.RETRY, "", desk.now + SECOND, desk.now)
    assert due_sessions.list_sessions_with_work(desk.db, desk.now) == []
    assert due_sessions.get_next_due(desk.db) == desk.now + SECOND
    inbox.set_state(desk.db, row, InboxState.FAILED, "", None, desk.now)
    assert due_sessions.get_next_due(desk.db) is None


def test_work_of_a_session_that_another_gateway_has_awake_is_left_to_it(desk: Desk) -> None:
    """Who looks puts off what is due: that gateway would not find it."""
    desk.hear()
    found = [(desk.session.id, "acme", desk.now)]
    assert [due_sessions.list_sessions_with_work(desk.db, desk.now, each) for each in "ab"] == [found, found]
    assert gateways.claim_session(desk.db, desk.session.id, "b")
    assert [due_sessions.list_sessions_with_work(desk.db, desk.now, each) for each in "ab"] == [[], found]


def test_looking_after_a_session_never_brings_a_moment_nearer(desk: Desk) -> None:
    soon, late = desk.hear("soon"), desk.hear("late")
    inbox.set_state(desk.db, late, InboxState.QUEUED, "", desk.now + 100 * SECOND, desk.now)
    due_sessions.defer_session_due(desk.db, desk.session.id, desk.now + 10 * SECOND)
    assert [desk.entry(row).next_at for row in (soon, late)] == [desk.now + 10 * SECOND, desk.now + 100 * SECOND]
