"""What a provider is told that takes over, or comes back."""

from typing import Any

import pytest
from tests.store.conftest import LEASE, Desk

from gatepost.core.clock import SECOND
from gatepost.store.messages import messages
from gatepost.store.sessions import due_sessions, provider_handover, sessions, turn_claims, turns
from gatepost.store.sessions.turn_claims import TurnClaim
from gatepost.store.sessions.turns import Turn


def claim(desk: Desk, provider: str, *, ready: bool = False) -> TurnClaim:
    desk.now += SECOND
    found = turn_claims.claim(desk.db, desk.session.id, provider, desk.owner, desk.now, LEASE, 20, ready=ready)
    assert found is not None
    return found


def turn(desk: Desk, provider: str, asked: str, answer: str) -> Turn:
    """A whole one, in a conversation of that provider."""
    desk.hear(asked)
    found = claim(desk, provider)
    assert turns.begin(desk.db, found.turn.id, found.turn.epoch, found.rows, desk.now)
    turns.set_conversation(desk.db, found.turn.id, found.turn.epoch, f"of {provider}", desk.now)
    desk.say(f"{found.turn.id}/1/0", answer, turn=found.turn)
    assert desk.finish(found.turn)
    return desk.turn(found.turn.id)


def told(desk: Desk, found: TurnClaim) -> list[Any]:
    rows = [messages.get(desk.db, desk.entry(row).message_id) for row in found.rows]
    return [row.content["messages"] for row in rows if row is not None and row.content.get("event") == "history"]


@pytest.mark.parametrize("ready", [False, True])
def test_who_takes_over_is_told_in_order(desk: Desk, ready: bool) -> None:
    turn(desk, "one", "a?", "a!")
    turn(desk, "one", "b?", "b!")
    desk.hear("c?")
    (lines,) = told(desk, claim(desk, "two", ready=ready))

    assert [(line["own"], line["sender"] != "", line["text"]) for line in lines] == [
        (False, True, "a?"),
        (True, False, "a!"),
        (False, True, "b?"),
        (True, False, "b!"),
    ]


def test_a_persons_message_whose_id_looks_like_it_does_not_suppress_it(desk: Desk) -> None:
    turn(desk, "one", "a?", "a!")
    row = desk.hear("b?")
    desk.db.run("UPDATE messages SET platform_id = 'history:x' WHERE id = ?", (desk.entry(row).message_id,))

    assert len(told(desk, claim(desk, "two"))) == 1


def test_who_stays_is_told_nothing(desk: Desk) -> None:
    turn(desk, "one", "a?", "a!")
    desk.hear("b?")

    assert told(desk, claim(desk, "one")) == []


def test_who_comes_back_is_told_what_it_missed(desk: Desk) -> None:
    turn(desk, "one", "a?", "a!")
    turn(desk, "two", "b?", "b!")
    desk.hear("c?")
    (lines,) = told(desk, claim(desk, "one"))

    assert [line["text"] for line in lines] == ["b?", "b!"]


def test_a_turn_that_broke_before_the_provider_had_it_is_not_told_twice(desk: Desk) -> None:
    turn(desk, "one", "a?", "a!")
    desk.hear("b?")
    first = claim(desk, "two")
    broken = desk.break_off(first.turn)
    assert broken.retry_at is not None
    desk.now = broken.retry_at
    again = claim(desk, "two")

    assert again.rows == first.rows and len(told(desk, again)) == 1


def test_it_is_bounded(desk: Desk) -> None:
    for number in range(provider_handover.MOST_MESSAGES):
        turn(desk, "one", f"{number}?", "long " * 200)
    desk.hear("last?")
    (lines,) = told(desk, claim(desk, "two"))

    assert len(lines) <= provider_handover.MOST_MESSAGES
    assert sum(len(line["text"]) for line in lines) <= provider_handover.MOST_CHARS
    assert lines[-1]["text"].startswith("long")


def test_what_was_forgotten_is_not_told(desk: Desk) -> None:
    turn(desk, "one", "a?", "a!")
    sessions.remove_conversations(desk.db, desk.session.id, 1)
    turn(desk, "three", "b?", "b!")
    desk.hear("c?")
    (lines,) = told(desk, claim(desk, "two"))

    assert [line["text"] for line in lines] == ["b?", "b!"]
    assert due_sessions.has_work(desk.db, desk.session.id, desk.now) is False


def test_who_is_continued_after_a_break_is_told_nothing_and_nobody_is_after_a_second_start(desk: Desk) -> None:
    turn(desk, "one", "a?", "a!")
    turn(desk, "two", "b?", "b!")
    turn(desk, "one", "c?", "c!")
    desk.hear("d?")
    found = claim(desk, "one")
    assert turns.begin(desk.db, found.turn.id, found.turn.epoch, found.rows, desk.now)
    broken = desk.break_off(found.turn)
    desk.now = max(desk.now, broken.retry_at or 0)
    desk.owner = "run-second"
    again = claim(desk, "one")
    assert again.continued and again.turn.id == found.turn.id
    assert desk.finish(again.turn)
    desk.hear("e?")

    assert [told(desk, each) for each in (found, again, claim(desk, "one"))] == [[], [], []]
