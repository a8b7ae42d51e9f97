"""A text that a rule holds when its time comes: one card asks, and the firing waits for the answer. Meanwhile the later
times of the same task are skipped. `firing.py` acts on the answer."""

from collections.abc import Sequence

import msgspec
from msgspec import Struct

from gatepost.access.policy import GroupHold
from gatepost.core.clock import HOUR
from gatepost.flow.delivery.outgoing_messages import ChannelInstances
from gatepost.flow.requests.ask_approver import AskingRules, ask
from gatepost.store.port import Db, LockKind
from gatepost.store.rights import requests, waiting_requests
from gatepost.store.rights.requests import NewRequest, RequestKind, RequestState
from gatepost.store.schedule import firings, scheduled_texts, tasks
from gatepost.store.schedule.firings import FiringState
from gatepost.store.schedule.tasks import Task

MOST_WAITING = 20  # texts of one group, at once: a person has to read them
MOST_AN_HOUR = 40  # the same in an hour, whatever became of them
BY_AGENT = "agent:"


class HeldText(Struct, frozen=True):
    """The reason why a text is held, and how people are asked."""

    holds: tuple[GroupHold, ...]
    asking: AskingRules


class AskedTexts(Struct, frozen=True):
    """`rooms`: to be woken once it is committed. `ran`: how many times wait now."""

    rooms: tuple[tuple[str, str], ...] = ()
    ran: int = 0


def hold_text(
    db: Db, channels: ChannelInstances, task: Task, times: Sequence[int], held: HeldText, now: int
) -> AskedTexts:
    """In the transaction of the firing. One time of the task waits at most."""
    rooms: list[tuple[str, str]] = []
    ran = 0
    for due_at in times:
        if why := _find_obstacle(db, task, now):
            firings.add(db, task.id, due_at, now, FiringState.SKIPPED, why)
            continue
        scheduled_texts.cancel_waiting(db, task.id, "nobody has to decide it any more", now)
        firing_id = firings.add(db, task.id, due_at, now, FiringState.QUEUED)
        if firing_id is None:
            continue
        asked = ask(db, channels, held.asking, make_request(task, held), now)
        scheduled_texts.set_waiting(db, firing_id, f"it waits for a person's decision (request {asked.request.id})")
        rooms += asked.rooms
        ran += 1
    if ran:
        tasks.add_runs(db, task.id, ran)
    return AskedTexts(tuple(dict.fromkeys(rooms)), ran)


def _find_obstacle(db: Db, task: Task, now: int) -> str:
    """Why nobody is asked about this time; '' if somebody is."""
    folder = get_maker(task)
    db.lock(LockKind.QUOTA, "requests", folder)
    last = requests.find_last(db, RequestKind.TEXT, folder, task.id)
    if last is not None and last.state is RequestState.PENDING:
        return f"the run before waits for a person's decision (request {last.id})"
    if waiting_requests.count_pending_of_kind(db, RequestKind.TEXT, folder) >= MOST_WAITING:
        return f"{MOST_WAITING} texts of {folder} wait for a person's decision already"
    if requests.count_of_kind_since(db, RequestKind.TEXT, folder, now - HOUR) >= MOST_AN_HOUR:
        return f"people were asked about {MOST_AN_HOUR} texts of {folder} within an hour"
    return ""


def make_request(task: Task, held: HeldText) -> NewRequest:
    """`about` names the holds, so that an answer for all times of the task agrees to these and no others."""
    said = {"room": task.address, "text": task.text, "task": task.title, "schedule": f"{task.schedule} ({task.zone})"}
    return NewRequest(
        kind=RequestKind.TEXT,
        name=task.id,
        folder=get_maker(task),
        tool="send",
        input={name: value for name, value in said.items() if value},
        about=msgspec.json.encode([(each.folder, each.rule) for each in held.holds]).decode(),
        why=", ".join(each.render() for each in held.holds),
        quorum=max(each.quorum or held.asking.quorum for each in held.holds),
        instance=task.instance,
        address=task.address,
        thread=task.thread,
    )


def withdraw_text(db: Db, task: Task, reason: str, now: int) -> None:
    """Nobody has to decide any more about what the task was to say. Its cards say so with the next look at requests."""
    last = requests.find_last(db, RequestKind.TEXT, get_maker(task), task.id)
    if last is not None:
        requests.withdraw(db, last.id, reason, now)
    scheduled_texts.cancel_waiting(db, task.id, reason, now)


def get_maker(task: Task) -> str:
    """The group whose agent made it: whoever decides about that group is asked."""
    return task.created_by.removeprefix(BY_AGENT) if task.created_by.startswith(BY_AGENT) else task.folder
