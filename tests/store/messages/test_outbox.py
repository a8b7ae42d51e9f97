"""Outbox: one row per effect, one lane per room, and an end that stays."""

from tests.store.conftest import LEASE, ROOM, Desk

from gatepost.core.clock import SECOND
from gatepost.messages.inbound import Direction
from gatepost.messages.outbound import Op
from gatepost.store.messages import messages, outbox
from gatepost.store.messages.outbox import EffectOrigin, EffectState, NewEffect
from gatepost.store.migrations.steps_0015_0022 import apply_0021


def test_an_effect_handed_over_twice_is_one_row(desk: Desk) -> None:
    first, second = desk.say("k", "hello"), desk.say("k", "hello again")
    assert first == second
    assert desk.db.row("SELECT COUNT(*) FROM messages WHERE direction = 'out'") == (1,)


def test_a_rooms_rows_go_out_one_after_another(desk: Desk) -> None:
    first = desk.say("k1", "one")
    desk.say("k2", "two")
    taken = outbox.claim_head(desk.db, *ROOM, "d-1", desk.now, LEASE)
    assert taken is not None and taken.id == first.id and taken.state == "pending"

    again = outbox.claim_head(desk.db, *ROOM, "d-2", desk.now, LEASE)
    assert again is not None and (again.id, again.state) == (first.id, "sending")  # somebody was already sending it
    outbox.record_outcome(desk.db, first.id, EffectState.SENT, "", desk.now, platform_id="x1")
    following = outbox.claim_head(desk.db, *ROOM, "d-1", desk.now, LEASE)
    assert following is not None and following.key == "k2"


def test_a_row_that_waits_for_its_next_try_keeps_its_lane_waiting(desk: Desk) -> None:
    first = desk.say("k1", "one")
    desk.say("k2", "two")
    outbox.claim_head(desk.db, *ROOM, "d-1", desk.now, LEASE)
    outbox.record_outcome(desk.db, first.id, EffectState.PENDING, "slow down", desk.now, next_at=desk.now + SECOND)

    waiting = outbox.claim_head(desk.db, *ROOM, "d-1", desk.now, LEASE)
    assert waiting is not None and (waiting.key, waiting.next_at, waiting.tries) == ("k1", desk.now + SECOND, 1)
    assert desk.effect("k1").state == "pending"


def test_a_sent_row_is_never_sent_again(desk: Desk) -> None:
    effect = desk.say("k", "hello")
    outbox.record_outcome(desk.db, effect.id, EffectState.SENT, "", desk.now, platform_id="x1")
    outbox.record_outcome(desk.db, effect.id, EffectState.PENDING, "", desk.now, next_at=desk.now)
    assert desk.effect("k").state == "sent"
    assert outbox.get_head(desk.db, *ROOM) is None and outbox.list_pending_rooms(desk.db) == []


def test_the_platforms_id_is_learnt_once(desk: Desk) -> None:
    effect = desk.say("k", "hello")
    outbox.record_outcome(desk.db, effect.id, EffectState.SENT, "", desk.now, platform_id="x1")
    messages.set_platform_id(desk.db, effect.message_id, "x2")
    found = messages.find(desk.db, *ROOM, Direction.OUT, "x1")
    assert found is not None and found.id == effect.message_id


def test_a_platform_that_gives_one_id_twice_breaks_nothing(desk: Desk) -> None:
    for key in ("k1", "k2"):
        outbox.record_outcome(desk.db, desk.say(key, key).id, EffectState.SENT, "", desk.now, platform_id="same")
    assert [desk.effect(key).state for key in ("k1", "k2")] == ["sent", "sent"]


def test_what_a_turn_said_counts_unless_it_was_withdrawn_or_failed(desk: Desk) -> None:
    turn = desk.begun()
    for key, state in (("a", "sent"), ("b", "failed"), ("c", "superseded"), ("d", "uncertain"), ("e", "pending")):
        effect = desk.say(key, key, turn=turn)
        if state != "pending":
            outbox.record_outcome(desk.db, effect.id, state, "", desk.now)
    desk.say("f", "f", turn=turn, origin="status")
    said = [key for key in "abcdef" if outbox.list_texts_in_turn(desk.db, turn.id, *ROOM, key) is not None]
    assert said == ["a", "d", "e"]
    assert [each.text for each in outbox.list_done_in_turn(desk.db, turn.id, 10, 10)] == ["a", "b", "d", "e"]


def test_an_unsent_interim_line_gives_way_to_a_newer_one(desk: Desk) -> None:
    turn = desk.begun()
    desk.say("first", "working …", turn=turn, origin="status")
    desk.say("edit", "still working …", turn=turn, origin="status", op="edit")
    assert outbox.supersede_edits(desk.db, turn.id, EffectOrigin.STATUS, desk.now) == 1
    assert [desk.effect(key).state for key in ("first", "edit")] == ["pending", "superseded"]


def test_stranger_new_what_an_open_turn_had_said_is_known_after_an_upgrade(desk: Desk) -> None:
    turn = desk.begun()
    effect = desk.say("a", "hello", turn=turn)
    desk.db.run("UPDATE outbox SET payload = ?", ('{"text": "hello", "in_reply_to": 1}',))
    for change in (
        "DROP INDEX outbox_said",
        "ALTER TABLE outbox DROP COLUMN digest",
        "ALTER TABLE outbox DROP COLUMN answers",
        "ALTER TABLE turns DROP COLUMN said_bytes",
    ):
        desk.db.define(change)

    apply_0021(desk.db)

    said = outbox.list_texts_in_turn(desk.db, turn.id, *ROOM, "hello", 1)
    assert said is not None and said.id == effect.id
    assert outbox.list_texts_in_turn(desk.db, turn.id, *ROOM, "hello", 2) is None
    assert outbox.answered_in_turn(desk.db, turn.id) == [1]


def test_what_is_urgent_goes_out_before_what_waits_and_not_before_what_is_being_sent(desk: Desk) -> None:
    """A card by which somebody decides does not wait behind what its agent has queued, and keeps its own order."""
    begun, waiting = desk.say("k1", "one"), desk.say("k2", "two")
    outbox.claim_head(desk.db, *ROOM, "d-1", desk.now, LEASE)
    for key in ("card", "decided"):
        new = NewEffect(
            key=key,
            op=Op.CARD,
            origin=EffectOrigin.NOTICE,
            instance=ROOM[0],
            address=ROOM[1],
            payload={"text": key},
            urgent=True,
        )
        outbox.add(desk.db, new, desk.now)
    order = []
    while (row := outbox.claim_head(desk.db, *ROOM, "d-1", desk.now, LEASE)) is not None:
        order.append(row.key)
        outbox.record_outcome(desk.db, row.id, EffectState.SENT, "", desk.now, platform_id=f"x{row.id}")
    assert order == [begun.key, "card", "decided", waiting.key]


def test_what_a_gateway_learns_late_corrects_what_another_called_uncertain(desk: Desk) -> None:
    known, unknown = desk.say("k1", "one"), desk.say("k2", "two")
    for each in (known, unknown):
        outbox.claim_head(desk.db, *ROOM, "a", desk.now, LEASE)
        outbox.claim_head(desk.db, *ROOM, "b", desk.now, LEASE)  # which found it in the middle of being sent
        outbox.record_outcome(desk.db, each.id, EffectState.UNCERTAIN, "the gateway stopped", desk.now)
    outbox.record_outcome(desk.db, known.id, EffectState.SENT, "", desk.now, "p-77")
    for state in (EffectState.FAILED, EffectState.PENDING):  # nothing goes out by itself
        outbox.record_outcome(desk.db, unknown.id, state, "no answer", desk.now)
    assert [desk.effect(each).state for each in ("k1", "k2")] == ["sent", "uncertain"]
    sent = messages.get(desk.db, known.message_id)
    assert sent is not None and sent.platform_id == "p-77"


def test_what_was_withdrawn_meanwhile_stays_so_whatever_is_learnt_late(desk: Desk) -> None:
    effect = desk.say("k1", "one")
    outbox.record_outcome(desk.db, effect.id, EffectState.CANCELLED, "", desk.now)
    outbox.record_outcome(desk.db, effect.id, EffectState.SENT, "", desk.now, "p-77")
    assert desk.effect("k1").state == "cancelled"
