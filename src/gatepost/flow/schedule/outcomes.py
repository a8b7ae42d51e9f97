"""Failed runs: the maker of a task is told of each, once. A run that ended well says what it says."""

from collections.abc import Iterable

from gatepost.access.senders import is_person
from gatepost.flow.delivery.outgoing_messages import ChannelInstances, OutgoingMessage, add_outgoing_message
from gatepost.flow.schedule.lateness import render_local
from gatepost.store.messages.outbox import EffectOrigin
from gatepost.store.port import Db
from gatepost.store.rooms import direct_rooms
from gatepost.store.schedule import firings, tasks
from gatepost.store.schedule.tasks import MOST_FAILURES, Task, TaskState

LONGEST_NAME = 60  # characters of what a task does, in a notice


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
    instance, address, thread = _find_owner_room(db, channels, task)
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


def _find_owner_room(db: Db, channels: ChannelInstances, task: Task) -> tuple[str, str, str]:
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
