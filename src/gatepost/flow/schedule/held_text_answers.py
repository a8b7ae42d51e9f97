"""Decisions about a text of a task that was held: it is said, once, or the run has failed. In the transaction of the
decision."""

import msgspec

from gatepost.flow.delivery.outgoing_messages import ChannelInstances
from gatepost.flow.requests.choices import render_decision
from gatepost.flow.schedule.firing import deliver_text
from gatepost.flow.schedule.task_notices import add_undelivered_notice
from gatepost.flow.schedule.task_rights import TaskJudge
from gatepost.store.port import Db
from gatepost.store.rights import requests
from gatepost.store.rights.requests import AnswerLasts, Request, RequestState
from gatepost.store.schedule import scheduled_texts, tasks
from gatepost.store.schedule.firings import Firing
from gatepost.store.schedule.tasks import Task

_decode_holds = msgspec.json.Decoder(list[tuple[str, str]]).decode


def follow(db: Db, channels: ChannelInstances, request: Request, now: int) -> tuple[tuple[str, str], ...]:
    """The rooms to ring. Everything but the hold is judged anew."""
    requests.settle(db, request.id, now)
    requests.record_notified(db, request.id, now)
    task = tasks.get(db, request.name)
    if task is None:
        return ()
    allowed = request.state is RequestState.ALLOWED
    if allowed and request.lasts is not AnswerLasts.ONCE:
        scheduled_texts.add_agreed(db, task.id, _decode_holds(request.about))
    why = TaskJudge(db, [task]).find_refusal(task) if allowed else render_decision(request, request.answered_by)
    waiting = scheduled_texts.list_waiting(db, task.id)
    return tuple(_end(db, channels, task, each, why, now) for each in waiting)


def _end(db: Db, channels: ChannelInstances, task: Task, firing: Firing, why: str, now: int) -> tuple[str, str]:
    if not why:
        scheduled_texts.record_sent(db, firing.id, deliver_text(db, channels, task, firing.due_at, now), now)
        return task.instance, task.address
    scheduled_texts.record_denied(db, firing, why, now)
    return add_undelivered_notice(db, channels, tasks.get(db, task.id) or task, firing.due_at, why, now)
