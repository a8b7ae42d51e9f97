"""Outcomes of tasks: a run that failed counts, five in a row pause the task, and its maker gets a notice. Each notice
has a key of its own, so it is given once. A run that ended well says what it says.

The outcome of a text after its firing is that of its delivery, recorded in the delivery's transaction. One that fails
for good is a failed run.
"""

from collections.abc import Iterable

from gatepost.flow import sender_rights
from gatepost.flow.delivery.outgoing_messages import ChannelInstances, OutgoingMessage, add_outgoing_message
from gatepost.flow.requests.ask_approver import list_approvers
from gatepost.flow.schedule.times import render_local
from gatepost.messages.inbound import OPERATOR, is_person
from gatepost.store.messages.outbox import STALE, EffectOrigin, EffectState, OutboxEffect
from gatepost.store.people import identities
from gatepost.store.port import Db
from gatepost.store.rooms import direct_rooms
from gatepost.store.schedule import firings, scheduled_texts, tasks
from gatepost.store.schedule.tasks import MOST_FAILURES, Task, TaskState

LONGEST_NAME = 60  # characters of what a task does, in a notice
MOST_ASKED_FOR = 10  # people whose rooms are looked up for one notice
NoticeRoom = tuple[str, str, str]  # instance, address, thread


def add_failure_notices(
    db: Db, channels: ChannelInstances, message_ids: Iterable[int], now: int
) -> dict[int, tuple[str, str]]:
    """For those of these messages that are firings, which have failed in this transaction: the rooms to ring."""
    notified: dict[int, tuple[str, str]] = {}
    for message_id in message_ids:
        firing = firings.find_by_message(db, message_id)
        task = tasks.get(db, firing.task_id) if firing is not None else None
        if firing is not None and task is not None:
            notified[message_id] = add_failure_notice(db, channels, task, firing.due_at, firing.reason, now)
    return notified


def add_failure_notice(
    db: Db, channels: ChannelInstances, task: Task, due_at: int, reason: str, now: int
) -> tuple[str, str]:
    """The room to ring: a person's own, if a person made the task and can be reached there, else the task's."""
    instance, address, thread = _find_maker_room(db, channels, task)
    notice = OutgoingMessage(
        key=f"notice/task/{task.id}/{due_at}",
        origin=EffectOrigin.NOTICE,
        instance=instance,
        address=address,
        thread=thread,
        text=render_failure(task, due_at, reason),
    )
    add_outgoing_message(db, channels, notice, now)
    return instance, address


def _find_maker_room(db: Db, channels: ChannelInstances, task: Task) -> tuple[str, str, str]:
    if is_person(task.created_by):
        for room in direct_rooms.list_for_people(db, (task.created_by,)):
            if channels.find_channel(room.instance) is not None:
                return room.instance, room.address, ""
    return task.instance, task.address, task.thread


def render_failure(task: Task, due_at: int, reason: str) -> str:
    words = " ".join((task.title or task.prompt or task.text).split())
    name = words if len(words) <= LONGEST_NAME else words[: LONGEST_NAME - 1] + "…"
    why = reason.strip().splitlines()[0][:300].rstrip(".") if reason.strip() else "the agent did not finish"
    text = f"The scheduled task “{name}” ({task.id}) of {render_local(due_at, task.zone)} failed: {why}."
    if task.state is TaskState.PAUSED and task.failures >= MOST_FAILURES:
        text += f" It failed {task.failures} times in a row and is paused; `gatepost task resume {task.id}` resumes it."
    return text


def add_undelivered_notice(
    db: Db, channels: ChannelInstances, task: Task, due_at: int, reason: str, now: int
) -> tuple[str, str]:
    """The room to ring. Not where the text could not be delivered, if somebody can be reached elsewhere."""
    where = find_owner_room(db, channels, task) or (task.instance, task.address, task.thread)
    return _add(db, channels, where, f"notice/task/{task.id}/{due_at}", render_failure(task, due_at, reason), now)


def add_refusal_notices(
    db: Db, channels: ChannelInstances, task: Task, due_at: int, reason: str, now: int, *, in_room: bool
) -> tuple[tuple[str, str], ...]:
    """It was paused for that reason: its owner is told, and its room, unless the group may not speak there (`in_room`).
    The room is not told what the task was to do: that was said elsewhere, perhaps in confidence."""
    key, rooms = f"notice/task/{task.id}/{due_at}", list[tuple[str, str]]()
    again = f"It is paused; `gatepost task resume {task.id}` resumes it."
    owner = find_owner_room(db, channels, task)
    if owner is not None:
        rooms.append(_add(db, channels, owner, key, f"{render_failure(task, due_at, reason)} {again}", now))
    if in_room:
        here = (task.instance, task.address, task.thread)
        said = f"A scheduled task of this room ({task.id}) did not run: {reason}. {again}"
        rooms.append(_add(db, channels, here, f"{key}/room", said, now))
    return tuple(rooms)


def find_owner_room(db: Db, channels: ChannelInstances, task: Task) -> NoticeRoom | None:
    """Return the direct room of the task's maker, else of the person who had it made, else of somebody who decides
    about its group. It is None if nobody can be reached outside of the task's own room. People whom the access list
    shuts out are told nothing."""
    for person in _list_owners(db, task):
        if sender_rights.find_rights(db, person, task.folder) is None:
            continue
        for room in direct_rooms.list_for_people(db, (identities.get_person(db, person),)):
            there = (room.instance, room.address)
            if there != (task.instance, task.address) and channels.find_channel(room.instance) is not None:
                return (*there, "")
    return None


def _list_owners(db: Db, task: Task) -> list[str]:
    behind = [each.person for each in tasks.list_origins(db, task.id)]
    made = [each for each in (task.created_by, *behind) if each not in ("", OPERATOR)]
    people = list(dict.fromkeys(each for each in made if is_person(each)))
    return [*people, *list_approvers(db, task.folder)][:MOST_ASKED_FOR]


def _add(db: Db, channels: ChannelInstances, where: NoticeRoom, key: str, text: str, now: int) -> tuple[str, str]:
    instance, address, thread = where
    notice = OutgoingMessage(
        key=key, origin=EffectOrigin.NOTICE, instance=instance, address=address, thread=thread, text=text
    )
    add_outgoing_message(db, channels, notice, now)
    return instance, address


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
