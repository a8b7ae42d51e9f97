"""Notices to the maker of a task, and where they go: that a text could not be delivered, or that the rights behind the
task are gone. Each notice has a key of its own, so it is given once."""

from gatepost.access.senders import is_person
from gatepost.flow import sender_rights
from gatepost.flow.delivery.outgoing_messages import ChannelInstances, OutgoingMessage, add_outgoing_message
from gatepost.flow.requests.ask_approver import list_approvers
from gatepost.flow.schedule.outcomes import render_failure
from gatepost.store.messages.outbox import EffectOrigin
from gatepost.store.people import identities
from gatepost.store.port import Db
from gatepost.store.rooms import direct_rooms
from gatepost.store.schedule import tasks
from gatepost.store.schedule.tasks import Task

MOST_ASKED_FOR = 10  # people whose rooms are looked up for one notice

NoticeRoom = tuple[str, str, str]  # instance, address, thread


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
    made = [each for each in (task.created_by, *behind) if each not in ("", sender_rights.OPERATOR)]
    people = list(dict.fromkeys(each for each in made if is_person(each)))
    return [*people, *list_approvers(db, task.folder)][:MOST_ASKED_FOR]


def _add(db: Db, channels: ChannelInstances, where: NoticeRoom, key: str, text: str, now: int) -> tuple[str, str]:
    instance, address, thread = where
    notice = OutgoingMessage(
        key=key, origin=EffectOrigin.NOTICE, instance=instance, address=address, thread=thread, text=text
    )
    add_outgoing_message(db, channels, notice, now)
    return instance, address
