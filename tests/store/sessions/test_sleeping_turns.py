"""A turn that sleeps in the store: due when its requests expire, at once when somebody decides, and never lost."""

import pytest

from gatepost.core.clock import DAY, MINUTE, SECOND
from gatepost.store.engine.readonly import count_expired_leases
from gatepost.store.messages import inbox, messages
from gatepost.store.money import ledger
from gatepost.store.port import Db
from gatepost.store.rights import requests, waiting_requests
from gatepost.store.rights.requests import NewRequest, RequestKind
from gatepost.store.sessions import due_sessions, groups, sessions, sleeping_turns, turn_claims, turn_failures, turns
from gatepost.store.sessions.sessions import Session, SessionMode
from gatepost.store.sessions.turn_failures import TurnRetryPolicy
from gatepost.store.sessions.turns import Turn, TurnState
from gatepost_testing.clock import NOON

END = NOON + 10 * MINUTE


def at_work(db: Db) -> tuple[Session, Turn]:
    groups.add(db, "acme", "Acme", "scripted", NOON)
    session = sessions.find_or_add(db, SessionMode.PER_THREAD, "acme", "fake", "fake:room/1", "", NOON)
    message_id = messages.add_system(db, session, "m", {"event": "test"}, NOON)
    assert message_id is not None
    inbox.enqueue(db, message_id, session.id, "acme", "member", NOON)
    claim = turn_claims.claim(db, session.id, "scripted", "me", NOON, MINUTE, 20, ready=True)
    assert claim is not None
    return session, claim.turn


def ask(db: Db, turn: Turn, name: str, end: int | None, kind: RequestKind = RequestKind.TOOL) -> str:
    new = NewRequest(
        kind=kind,
        name=name,
        folder="acme",
        session_id=turn.session_id,
        turn_id=turn.id,
        tool="Bash",
        input={},
        expires_at=end,
        next_at=end,
    )
    return requests.add(db, new, NOON)[0].id


def fall_asleep(db: Db, turn: Turn, now: int = NOON) -> Turn:
    assert turn_failures.record_sleep(db, turn.id, turn.epoch, TurnRetryPolicy(), now) is not None
    asleep = turns.get(db, turn.id)
    assert asleep is not None
    return asleep


def test_a_message_that_waits_for_a_person_says_for_which_request(db: Db) -> None:
    _, turn = at_work(db)
    first, _ = ask(db, turn, "a", END), ask(db, turn, "b", END)
    assert waiting_requests.find_pending(db, turn.id) == first and waiting_requests.find_pending(db, "t-0") == ""
    (message_id,) = [int(row[0]) for row in db.rows("SELECT id FROM messages", ())]
    life = ledger.trace_message(db, message_id)
    assert life is not None
    asked = [each.detail for each in life.moments if each.what == "asks a person"]
    assert f"{first} pending: `gatepost permit show {first}`" in asked and len(asked) == 2


def test_it_is_due_when_the_first_of_its_requests_expires_and_nobody_is_late(db: Db) -> None:
    session, turn = at_work(db)
    ask(db, turn, "a", END + MINUTE)
    ask(db, turn, "b", END)
    asleep = fall_asleep(db, turn)
    assert (asleep.state, asleep.next_at, asleep.error) == (TurnState.INTERRUPTED, END, sleeping_turns.ASLEEP)
    later = NOON + 9 * MINUTE
    assert (
        not due_sessions.has_work(db, session.id, later) and due_sessions.get_retry_time(db, session.id, later) == END
    )
    assert ledger.check(db, later).unaccounted == 0 == count_expired_leases(db, later)
    assert turn_claims.claim(db, session.id, "scripted", "me", later, MINUTE, 20) is None
    assert turn_claims.claim(db, session.id, "scripted", "me", END, MINUTE, 20) is not None


def test_one_that_waits_for_nobody_any_more_goes_on_at_once(db: Db) -> None:
    """Somebody decided while its sandbox ended. A held call is not what it waits for."""
    _, turn = at_work(db)
    ask(db, turn, "held", END, RequestKind.CALL)
    assert fall_asleep(db, turn).next_at == NOON


def test_a_decision_makes_it_due_and_only_one_that_sleeps(db: Db) -> None:
    session, turn = at_work(db)
    ask(db, turn, "a", END)
    assert not sleeping_turns.wake(db, turn.id, NOON)
    fall_asleep(db, turn)
    assert sleeping_turns.wake(db, turn.id, NOON + SECOND)
    assert due_sessions.has_work(db, session.id, NOON + SECOND)


@pytest.mark.parametrize("end", [None, NOON + 3 * DAY])
def test_a_request_without_a_near_end_is_looked_at_once_a_day(db: Db, end: int | None) -> None:
    _, turn = at_work(db)
    ask(db, turn, "a", end)
    assert fall_asleep(db, turn).next_at == NOON + DAY


def test_after_a_start_it_sleeps_on_unless_there_is_nothing_to_wait_for(db: Db) -> None:
    _, turn = at_work(db)
    request_id = ask(db, turn, "a", NOON + DAY)
    fall_asleep(db, turn)
    ledger.reset_due_times(db, NOON)  # brings everything near that seems far away
    sleeping_turns.defer_sleeping(db, NOON)
    asleep = turns.get(db, turn.id)
    assert asleep is not None and asleep.next_at == NOON + DAY
    requests.withdraw(db, request_id, "gone", NOON)
    sleeping_turns.defer_sleeping(db, NOON)
    woken = turns.get(db, turn.id)
    assert woken is not None and woken.next_at == NOON


def test_what_providers_ask_in_chats_counts_as_waiting_and_what_managed_agents_ask_does_not(db: Db) -> None:
    _, turn = at_work(db)
    ask(db, turn, "a", END)
    ask(db, turn, "held", END, RequestKind.CALL)
    assert waiting_requests.count_pending(db) == (2, 2)
    db.run("UPDATE sessions SET agent = 1")
    assert waiting_requests.count_pending(db) == (1, 1)
