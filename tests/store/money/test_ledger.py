"""The ledger's questions: every row is accounted for in every state, and one message's life can be told."""

import pytest
from tests.store.conftest import LEASE, NOON, Desk

from gatepost.core.clock import SECOND
from gatepost.messages.inbound import Direction, MessageKind
from gatepost.store.messages import inbox, messages, outbox
from gatepost.store.messages.inbox import InboxState
from gatepost.store.messages.outbox import EffectState
from gatepost.store.money import ledger
from gatepost.store.rights import audit
from gatepost.store.rights.audit import AuditRecord
from gatepost.store.sessions import due_sessions, turns

MINUTE = 60 * SECOND


def count(desk: Desk) -> tuple[int, int, int]:
    found = ledger.check(desk.db, desk.now)
    return found.unaccounted, found.in_flight, found.overdue


def test_an_empty_ledger_is_in_order(desk: Desk) -> None:
    assert ledger.check(desk.db, desk.now) == ledger.LedgerStatus(0, 0, 0, 0.0)


@pytest.mark.parametrize("state", ["queued", "working", "retry", "held"])
def test_an_open_row_is_in_flight_then_overdue_and_never_unaccounted_for_being_late(desk: Desk, state: str) -> None:
    row = desk.hear()
    inbox.set_state(desk.db, row, state, "", desk.now + SECOND, desk.now)
    counted = []
    due = NOON + SECOND
    for desk.now in (NOON, due + ledger.LATE, due + ledger.LATE + 1, due + MINUTE, due + MINUTE + 1):
        counted.append(count(desk))
    assert counted == [(0, 1, 0), (0, 1, 0), (0, 1, 1), (0, 1, 1), (0, 1, 1)]


@pytest.mark.parametrize("state", inbox.END)
def test_a_row_in_an_end_state_is_accounted_for_for_ever(desk: Desk, state: str) -> None:
    row = desk.hear()
    inbox.set_state(desk.db, row, state, "a reason", None, desk.now)
    desk.now += 365 * 24 * 60 * MINUTE
    assert count(desk) == (0, 0, 0)


@pytest.mark.parametrize("state", ["pending", "sending"])
def test_an_effect_on_its_way_is_in_flight_then_overdue(desk: Desk, state: str) -> None:
    effect = desk.say("k", "hello")
    desk.db.run("UPDATE outbox SET state = ? WHERE id = ?", (state, effect.id))
    assert count(desk) == (0, 1, 0)
    desk.now += MINUTE + SECOND
    assert count(desk) == (0, 1, 1)


@pytest.mark.parametrize("state", outbox.END)
def test_an_effect_in_an_end_state_is_accounted_for_for_ever(desk: Desk, state: str) -> None:
    outbox.record_outcome(desk.db, desk.say("k", "hello").id, state, "a reason", desk.now)
    desk.now += 365 * 24 * 60 * MINUTE
    assert count(desk) == (0, 0, 0)


def test_a_message_without_an_inbox_row_is_unaccounted(desk: Desk) -> None:
    message_id = desk.accept("lost on the way")
    assert count(desk) == (1, 0, 0)
    inbox.refuse(desk.db, message_id, "", "guest", "nobody is there", desk.now)
    assert count(desk) == (0, 0, 0)


def test_an_open_row_without_a_moment_is_unaccounted(desk: Desk) -> None:
    row = desk.hear()
    desk.db.run("UPDATE inbox SET next_at = NULL WHERE id = ?", (row,))
    assert count(desk) == (1, 1, 0)


def test_a_removed_session_leaves_its_messages_in_the_ledger(desk: Desk) -> None:
    row = desk.hear()
    inbox.set_state(desk.db, row, InboxState.CANCELLED, "the group was removed", None, desk.now)
    desk.db.run("DELETE FROM groups WHERE folder = 'acme'")
    assert desk.entry(row).session_id is None
    assert count(desk) == (0, 0, 0)


def test_the_oldest_open_row_gives_the_age(desk: Desk) -> None:
    desk.hear("old")
    desk.now += 90 * SECOND
    desk.say("k", "young")
    assert ledger.check(desk.db, desk.now).oldest_s == 90.0


def test_every_row_is_accounted_for_on_the_whole_way(desk: Desk) -> None:
    """At each step somebody has promised to look again."""

    def accounted() -> None:
        assert ledger.check(desk.db, desk.now).unaccounted == 0

    desk.hear("a")
    accounted()
    claim = desk.claim()
    assert claim is not None
    accounted()
    turns.begin(desk.db, claim.turn.id, claim.turn.epoch, claim.rows, desk.now)
    desk.break_off(claim.turn)
    accounted()
    again = desk.claim()
    assert again is not None
    turns.begin(desk.db, again.turn.id, again.turn.epoch, again.rows, desk.now)
    effect = desk.say("k", "hello", turn=again.turn)
    accounted()
    assert desk.finish(again.turn)
    outbox.claim_head(desk.db, effect.instance, effect.address, "d-1", desk.now, LEASE)
    accounted()
    outbox.record_outcome(desk.db, effect.id, EffectState.SENT, "", desk.now, platform_id="x1")
    assert count(desk) == (0, 0, 0)


def test_lines_show_both_directions_oldest_first(desk: Desk) -> None:
    turn = desk.begun("question")
    effect = desk.say("k", "answer", turn=turn)
    desk.finish(turn)
    outbox.record_outcome(desk.db, effect.id, EffectState.SENT, "", desk.now, platform_id="x1")

    shown = ledger.list_lines(desk.db, None, 10)
    assert [(line.direction, line.text, line.state, line.folder) for line in shown] == [
        ("in", "question", "answered", "acme"),
        ("out", "answer", "sent", "acme"),
    ]
    assert [line.platform_id for line in shown] == ["p1", "x1"]
    assert [line.text for line in ledger.list_lines(desk.db, "sent", 10)] == ["answer"]
    assert [line.text for line in ledger.list_lines(desk.db, None, 1)] == ["answer"]


def test_lines_of_both_directions_are_paged_by_the_number_of_their_message(desk: Desk) -> None:
    for number in range(6):
        desk.hear(f"in {number}")
        desk.say(f"k{number}", f"out {number}")
    seen, before = list[str](), 0
    while found := ledger.list_lines(desk.db, None, 5, before):
        seen = [line.text for line in found] + seen
        before = found[0].id
    assert seen == [f"{way} {number}" for number in range(6) for way in ("in", "out")]


def test_a_check_of_the_newest_messages_looks_for_lost_ones_among_those_alone(desk: Desk) -> None:
    desk.accept("lost on the way")
    inbox.set_state(desk.db, desk.hear("answered"), InboxState.ANSWERED, "", None, desk.now)

    assert [ledger.check(desk.db, desk.now, newest=newest).unaccounted for newest in (0, 1, 2)] == [1, 0, 1]


def test_a_life_tells_every_step_in_order(desk: Desk) -> None:
    turn = desk.begun("question")
    desk.now += SECOND
    audit.append(desk.db, AuditRecord(desk.now, "acme", "reply", "allowed", {"turn": turn.id}))
    desk.now += SECOND
    effect = desk.say("k", "answer", turn=turn)
    desk.now += SECOND
    outbox.claim_head(desk.db, effect.instance, effect.address, "d-1", desk.now, LEASE)
    outbox.record_outcome(desk.db, effect.id, EffectState.SENT, "", desk.now + 1, platform_id="x1")
    desk.now += SECOND
    desk.finish(turn)

    found = ledger.trace_message(desk.db, ledger.find_message(desk.db, "p1") or 0)
    assert found is not None
    assert [moment.what for moment in found.moments] == [
        "accepted",
        "queued",
        "working",
        "given",
        "call reply",
        "send pending",
        "send sending",
        "send sent",
        "answered",
        "turn done",
    ]
    assert [each.key for each in found.effects] == ["k"]
    assert [moment.at for moment in found.moments] == sorted(moment.at for moment in found.moments)


def test_what_answers_another_message_of_the_batch_is_not_part_of_this_life(desk: Desk) -> None:
    turn = desk.begun("a", "b")
    first, second = (entry for entry, _ in inbox.list_for_turn(desk.db, turn.id))
    for key, entry in (("k1", first), ("k2", second)):
        desk.say(key, key, turn=turn)
        desk.db.run(f"UPDATE outbox SET payload = '{{\"in_reply_to\": {entry.seq}}}' WHERE key = ?", (key,))
    lives = [ledger.trace_message(desk.db, entry.message_id) for entry in (first, second)]
    assert [sum(moment.what.startswith("send") for moment in life.moments) for life in lives if life] == [1, 1]


def test_a_message_is_found_by_its_own_id_or_the_platforms(desk: Desk) -> None:
    message_id = desk.accept("x")
    assert ledger.find_message(desk.db, str(message_id)) == message_id
    assert ledger.find_message(desk.db, "p1") == message_id


@pytest.mark.parametrize("wanted", ["", "nothing", "²", "٣", "9" * 30, "-1", "1.5"])
def test_what_is_no_message_is_not_found(desk: Desk, wanted: str) -> None:
    desk.accept("x")
    assert ledger.find_message(desk.db, wanted) is None
    assert ledger.trace_message(desk.db, 99) is None


def test_the_fact_of_a_message_is_kept_once_and_its_event_apart(desk: Desk) -> None:
    new = messages.NewMessage(
        instance="fake",
        address="fake:room/1",
        direction=Direction.IN,
        platform_id="7",
        kind=MessageKind.CHAT,
        sender="fake:user/1",
        text="hello",
        at=desk.now,
    )
    edited = messages.NewMessage(**{**{name: getattr(new, name) for name in new.__slots__}, "event": "edit:1"})  # type: ignore[attr-defined]
    elsewhere = messages.NewMessage(**{**{name: getattr(new, name) for name in new.__slots__}, "instance": "second"})  # type: ignore[attr-defined]

    assert messages.accept(desk.db, new, desk.now) is not None
    assert messages.accept(desk.db, new, desk.now) is None
    assert messages.accept(desk.db, edited, desk.now) is not None
    assert messages.accept(desk.db, elsewhere, desk.now) is not None


@pytest.mark.parametrize(("state", "due"), [("queued", 0), ("retry", 5 * SECOND)])
def test_what_the_last_daemon_was_looking_at_is_due_at_once_and_a_retry_at_its_time(
    desk: Desk, state: str, due: int
) -> None:
    row = desk.hear()
    inbox.set_state(desk.db, row, state, "", desk.now + 5 * SECOND, desk.now)
    ledger.reset_due_times(desk.db, desk.now)
    assert due_sessions.get_next_due(desk.db) == desk.now + due


def test_while_no_daemon_runs_what_waits_is_not_late(desk: Desk) -> None:
    row = desk.hear()
    day = desk.now + 24 * 60 * MINUTE
    assert ledger.check(desk.db, day).overdue == 1
    down = ledger.check(desk.db, day, running=False)
    assert (down.unaccounted, down.in_flight, down.overdue) == (0, 1, 0)
    assert down.oldest_s == 24 * 60 * 60
    desk.now += 5 * MINUTE
    inbox.set_state(desk.db, desk.hear(text="another"), InboxState.CANCELLED, "", None, desk.now)
    assert ledger.check(desk.db, day, running=False).overdue == 1, "it was late already when that was written"
    assert row
