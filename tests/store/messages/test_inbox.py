"""Inbox: numbers, and states that end."""

import json

import pytest
from tests.store.conftest import Desk

from gatepost.core.errors import NotFound
from gatepost.store.messages import inbox, message_steps, messages
from gatepost.store.messages.inbox import InboxState
from gatepost_testing.store_errors import INTEGRITY_ERRORS


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
    inbox.set_state(desk.db, row, InboxState.ANSWERED, "", None, desk.now)
    inbox.set_state(desk.db, row, InboxState.FAILED, "too late", None, desk.now)
    assert desk.entry(row).state == "answered"
    assert [step.step for step in message_steps.list_for_message(desk.db, desk.entry(row).message_id)] == [
        "queued",
        "answered",
    ]


def test_a_message_reaches_a_session_once(desk: Desk) -> None:
    message_id = desk.accept("x")
    inbox.enqueue(desk.db, message_id, desk.session.id, "acme", "member", desk.now)
    with pytest.raises(INTEGRITY_ERRORS):
        inbox.enqueue(desk.db, message_id, desk.session.id, "acme", "member", desk.now)


def test_a_session_that_is_gone_is_named(desk: Desk) -> None:
    message_id = desk.accept("x")
    with pytest.raises(NotFound, match="no session named 's-gone'"):
        inbox.enqueue(desk.db, message_id, "s-gone", "acme", "member", desk.now)


def test_withdrawing_takes_what_waits_and_leaves_what_is_worked_on(desk: Desk) -> None:
    desk.begun("worked on")
    desk.hear("waiting")
    assert inbox.cancel_waiting(desk.db, desk.session.id, "stopped", desk.now) == 1
    assert desk.states() == ["working", "cancelled"]


def test_messages_with_files_are_found_among_the_newest_of_a_session(desk: Desk) -> None:
    def send(content: dict[str, object]) -> int:
        row = desk.hear("see")
        message = desk.entry(row).message_id
        desk.db.run("UPDATE messages SET content = ? WHERE id = ?", (json.dumps(content), message))
        return message

    first, second = send({"attachments": [{"name": "a.pdf"}]}), send({"attachments": [{"name": "b.pdf"}]})
    send({"files": []})
    found = messages.list_with_files(desk.db, desk.session.id, 10)
    assert [each.id for each in found] == [second, first]
    assert [each.id for each in messages.list_with_files(desk.db, desk.session.id, 2)] == [second]
    assert messages.list_with_files(desk.db, "s-other", 10) == []
