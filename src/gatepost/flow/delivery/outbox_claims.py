"""A lane's step on the store: settle what was sent and take what comes next, in one transaction.

A failed effect is told to those who asked for it. The agent gets a row of context, which wakes nobody, so that a
failing room cannot make an agent talk in circles. A room gets one notice after an outage.
"""

from collections.abc import Mapping
from typing import NamedTuple

from msgspec import Struct

from gatepost.channels.contract import LateFailure
from gatepost.core.errors import Unavailable
from gatepost.flow.delivery.channel_sender import SendJob, SendOutcome, is_draft
from gatepost.flow.delivery.outgoing_messages import ChannelInstances, OutgoingMessage, add_outgoing_message
from gatepost.flow.delivery.retry import DeliveryRetryPolicy
from gatepost.flow.requests.card_delivery import KEY as CARD_KEY
from gatepost.flow.requests.card_delivery import record_card_outcome
from gatepost.flow.schedule.task_outcomes import record_text_outcome
from gatepost.messages.outbound import Feature
from gatepost.store.messages import growing_drafts, inbox, messages, outbox
from gatepost.store.messages.outbox import STALE, EffectOrigin, EffectState, OutboxEffect
from gatepost.store.port import Db, LockKind
from gatepost.store.schedule import scheduled_texts
from gatepost.store.sessions import sessions

MOST_KNOWN = 200  # messages of a room that first words are told apart from
AGENTS_OWN = ("result", "tool")  # origins whose failure somebody waits to hear of
NOTICE = "stale:"  # how the keys of notices begin
UNSENT_FILE = "notice:unsent:"  # the same for notices about files
NOTICE_TEXT = "Some messages for you could not be delivered in time and were left out."


class WaitUntil(Struct, frozen=True):
    """The lane's first row has to wait until then."""

    at: int


class DeliveryLane(NamedTuple):
    """One room of one channel instance: its rows go out one after another."""

    instance: str
    address: str


class DeliveryContext(Struct, frozen=True, kw_only=True):
    """Under whose name rows are taken, and by which rules."""

    owner: str
    lease: int
    policy: DeliveryRetryPolicy
    channels: ChannelInstances


def settle_and_claim(
    db: Db,
    context: DeliveryContext,
    lane: DeliveryLane,
    outcome: SendOutcome | None,
    look_up_at: Mapping[int, int],
    now: int,
    oldest: int,
) -> SendJob | WaitUntil | None:
    """Record what became of the last row and take the next: a job, a moment to come back, or None: the lane is empty.

    `look_up_at`: rows of which we wait to know whether they happened. `oldest`: what was made before is stale.
    """
    if outcome is not None:
        settle_effect(db, context.channels, outcome, now)
    effect = outbox.claim_head(db, lane.instance, lane.address, context.owner, now, context.lease, oldest)
    if effect is not None and effect.state == EffectState.PENDING and effect.created_at < oldest:
        _expire_stale(db, context.channels, lane, oldest, now)
        effect = outbox.claim_head(db, lane.instance, lane.address, context.owner, now, context.lease)
    return _next(db, effect, look_up_at, now)


def _next(db: Db, effect: OutboxEffect | None, look_up_at: Mapping[int, int], now: int) -> SendJob | WaitUntil | None:
    if effect is None:
        return None
    found = effect.state == EffectState.SENDING
    due = look_up_at.get(effect.id, 0) if found else effect.next_at or 0
    if due > now:
        return WaitUntil(due)
    target = messages.get(db, effect.target_id) if effect.target_id is not None else None
    place = effect.payload.get(growing_drafts.DRAFT)
    draft = messages.get(db, place) if place is not None else None
    said = (effect.instance, effect.address, None, MOST_KNOWN)
    known = messages.list_latest_in_room(db, *said) if found and is_draft(effect) else ()
    return SendJob(effect, target, found, draft, frozenset(each.platform_id or "" for each in known))


def settle_effect(db: Db, channels: ChannelInstances, outcome: SendOutcome, now: int) -> None:
    effect = outcome.effect
    if outcome.place is not None and outcome.state == EffectState.SENT:
        growing_drafts.release_platform_id(db, outcome.place)
    elif outcome.place is not None:
        growing_drafts.give_up_place(db, effect)
    elif outcome.state == EffectState.SENT and growing_drafts.LEFT in effect.payload:
        growing_drafts.remove_left(
            db, effect, deletes=Feature.DELETE in channels.get_kind(effect.instance).features, now=now
        )
    outbox.record_outcome(db, effect.id, outcome.state, outcome.reason, now, outcome.platform_id, outcome.next_at)
    if outcome.state in (EffectState.FAILED, EffectState.UNCERTAIN) and effect.origin in AGENTS_OWN:
        _add_context_row(db, effect, f"delivery_{outcome.state}", outcome.reason, now)
        if outcome.state is EffectState.FAILED and effect.payload.get("files"):
            _add_file_notice(db, channels, effect, outcome.reason, now)
    if effect.origin != EffectOrigin.RESULT:
        _record_at_origin(db, channels, effect, outcome.state, outcome.reason, now)


def _record_at_origin(
    db: Db, channels: ChannelInstances, effect: OutboxEffect, state: EffectState, reason: str, now: int
) -> None:
    """Record the outcome where it counts beyond the message itself. The key of an effect tells whose it is."""
    if effect.key.startswith(scheduled_texts.BEGIN):
        record_text_outcome(db, channels, effect, state, reason, now)
    elif effect.key.startswith(CARD_KEY):
        record_card_outcome(db, effect, state, now)


def settle_late_failure(db: Db, channels: ChannelInstances, instance: str, failure: LateFailure, now: int) -> str:
    """Take back what a platform accepted and did not deliver; return the address of a room that has work again, or ''.
    A message that was sent anew has another id, so an old report says nothing about it."""
    effect = outbox.find_by_key(db, failure.key)
    if effect is None or effect.instance != instance:
        return ""
    if effect.state == EffectState.SENDING:
        raise Unavailable("the outbox", "the message is still being sent")
    sent = messages.get(db, effect.message_id)
    if sent is None or sent.platform_id != failure.platform_id:
        return ""
    state = outbox.record_undelivered(db, effect, failure.why, again=failure.again, now=now)
    if state is EffectState.FAILED:
        if effect.origin in AGENTS_OWN:
            _add_context_row(db, effect, f"delivery_{state}", failure.why, now)
        _record_at_origin(db, channels, effect, state, failure.why, now)
    return effect.address if state is EffectState.PENDING else ""


def _add_context_row(db: Db, effect: OutboxEffect, event: str, reason: str, now: int, count: int = 1) -> None:
    session = sessions.get(db, effect.session_id) if effect.session_id else None
    if session is None or session.closed_at is not None:
        return
    content = {"event": event, "seq": effect.seq, "op": effect.op, "reason": reason, "count": count}
    message_id = messages.add_system(db, session, f"delivery:{effect.id}", content, now)
    if message_id is not None:
        inbox.observe(db, message_id, session.id, session.folder, "guest", now)


def _add_file_notice(db: Db, channels: ChannelInstances, effect: OutboxEffect, reason: str, now: int) -> None:
    """Tell the room that a file is not coming: nobody there can know that there was one."""
    names = ", ".join(str(each.get("name")) for each in effect.payload["files"])
    new = OutgoingMessage(
        key=f"{UNSENT_FILE}{effect.id}",
        origin=EffectOrigin.NOTICE,
        instance=effect.instance,
        address=effect.address,
        thread=effect.thread,
        text=f"I could not send {names}: {reason}",
    )
    add_outgoing_message(db, channels, new, now)


def _expire_stale(db: Db, channels: ChannelInstances, lane: DeliveryLane, oldest: int, now: int) -> None:
    """End every stale row of the lane at once. Each session gets one row of context. The room gets one notice, which
    outlives the outage that it tells of. While it is on its way, it speaks for rows that become stale meanwhile."""
    own: dict[str | None, list[OutboxEffect]] = {}
    for effect in outbox.list_waiting_since(db, lane.instance, lane.address, oldest):
        if effect.key.startswith(NOTICE):
            continue
        outbox.record_outcome(db, effect.id, EffectState.FAILED, STALE, now)
        _record_at_origin(db, channels, effect, EffectState.FAILED, STALE, now)
        if effect.origin in AGENTS_OWN:
            own.setdefault(effect.session_id, []).append(effect)
    for effects in own.values():
        _add_context_row(db, effects[-1], "delivery_failed", STALE, now, len(effects))
    if own:
        _add_stale_notice(db, channels, lane, now)


def _add_stale_notice(db: Db, channels: ChannelInstances, lane: DeliveryLane, now: int) -> None:
    db.lock(LockKind.ROOM, lane.instance, lane.address)
    number = 1
    while (earlier := outbox.find_by_key(db, key := f"{NOTICE}{lane.instance}:{lane.address}:{number}")) is not None:
        if earlier.state not in outbox.END:
            return
        number += 1
    new = OutgoingMessage(
        key=key, origin=EffectOrigin.NOTICE, instance=lane.instance, address=lane.address, text=NOTICE_TEXT
    )
    add_outgoing_message(db, channels, new, now)
