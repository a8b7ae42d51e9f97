"""Drafts that people on a platform see: one open message a turn, whose place one answer takes."""

from tests.store.conftest import ROOM, Desk

from gatepost.messages.inbound import Direction
from gatepost.store.messages import growing_drafts, messages, outbox
from gatepost.store.messages.growing_drafts import DRAFT, MOST_EDITS, MOST_MESSAGES, USED
from gatepost.store.messages.outbox import EffectState, OutboxEffect


def send(desk: Desk, effect: OutboxEffect, platform_id: str = "") -> None:
    outbox.record_outcome(desk.db, effect.id, EffectState.SENT, "", desk.now, platform_id)


def list_open(desk: Desk) -> list[tuple[str, str]]:
    """Return what is to be sent: operation and text."""
    rows = desk.db.rows(
        "SELECT o.op, m.text FROM outbox o JOIN messages m ON m.id = o.message_id WHERE o.state = 'pending'"
        " ORDER BY o.id"
    )
    return [(str(op), str(text)) for op, text in rows]


def test_the_first_draft_is_a_message_and_the_next_is_an_edit_once_that_is_sent(desk: Desk) -> None:
    turn = desk.begun()
    assert growing_drafts.record(desk.db, turn, "The", desk.now)
    assert not growing_drafts.record(desk.db, turn, "The un", desk.now)  # nobody knows yet what to edit
    send(desk, desk.effect(f"{turn.id}/draft/1"), "x1")
    assert not growing_drafts.record(desk.db, turn, "The", desk.now)
    assert growing_drafts.record(desk.db, turn, "The un", desk.now)
    assert growing_drafts.record(desk.db, turn, "The unfinished", desk.now)  # in the place of the one before
    assert list_open(desk) == [("edit", "The unfinished")]


def test_a_place_is_taken_once_and_edits_that_wait_go_with_it(desk: Desk) -> None:
    turn = desk.begun()
    growing_drafts.record(desk.db, turn, "The", desk.now)
    draft = desk.effect(f"{turn.id}/draft/1")
    send(desk, draft, "x1")
    growing_drafts.record(desk.db, turn, "The un", desk.now)
    assert growing_drafts.claim(desk.db, turn.id, desk.now) == draft.message_id
    assert growing_drafts.claim(desk.db, turn.id, desk.now) is None and list_open(desk) == []
    growing_drafts.record(desk.db, turn, "More", desk.now)
    assert list_open(desk) == [("send", "More")]  # of the next message


def test_a_draft_that_waits_to_be_sent_is_sent_before_its_answer(desk: Desk) -> None:
    turn = desk.begun()
    growing_drafts.record(desk.db, turn, "The", desk.now)
    draft = desk.effect(f"{turn.id}/draft/1")
    assert growing_drafts.claim(desk.db, turn.id, desk.now) == draft.message_id
    assert list_open(desk) == [("send", "The")] and desk.effect(draft.key).payload[USED] is True


def test_what_is_message_already_meanwhile_is_no_draft_any_more(desk: Desk) -> None:
    turn = desk.begun()
    desk.say("k", "The unfinished symphony", turn=turn)
    assert not growing_drafts.record(desk.db, turn, "The unfinished ", desk.now)
    assert growing_drafts.record(desk.db, turn, "Another", desk.now)


def test_after_a_failure_a_turn_has_no_further_draft(desk: Desk) -> None:
    turn = desk.begun()
    growing_drafts.record(desk.db, turn, "The", desk.now)
    effect = desk.effect(f"{turn.id}/draft/1")
    outbox.record_outcome(desk.db, effect.id, EffectState.FAILED, "slow down", desk.now)
    assert not growing_drafts.record(desk.db, turn, "The un", desk.now)
    assert growing_drafts.claim(desk.db, turn.id, desk.now) is None


def test_a_turn_has_so_many_drafts_and_each_so_many_edits(desk: Desk) -> None:
    turn = desk.begun()
    growing_drafts.record(desk.db, turn, "The", desk.now)
    send(desk, desk.effect(f"{turn.id}/draft/1"), "x1")
    shown = [growing_drafts.record(desk.db, turn, f"The {number}", desk.now) for number in range(MOST_EDITS + 2)]
    assert shown == [True] * MOST_EDITS + [False] * 2
    for number in range(2, MOST_MESSAGES + 2):
        growing_drafts.claim(desk.db, turn.id, desk.now)
        assert growing_drafts.record(desk.db, turn, f"{number}", desk.now) is (number <= MOST_MESSAGES)


def test_a_draft_without_an_answer_is_deleted_once_where_that_can_be(desk: Desk) -> None:
    turn = desk.begun()
    growing_drafts.record(desk.db, turn, "The", desk.now)
    draft = desk.effect(f"{turn.id}/draft/1")
    send(desk, draft, "x1")
    assert not growing_drafts.withdraw(desk.db, turn, deletes=False, now=desk.now)
    assert growing_drafts.withdraw(desk.db, turn, deletes=True, now=desk.now)
    assert not growing_drafts.withdraw(desk.db, turn, deletes=True, now=desk.now)
    assert [(each.op, each.target_id) for each in outbox.list_for_turn(desk.db, turn.id)][1:] == [
        ("delete", draft.message_id)
    ]


def test_the_platforms_id_is_the_answers_once_it_has_taken_the_place(desk: Desk) -> None:
    turn = desk.begun()
    growing_drafts.record(desk.db, turn, "The", desk.now)
    draft = desk.effect(f"{turn.id}/draft/1")
    send(desk, draft, "x1")
    answer = desk.say("k", "The whole", turn=turn)
    growing_drafts.release_platform_id(desk.db, draft.message_id)
    send(desk, answer, "x1")
    found = messages.find(desk.db, *ROOM, Direction.OUT, "x1")
    assert found is not None and found.text == "The whole"


def test_an_answer_whose_draft_is_gone_keeps_everything_else(desk: Desk) -> None:
    answer = desk.say("k", "The whole")
    growing_drafts._set_payload(desk.db, answer, {**answer.payload, DRAFT: 7})
    growing_drafts.give_up_place(desk.db, desk.effect("k"))
    assert desk.effect("k").payload == {**answer.payload, growing_drafts.LEFT: 7}, "it is deleted after the answer"
