"""Turns: batches of one room and one rights class, retried before the provider has them, continued once after."""

import json

import pytest
from tests.store.conftest import LEASE, POLICY, Desk

from gatepost.cli import reasons
from gatepost.core.clock import SECOND
from gatepost.messages.outbound import Op
from gatepost.store.messages import inbox, message_steps, messages, outbox
from gatepost.store.messages.outbox import EffectOrigin, EffectState
from gatepost.store.money import ledger
from gatepost.store.sessions import due_sessions, sessions, turn_claims, turn_failures, turns
from gatepost.store.sessions.turn_failures import FailureCause, TurnFailure, TurnRetryPolicy
from gatepost.store.sessions.turns import Turn
from gatepost_testing.counting import CountingDb
from gatepost_testing.store_errors import INTEGRITY_ERRORS


def content_of(desk: Desk, row_id: int) -> dict[str, object]:
    message = messages.get(desk.db, desk.entry(row_id).message_id)
    assert message is not None
    return message.content


# Claiming.


def test_a_batch_is_the_oldest_rows_of_one_room_thread_and_rights_class(desk: Desk) -> None:
    first, second = desk.hear("a"), desk.hear("b")
    other_rights = desk.hear("c", rights="guest")
    other_thread = desk.hear("d", rights="guest", thread="t1")
    other_room = desk.hear("e", rights="guest", thread="t1", address="fake:room/2")
    batches = []
    while claim := desk.claim():
        batches.append(claim.rows)
        turns.begin(desk.db, claim.turn.id, claim.turn.epoch, claim.rows, desk.now)
        assert desk.finish(claim.turn)

    assert batches == [(first, second), (other_rights,), (other_thread,), (other_room,)]
    assert desk.claim() is None


def test_stranger_07_a_runner_that_begins_the_same_rows_again_and_again_writes_nothing_more(desk: Desk) -> None:
    row = desk.hear("a")
    claim = desk.claim()
    assert claim is not None
    for _ in range(50):
        assert turns.begin(desk.db, claim.turn.id, claim.turn.epoch, (row,), desk.now)
    given = [
        step for step in message_steps.list_for_message(desk.db, desk.entry(row).message_id) if step.step == "given"
    ]
    assert len(given) == 1


@pytest.mark.parametrize("named", [(), (10_000,)])
def test_stranger_08_a_turn_begins_with_a_row_of_its_own_or_not_at_all(desk: Desk, named: tuple[int, ...]) -> None:
    """A runner that ends its turns at once would go through turns without end, each with a limit of its own."""
    row = desk.hear("a")
    tries = 0
    while (claim := desk.claim()) is not None and tries < 20:
        tries += 1
        assert not turns.begin(desk.db, claim.turn.id, claim.turn.epoch, named, desk.now)
        assert not desk.finish(claim.turn)
        desk.break_off(claim.turn)
        desk.now = desk.entry(row).next_at or desk.now
    assert tries == POLICY.most_tries + 1
    assert desk.states() == ["failed"]


def test_a_turn_remembers_where_its_results_go(desk: Desk) -> None:
    desk.hear("hi", thread="t9", address="fake:room/7", rights="owner")
    claim = desk.claim()
    assert claim is not None
    turn = claim.turn
    assert (turn.instance, turn.address, turn.thread, turn.rights) == ("fake", "fake:room/7", "t9", "owner")


def test_a_batch_has_a_size(desk: Desk) -> None:
    rows = [desk.hear(str(number)) for number in range(5)]
    claim = desk.claim(most=3)
    assert claim is not None and claim.rows == tuple(rows[:3])


def test_a_session_has_one_open_turn_at_most(desk: Desk) -> None:
    desk.hear("a", rights="owner")
    desk.hear("b", rights="guest")
    assert desk.claim() is not None
    assert desk.claim() is None
    with pytest.raises(INTEGRITY_ERRORS):
        desk.db.run(
            "INSERT INTO turns (id, session_id, folder, provider, instance, address, thread, rights, state, next_at,"
            " owner, lease_until, started_at) SELECT 'second', session_id, folder, provider, instance, address, thread,"
            " rights, state, next_at, owner, lease_until, started_at FROM turns"
        )


def test_follow_ups_join_only_their_own_room_and_rights(desk: Desk) -> None:
    turn = desk.begun("a")
    joining = desk.hear("b")
    stranger = desk.hear("c", rights="guest")
    behind = desk.hear("d")

    more = turn_claims.claim_more(desk.db, turn.id, turn.epoch, desk.now, LEASE, 20)
    assert more is not None and more.rows == (joining,)
    assert turn_claims.claim_more(desk.db, turn.id, turn.epoch, desk.now, LEASE, 20) is None
    assert [desk.entry(row).state for row in (stranger, behind)] == ["queued", "queued"]


def test_a_row_that_waits_for_its_retry_holds_back_the_later_ones(desk: Desk) -> None:
    first = desk.hear("first")
    claim = desk.claim()
    assert claim is not None
    broken = desk.break_off(claim.turn)
    second = desk.hear("second")

    assert broken.retry_at == desk.now + 5 * SECOND
    assert desk.claim() is None
    desk.now += 5 * SECOND
    again = desk.claim()
    assert again is not None and again.rows == (first, second)


# Before the provider has it.


def test_nanoclaw_17_a_failure_before_the_provider_had_the_batch_is_retried_with_growing_patience_then_failed(
    desk: Desk,
) -> None:
    row = desk.hear("hello")
    waits = []
    for _ in range(5):
        claim = desk.claim()
        assert claim is not None and not claim.continued
        broken = desk.break_off(claim.turn)
        assert broken.retry_at is not None and broken.failed == ()
        waits.append((broken.retry_at - desk.now) // SECOND)
        assert desk.entry(row).state == "retry"
        desk.now = broken.retry_at
    last = desk.claim()
    assert last is not None
    given_up = desk.break_off(last.turn, "no such image")

    assert waits == [5, 10, 20, 40, 80]
    assert given_up.retry_at is None and given_up.failed == (desk.entry(row).message_id,)
    assert (desk.entry(row).state, desk.entry(row).reason) == ("failed", "no such image")
    assert ledger.check(desk.db, desk.now).in_flight == 0


def test_a_failure_that_no_retry_can_help_is_final(desk: Desk) -> None:
    desk.hear()
    claim = desk.claim()
    assert claim is not None
    assert desk.break_off(claim.turn, "no key", final=True).retry_at is None
    assert desk.states() == ["failed"]


def test_a_gateway_that_went_down_is_not_counted_against_the_messages(desk: Desk) -> None:
    row = desk.hear()
    for _ in range(20):
        claim = desk.claim()
        assert claim is not None
        desk.break_off(claim.turn, "the gateway was restarted", counts_as_failure=False)
    assert (desk.entry(row).state, desk.entry(row).tries, desk.entry(row).turn_id) == ("queued", 0, None)


def test_a_session_that_cannot_be_woken_gives_up_after_as_many_tries(desk: Desk) -> None:
    row = desk.hear()
    for _ in range(5):
        broken = turn_failures.record_wake_failure(
            desk.db, desk.session.id, FailureCause(reason="no sandbox"), POLICY, desk.now
        )
        assert broken is not None and broken.retry_at is not None
        desk.now = broken.retry_at
    last = turn_failures.record_wake_failure(
        desk.db, desk.session.id, FailureCause(reason="no sandbox"), POLICY, desk.now
    )

    assert last is not None and last.failed == (desk.entry(row).message_id,)
    assert (
        turn_failures.record_wake_failure(desk.db, desk.session.id, FailureCause(reason="no sandbox"), POLICY, desk.now)
        is None
    )


# After the provider has it.


def test_a_continued_turn_lists_what_was_said_and_done_and_never_sends_the_prompt_again(desk: Desk) -> None:
    turn = desk.begun("book a table")
    turns.set_conversation(desk.db, turn.id, turn.epoch, "conv-1", desk.now)
    said = desk.say("k1", "Booking …", turn=turn)
    outbox.record_outcome(desk.db, said.id, EffectState.SENT, "", desk.now, platform_id="x1")
    done = desk.say("k2", "👍", turn=turn, origin="tool", op="react")
    desk.say("k3", "still at it", turn=turn, origin="status")  # an interim line is nothing said

    broken = desk.break_off(turn, "the sandbox died")
    assert broken.retry_at == desk.now and desk.states() == ["working"]
    claim = desk.claim()

    assert claim is not None and claim.continued
    assert (claim.turn.id, claim.turn.attempt, claim.turn.epoch) == (turn.id, 2, turn.epoch + 1)
    (note,) = claim.rows  # the conversation holds the prompt already
    listed = content_of(desk, note)
    assert (listed["event"], listed["reason"]) == ("continued", "the sandbox died")
    assert listed["done"] == [
        {"op": "send", "text": "Booking …", "seq": said.seq, "inReplyTo": None, "state": "sent"},
        {"op": "react", "text": "👍", "seq": done.seq, "inReplyTo": None, "state": "pending"},
    ]


def test_without_a_conversation_that_holds_it_the_prompt_is_among_the_rows_again(desk: Desk) -> None:
    turn = desk.begun("a", "b")
    rows = [entry.id for entry, _ in inbox.list_for_turn(desk.db, turn.id)]
    desk.break_off(turn)
    claim = desk.claim()
    assert claim is not None and claim.rows[:2] == tuple(rows) and len(claim.rows) == 3


def test_what_the_old_attempt_committed_is_still_sent(desk: Desk) -> None:
    turn = desk.begun()
    desk.say("result", "half an answer", turn=turn)
    desk.say("effect", "a promise", turn=turn, origin="tool")
    desk.break_off(turn)
    assert [desk.effect(key).state for key in ("result", "effect")] == ["pending", "pending"]


def test_a_second_interruption_fails_the_turn_and_its_senders_are_told(desk: Desk) -> None:
    turn = desk.begun("a", "b")
    desk.break_off(turn)
    claim = desk.claim()
    assert claim is not None
    turns.begin(desk.db, turn.id, claim.turn.epoch, claim.rows, desk.now)
    broken = desk.break_off(turn, "it crashed again")

    people = [desk.entry(row).message_id for row in claim.rows[:2]]
    assert broken.retry_at is None
    assert list(broken.failed) == people  # and not whoever wrote the list of what was done
    assert desk.states() == ["failed", "failed"]
    assert desk.entry(claim.rows[0]).reason == "interrupted: it crashed again"
    assert desk.claim() is None
    assert ledger.check(desk.db, desk.now).in_flight == 0


def test_a_continuation_that_the_provider_never_had_is_tried_again_and_leaves_nothing_stray(desk: Desk) -> None:
    turn = desk.begun()
    turns.set_conversation(desk.db, turn.id, turn.epoch, "conv-1", desk.now)
    desk.break_off(turn)
    epochs = []
    for _ in range(5):
        claim = desk.claim()
        assert claim is not None and claim.continued and claim.turn.attempt == 2
        epochs.append(claim.turn.epoch)
        broken = desk.break_off(turn, "it did not start")
        assert broken.retry_at is not None and broken.retry_at > desk.now
        assert desk.claim() is None
        desk.now = broken.retry_at
    claim = desk.claim()
    assert claim is not None
    turns.begin(desk.db, turn.id, claim.turn.epoch, claim.rows, desk.now)
    desk.say("k", "done after all", turn=turn)
    assert desk.finish(turn)

    assert epochs == sorted(set(epochs))  # each can be fenced off
    assert desk.states() == ["answered"]
    assert ledger.check(desk.db, desk.now).unaccounted == 0
    assert desk.claim() is None


def test_a_continuation_that_never_comes_up_fails_in_the_end(desk: Desk) -> None:
    turn = desk.begun()
    desk.break_off(turn)
    for _ in range(5):
        broken = turn_failures.record_wake_failure(
            desk.db, desk.session.id, FailureCause(reason="no sandbox"), POLICY, desk.now
        )
        assert broken is not None and broken.retry_at is not None
        desk.now = broken.retry_at
    last = turn_failures.record_wake_failure(
        desk.db, desk.session.id, FailureCause(reason="no sandbox"), POLICY, desk.now
    )

    assert last is not None and len(last.failed) == 1
    assert desk.states() == ["failed"] and desk.turn(turn.id).ended_at is not None


def test_restarts_while_a_continuation_waits_cost_it_nothing(desk: Desk) -> None:
    turn = desk.begun()
    desk.break_off(turn, "the gateway was restarted", counts_as_failure=False)
    for _ in range(20):
        claim = desk.claim()
        assert claim is not None and claim.turn.attempt == 2
        desk.break_off(turn, "the gateway was restarted", counts_as_failure=False)
    assert desk.states() == ["working"]


def test_what_is_spared_uses_up_no_continuation_and_a_death_of_the_sandbox_still_does(desk: Desk) -> None:
    turn = desk.begun()

    def breaks_again(*, keeps_continuation: bool) -> TurnFailure | None:
        epoch = desk.turn(turn.id).epoch
        broken = turn_failures.record_failure(
            desk.db,
            turn.id,
            epoch,
            FailureCause(reason="it ended", counts_as_failure=False, keeps_continuation=keeps_continuation),
            POLICY,
            desk.now,
        )
        if broken is not None and (claim := desk.claim()) is not None:
            turns.begin(desk.db, turn.id, claim.turn.epoch, claim.rows, desk.now)
        return broken

    retried = [breaks_again(keeps_continuation=keeps_continuation) for keeps_continuation in (True, False, True, True)]
    last = breaks_again(keeps_continuation=False)

    assert all(broken is not None and broken.retry_at == desk.now for broken in retried)
    assert desk.turn(turn.id).attempt == 5
    assert last is not None and last.retry_at is None and len(last.failed) == 1


def test_a_follow_up_that_was_not_given_goes_back_to_the_queue(desk: Desk) -> None:
    turn = desk.begun("a")
    late = desk.hear("b")
    turn_claims.claim_more(desk.db, turn.id, turn.epoch, desk.now, LEASE, 20)
    desk.say("k", "answer to a", turn=turn)
    assert desk.finish(turn)

    assert desk.states() == ["answered", "queued"]
    claim = desk.claim()
    assert claim is not None and claim.rows == (late,)


def test_a_follow_up_that_was_not_given_survives_a_crash_behind_the_turn_it_would_have_joined(desk: Desk) -> None:
    turn = desk.begun("a")
    late = desk.hear("b")
    turn_claims.claim_more(desk.db, turn.id, turn.epoch, desk.now, LEASE, 20)
    desk.break_off(turn)

    assert (desk.entry(late).state, desk.entry(late).turn_id) == ("queued", None)
    claim = desk.claim()
    assert claim is not None and claim.continued and late not in claim.rows


# Ending.


def test_stranger_17_a_continued_turn_shows_again_what_was_begun_only_if_the_ledger_has_it_as_given(desk: Desk) -> None:
    first = desk.hear("first")
    claim = desk.claim()
    assert claim is not None
    turn = claim.turn
    turns.begin(desk.db, turn.id, turn.epoch, claim.rows, desk.now)
    turns.set_conversation(desk.db, turn.id, turn.epoch, "c-1", desk.now)
    given, announced = desk.hear("given"), desk.hear("announced")
    assert turn_claims.claim_more(desk.db, turn.id, turn.epoch, desk.now, LEASE, 20) is not None
    turns.begin(desk.db, turn.id, turn.epoch, (given,), desk.now)
    turn_failures.record_failure(
        desk.db, turn.id, turn.epoch, FailureCause(reason="killed", counts_as_failure=False), POLICY, desk.now
    )

    begun = frozenset({first, given, announced, 10_000})
    again = turn_claims.claim(desk.db, turn.session_id, "scripted", "next", desk.now, LEASE, 20, begun=begun)
    assert again is not None and again.continued
    assert {first, given} < set(again.rows) and announced not in again.rows
    assert (desk.entry(announced).state, desk.entry(announced).turn_id) == ("queued", None)


def test_a_turn_that_spoke_answers_its_messages_and_one_that_did_not_is_a_marked_silence(desk: Desk) -> None:
    spoke = desk.begun("a")
    desk.say("k", "hello", turn=spoke)
    assert desk.finish(spoke)
    silent = desk.begun("b")
    desk.say("s", "thinking", turn=silent, origin="status")
    assert desk.finish(silent)

    assert desk.states() == ["answered", "silent"]
    assert (turns.get(desk.db, silent.id) or silent).state == "done"


def test_a_silence_says_what_was_held_back(desk: Desk) -> None:
    turn = desk.begun()
    assert turns.finish(desk.db, turn.id, turn.epoch, "{}", desk.now, "it answered <silent/>")
    assert desk.db.row("SELECT state, reason FROM inbox") == (
        "silent",
        "the agent chose silence: it answered <silent/>",
    )


def test_finishing_twice_is_finishing_once(desk: Desk) -> None:
    turn = desk.begun()
    assert desk.finish(turn) and not desk.finish(turn)
    assert (
        turn_failures.record_failure(desk.db, turn.id, turn.epoch, FailureCause(reason="late"), POLICY, desk.now)
        is None
    )


def test_what_an_old_epoch_says_is_not_believed(desk: Desk) -> None:
    turn = desk.begun()
    desk.break_off(turn)
    claim = desk.claim()
    assert claim is not None

    old = turn.epoch
    assert not turns.begin(desk.db, turn.id, old, claim.rows, desk.now)
    assert not turns.finish(desk.db, turn.id, old, "{}", desk.now)
    assert not turns.renew_lease(desk.db, turn.id, old, desk.now, LEASE)
    assert not turns.set_conversation(desk.db, turn.id, old, "stolen", desk.now)
    assert turn_claims.claim_more(desk.db, turn.id, old, desk.now, LEASE, 20) is None
    assert turn_failures.record_failure(desk.db, turn.id, old, FailureCause(reason="late"), POLICY, desk.now) is None
    assert sessions.get_conversation(desk.db, desk.session.id, "scripted") == ""


def test_a_stopped_turn_is_cancelled_and_what_it_had_not_sent_is_withdrawn(desk: Desk) -> None:
    turn = desk.begun()
    said = desk.say("said", "first", turn=turn)
    outbox.record_outcome(desk.db, said.id, EffectState.SENT, "", desk.now, platform_id="x1")
    desk.say("unsaid", "second", turn=turn)
    desk.say("promised", "by a tool", turn=turn, origin="tool")

    assert turns.cancel(desk.db, turn.id, "stopped by ann", desk.now)
    assert not turns.cancel(desk.db, turn.id, "stopped by ann", desk.now)
    assert desk.states() == ["cancelled"]
    assert [desk.effect(key).state for key in ("said", "unsaid", "promised")] == ["sent", "cancelled", "pending"]


def test_renewing_a_turn_keeps_its_rows_accounted_for(desk: Desk) -> None:
    turn = desk.begun()
    desk.now += LEASE + 50 * SECOND
    assert ledger.check(desk.db, desk.now).overdue == 1
    assert turns.renew_lease(desk.db, turn.id, turn.epoch, desk.now, LEASE)
    assert ledger.check(desk.db, desk.now) == ledger.LedgerStatus(0, 1, 0, (LEASE + 50 * SECOND) / SECOND)


def test_a_conversation_belongs_to_its_provider(desk: Desk) -> None:
    turn = desk.begun()
    turns.set_conversation(desk.db, turn.id, turn.epoch, "conv-1", desk.now)
    assert sessions.get_conversation(desk.db, desk.session.id, "scripted") == "conv-1"
    assert sessions.get_conversation(desk.db, desk.session.id, "another") == ""


def test_usage_is_kept_with_the_turn(desk: Desk) -> None:
    turn = desk.begun()
    turns.finish(desk.db, turn.id, turn.epoch, json.dumps({"tokens": 7}), desk.now)
    assert json.loads(desk.turn(turn.id).usage) == {"tokens": 7}


# Passing trouble.


def test_stranger_20_only_time_leads_to_the_next_try(desk: Desk) -> None:
    """Eleven arrivals in an outage of 15 s: each made a try for all, and seven of them failed."""
    woken, tries = [], 0
    for second in range(15):
        if second < 11:
            desk.hear(f"message {second}")
        if due_sessions.get_retry_time(desk.db, desk.session.id, desk.now) is None:
            tries += 1
            woken.append(second)
            turn_failures.record_wake_failure(
                desk.db, desk.session.id, FailureCause(reason="no descriptor is left", passing=True), POLICY, desk.now
            )
        desk.now += SECOND
    claim = desk.claim()

    assert woken == [0, 5] and tries == 2
    assert claim is not None and len(claim.rows) == 11
    assert set(desk.states()) == {"working"}


def test_stranger_20_a_try_before_its_time_is_not_counted(desk: Desk) -> None:
    row = desk.hear("first")
    assert (
        turn_failures.record_wake_failure(desk.db, desk.session.id, FailureCause(reason="no sandbox"), POLICY, desk.now)
        is not None
    )
    later = desk.hear("second")
    for _ in range(20):
        assert (
            turn_failures.record_wake_failure(
                desk.db, desk.session.id, FailureCause(reason="no sandbox"), POLICY, desk.now
            )
            is None
        )

    assert [(desk.entry(each).state, desk.entry(each).tries) for each in (row, later)] == [("retry", 1), ("queued", 0)]
    assert not due_sessions.has_work(desk.db, desk.session.id, desk.now)
    assert due_sessions.has_work(desk.db, desk.session.id, desk.now + 5 * SECOND)


def test_stranger_20_who_came_late_is_not_given_up_with_the_first(desk: Desk) -> None:
    first = desk.hear("first")
    for _ in range(5):
        broken = turn_failures.record_wake_failure(
            desk.db, desk.session.id, FailureCause(reason="no sandbox"), POLICY, desk.now
        )
        assert broken is not None and broken.retry_at is not None
        desk.now = broken.retry_at
    second = desk.hear("second")
    last = turn_failures.record_wake_failure(
        desk.db, desk.session.id, FailureCause(reason="no sandbox"), POLICY, desk.now
    )

    assert last is not None and last.failed == (desk.entry(first).message_id,)
    assert last.retry_at == desk.now + 5 * SECOND
    assert (desk.entry(second).state, desk.entry(second).tries) == ("retry", 1)


def test_stranger_20_trouble_of_the_host_is_waited_out_by_time(desk: Desk) -> None:
    """A disk that is full for half an hour: five tries were two and a half minutes."""
    row, began = desk.hear(), desk.now
    while desk.now < began + 1800 * SECOND:
        policy = turn_failures.TurnRetryPolicy(oldest=desk.now - 3600 * SECOND)
        broken = turn_failures.record_wake_failure(
            desk.db, desk.session.id, FailureCause(reason="the disk is full", passing=True), policy, desk.now
        )
        assert broken is not None and broken.retry_at is not None and broken.retry_at - desk.now <= 60 * SECOND
        desk.now = broken.retry_at
    desk.now = began + 3601 * SECOND
    policy = turn_failures.TurnRetryPolicy(oldest=desk.now - 3600 * SECOND)
    last = turn_failures.record_wake_failure(
        desk.db, desk.session.id, FailureCause(reason="the disk is full", passing=True), policy, desk.now
    )

    assert last is not None and last.failed == (desk.entry(row).message_id,)


def test_stranger_20_arrivals_do_not_wake_a_turn_that_waits_to_be_continued(desk: Desk) -> None:
    turn = desk.begun()
    turn_failures.record_failure(
        desk.db, turn.id, turn.epoch, FailureCause(reason="rate limited", wait=30 * SECOND), POLICY, desk.now
    )
    desk.hear("meanwhile")

    assert due_sessions.get_retry_time(desk.db, desk.session.id, desk.now) == desk.now + 30 * SECOND
    assert (
        turn_failures.record_wake_failure(desk.db, desk.session.id, FailureCause(reason="no sandbox"), POLICY, desk.now)
        is None
    )
    assert due_sessions.get_retry_time(desk.db, desk.session.id, desk.now + 30 * SECOND) is None


# What was answered stays answered.


def answer(desk: Desk, key: str, turn: turns.Turn, seq: int | None) -> None:
    new = outbox.NewEffect(
        key=key,
        op=Op.SEND,
        origin=EffectOrigin.RESULT,
        instance=turn.instance,
        address=turn.address,
        text=key,
        payload={"text": key, "in_reply_to": seq},
        folder="acme",
        session_id=desk.session.id,
        turn_id=turn.id,
    )
    outbox.add(desk.db, new, desk.now)


def test_stranger_20_a_turn_that_fails_late_leaves_the_answered_messages_answered(desk: Desk) -> None:
    turn = desk.begun("a", "b", "c")
    first, second, third = inbox.list_for_turn(desk.db, turn.id)
    answer(desk, "to a", turn, first[0].seq)
    answer(desk, "to b", turn, second[0].seq)
    broken = turn_failures.record_failure(
        desk.db,
        turn.id,
        turn.epoch,
        FailureCause(reason="no quota", final=True, finished=frozenset()),
        POLICY,
        desk.now,
    )

    assert desk.states() == ["answered", "answered", "failed"]
    assert broken is not None and broken.failed == (third[1].id,)


def test_a_message_whose_answer_was_cut_off_in_the_middle_is_not_answered(desk: Desk) -> None:
    """Two sandbox kills of one turn left `answered` what had its first word only, and its sender was told nothing."""
    turn = desk.begun("a", "b", "c")
    first, second, third = inbox.list_for_turn(desk.db, turn.id)
    answer(desk, "to a", turn, first[0].seq)
    desk.break_off(turn, "it crashed")
    claim = desk.claim()
    assert claim is not None
    turns.begin(desk.db, turn.id, claim.turn.epoch, claim.rows, desk.now)
    answer(desk, "let me look", turn, second[0].seq)
    broken = desk.break_off(turn, "it crashed")

    assert desk.states()[:3] == ["answered", "failed", "failed"]
    assert broken.failed == (second[1].id, third[1].id)


def test_stranger_20_what_the_provider_was_done_with_is_answered_although_the_turn_fails_later(desk: Desk) -> None:
    turn = desk.begun("a", "b")
    (first, _), (_, second) = inbox.list_for_turn(desk.db, turn.id)
    answer(desk, "here you are", turn, None)
    broken = turn_failures.record_failure(
        desk.db,
        turn.id,
        turn.epoch,
        FailureCause(reason="no quota", final=True, finished=frozenset({first.id})),
        POLICY,
        desk.now,
    )

    assert desk.states() == ["answered", "failed"]
    assert broken is not None and broken.failed == (second.id,)


def test_a_word_to_the_message_that_the_agent_was_still_at_is_no_answer_yet(desk: Desk) -> None:
    turn = desk.begun("a", "b")
    first, second = inbox.list_for_turn(desk.db, turn.id)
    answer(desk, "to a", turn, first[0].seq)
    answer(desk, "let me look", turn, second[0].seq)
    broken = desk.break_off(turn, "it crashed", final=True)

    assert desk.states() == ["answered", "failed"]
    assert broken.failed == (second[1].id,)


def test_an_answer_that_could_not_be_delivered_is_none(desk: Desk) -> None:
    turn = desk.begun("a")
    ((entry, message),) = inbox.list_for_turn(desk.db, turn.id)
    answer(desk, "to a", turn, entry.seq)
    outbox.record_outcome(desk.db, desk.effect("to a").id, EffectState.FAILED, "no such room", desk.now)
    broken = desk.break_off(turn, "it crashed late", final=True)

    assert (desk.states(), broken.failed) == (["failed"], (message.id,))


@pytest.mark.parametrize(("reason", "cause"), [(turns.GATEWAY_STOPPED, "restart"), ("the sandbox died", "break")])
def test_stranger_e_clean_down_is_told_as_a_restart(desk: Desk, reason: str, cause: str) -> None:
    turn = desk.begun("go")
    desk.break_off(turn, reason, counts_as_failure=False)
    claim = desk.claim()

    assert claim is not None and claim.continued
    message = messages.get(desk.db, desk.entry(claim.rows[-1]).message_id)
    assert message is not None
    assert (message.content["event"], message.content["cause"], message.content["reason"]) == (
        "continued",
        cause,
        reason,
    )
    assert reasons.render_note_by_id(message.platform_id) == reasons.render_note_of(message.content)
    assert ("restart" in reasons.render_note_of(message.content)) == (cause == "restart")
    assert "crash" not in reasons.render_note_of(message.content)


def test_stranger_03_a_runner_that_names_many_rows_costs_as_much_as_its_turn_has(desk: Desk) -> None:
    desk.hear("one")
    desk.hear("two")
    claim = desk.claim()
    assert claim is not None
    db = CountingDb(desk.db)
    assert turns.begin(db, claim.turn.id, claim.turn.epoch, (*claim.rows, *range(10**6, 10**6 + 50_000)), desk.now)
    assert db.statements < 20
    assert [entry.given for entry, _ in inbox.list_for_turn(desk.db, claim.turn.id)] == [True, True]


def _long_turn(desk: Desk, number: int = 60) -> Turn:
    turn = desk.begun()
    for part in range(number):
        desk.say(f"{turn.id}/1/{part}", f"{part} " + "x" * 50_000, turn=turn)
    return turn


def test_stranger_new_the_end_of_a_turn_reads_nothing_of_what_it_said(desk: Desk) -> None:
    turn = _long_turn(desk)
    counting = CountingDb(desk.db)

    assert turns.finish(counting, turn.id, turn.epoch, "{}", desk.now)

    assert counting.read_chars < 10_000
    assert desk.states() == ["answered"]


def test_stranger_new_a_turn_that_fails_reads_nothing_of_what_it_said(desk: Desk) -> None:
    turn = _long_turn(desk)
    counting = CountingDb(desk.db)

    assert turn_failures.record_failure(
        counting, turn.id, turn.epoch, FailureCause(reason="it broke", final=True), POLICY, desk.now
    )

    assert counting.read_chars < 10_000
    assert desk.states() == ["failed"]


@pytest.mark.slow
def test_stranger_new_a_continuation_lists_few_rows_of_few_words_and_names_the_total(desk: Desk) -> None:
    turn = _long_turn(desk, 300)
    desk.break_off(turn)
    counting = CountingDb(desk.db)

    claim = turn_claims.claim(counting, desk.session.id, "scripted", desk.owner, desk.now, LEASE, 20)

    assert claim is not None and claim.continued and counting.read_chars < 500_000
    [content] = [message.content for _, message in inbox.list_for_turn(desk.db, turn.id) if message.kind == "system"]
    assert content["total"] == 300 and len(content["done"]) == turn_claims.MOST_LISTED
    assert sum(len(each["text"]) for each in content["done"]) <= turn_claims.MOST_LISTED * (
        turn_claims.LONGEST_LISTED + 1
    )
    assert content["done"][-1]["text"].startswith("299 ") and content["done"][-1]["text"].endswith("…")


@pytest.mark.slow
def test_stranger_new_a_turn_takes_follow_ups_up_to_a_number(desk: Desk) -> None:
    turn = desk.begun()
    for number in range(2 * turn_claims.MOST_MESSAGES):
        desk.hear(str(number))
    taken = 0
    while (more := turn_claims.claim_more(desk.db, turn.id, turn.epoch, desk.now, LEASE, 50)) is not None:
        taken += len(more.rows)

    assert taken + 1 <= turn_claims.MOST_MESSAGES
    assert desk.finish(turn) and desk.claim() is not None  # the rest is another turn's


SHORTAGE = FailureCause(
    reason="the disk is full", wait=SECOND, counts_as_failure=False, keeps_continuation=True, passing=True
)


def test_a_turn_that_no_provider_had_waits_for_the_host_until_it_is_too_old(desk: Desk) -> None:
    """The number of tries ends nothing, and its sender is told that it waits."""
    desk.hear()
    for _ in range(10):
        desk.now += 3600 * SECOND
        claim = desk.claim()
        assert claim is not None
        policy = TurnRetryPolicy(oldest=0)
        broken = turn_failures.record_failure(desk.db, claim.turn.id, claim.turn.epoch, SHORTAGE, policy, desk.now)
        assert broken is not None and not broken.failed and broken.waiting is not None
        assert broken.retry_at is not None and broken.retry_at <= desk.now + policy.longest
    desk.now += 3600 * SECOND
    claim = desk.claim()
    assert claim is not None
    policy = TurnRetryPolicy(oldest=desk.now)
    broken = turn_failures.record_failure(desk.db, claim.turn.id, claim.turn.epoch, SHORTAGE, policy, desk.now)
    assert broken is not None and len(broken.failed) == 1 and broken.waiting is None


def test_a_turn_that_breaks_for_want_of_something_on_the_host_is_continued_as_often_as_that_happens(desk: Desk) -> None:
    turn = desk.begun()
    for _ in range(10):
        broken = turn_failures.record_failure(desk.db, turn.id, desk.turn(turn.id).epoch, SHORTAGE, POLICY, desk.now)
        assert broken is not None and not broken.failed
        desk.now += 60 * SECOND
        claim = desk.claim()
        assert claim is not None and claim.continued
        assert turns.begin(desk.db, claim.turn.id, claim.turn.epoch, claim.rows, desk.now)
    without = FailureCause(reason="no space", passing=True)  # its sandbox could not be started again
    broken = turn_failures.record_wake_failure(desk.db, desk.session.id, without, POLICY, desk.now)
    assert broken is not None and not broken.failed
