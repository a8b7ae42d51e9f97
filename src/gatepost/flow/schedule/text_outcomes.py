"""The outcome of a task's text after its firing is that of its delivery: one that fails for good is a failed run. It
counts, five in a row pause the task, and whoever made it is told. All in the transaction of the delivery."""

from gatepost.flow.delivery.outgoing_messages import ChannelInstances
from gatepost.flow.schedule.task_notices import add_undelivered_notice
from gatepost.store.messages.outbox import STALE, EffectState, OutboxEffect
from gatepost.store.port import Db
from gatepost.store.schedule import scheduled_texts, tasks


def record_text_outcome(
    db: Db, channels: ChannelInstances, effect: OutboxEffect, state: EffectState, reason: str, now: int
) -> None:
    found = scheduled_texts.parse_key(effect.key)
    if found is None:
        return
    task_id, due_at = found
    if state is EffectState.SENT:
        scheduled_texts.record_delivered(db, task_id, due_at)
    if state not in (EffectState.FAILED, EffectState.UNCERTAIN):
        return
    why = render_undelivered(state, reason)
    if scheduled_texts.record_undelivered(db, task_id, due_at, why, now):
        task = tasks.get(db, task_id)
        if task is not None and task.failures <= tasks.MOST_FAILURES:  # the fifth notice says that it is paused
            add_undelivered_notice(db, channels, task, due_at, why, now)


def render_undelivered(state: EffectState, reason: str) -> str:
    if reason == STALE:
        return "it could not be delivered in time"
    said = "it is not known whether it was delivered" if state is EffectState.UNCERTAIN else "it was not delivered"
    return f"{said}: {reason}" if reason else said
