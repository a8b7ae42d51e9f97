"""A task whose time has come: what is to be done is decided from values (`plan_firing`), then written in one
transaction with the task's next time (`fire`). A second one who tries writes nothing.

A prompt becomes a message of the ledger, kind `task`, for the session that works on it. It is nobody's: no command, no
person's rights. What it costs and what is denied go by those on whose behalf the task was made. A text becomes a
delivery, and no agent is woken.
"""

from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from gatepost.access.tiers import covers
from gatepost.core.clock import MINUTE, SECOND, iso
from gatepost.flow import sender_rights
from gatepost.flow.delivery.outgoing_messages import ChannelInstances, OutgoingMessage, add_outgoing_message
from gatepost.flow.schedule.held_texts import HeldText, hold_text
from gatepost.flow.schedule.outcomes import add_failure_notice
from gatepost.flow.schedule.task_notices import add_refusal_notices
from gatepost.flow.schedule.times import Schedule, list_due
from gatepost.messages.inbound import Direction, MessageKind
from gatepost.store import agents, destinations, firings, inbox, messages, origins, sessions, tasks, timeline
from gatepost.store.firings import RIGHTS, FiringState
from gatepost.store.inbox import InboxMode
from gatepost.store.messages import NewMessage
from gatepost.store.outbox import EffectOrigin
from gatepost.store.port import Db
from gatepost.store.sessions import Session, SessionMode
from gatepost.store.tasks import MissedPolicy, Task, TaskContext
from gatepost.store.timeline import TimelineKind

LATE = MINUTE  # a firing that comes so long after its time says so
MOST_WAITING, LARGEST_WAITING = 200, 4_000_000  # firings, and their characters, that wait in one conversation
EXPIRED = "its time is over (expiresAt)"


class SkippedTimes(Struct, frozen=True):
    """Times that are not fired, as one row of the log."""

    first: int
    times: int
    reason: str


class FiringPlan(Struct, frozen=True, kw_only=True):
    """What becomes of a task that is due. `next_at` None: it is completed, for the reason `ends`."""

    task: Task
    fire: tuple[int, ...]
    skipped: SkippedTimes | None = None
    next_at: int | None = None
    ends: str = ""
    broken: str = ""  # why nothing can be said of it: it is paused
    refused: str = ""  # why those behind it have no right to it any more: it is paused
    held: HeldText | None = None  # a person is asked before its text is said


class FiredRooms(Struct, frozen=True):
    """What is to be rung once it is committed, and how many times were fired."""

    sessions: tuple[str, ...] = ()
    rooms: tuple[tuple[str, str], ...] = ()
    ran: int = 0


NOTHING_FIRED = FiredRooms()


def schedule_of(task: Task) -> Schedule:
    return Schedule(kind=task.kind, text=task.schedule, zone=task.zone, every=task.every)


def plan_firing(task: Task, now: int, most_late: int) -> FiringPlan:
    """By the task's policy: of several times that have come, the newest counts, or all of them."""
    assert task.next_at is not None
    until = now if task.expires_at is None else min(now, task.expires_at)
    if task.next_at > until:
        return FiringPlan(task=task, fire=(), ends=EXPIRED)
    every = task.missed is MissedPolicy.ALL
    due = list_due(schedule_of(task), task.next_at, until, most_late if every else 1)
    fire = due.newest
    if task.missed is MissedPolicy.SKIP and fire and fire[-1] < now - LATE:
        fire = ()
    left = len(fire) if task.max_runs is None else max(0, task.max_runs - task.runs)
    times = due.older + len(due.newest) - len(fire)
    skipped = None
    if times:
        counted = "" if due.counted else "or more "
        reason = f"{times} {counted}missed: nobody was there to run it (missed={task.missed})"
        skipped = SkippedTimes(task.next_at, times, reason)
    next_at, ends = due.next, "" if due.next is not None else "it ran at its time"
    if next_at is not None and task.expires_at is not None and next_at > task.expires_at:
        next_at, ends = None, EXPIRED
    if task.max_runs is not None and len(fire) >= left:
        next_at, ends = None, f"it has run {task.max_runs} times (maxRuns)"
    return FiringPlan(task=task, fire=fire[:left], skipped=skipped, next_at=next_at, ends=ends)


def fire(db: Db, reach: ChannelInstances, plan: FiringPlan, most_late: int, now: int) -> FiredRooms:
    """All of a plan or nothing of it: nothing, if the task was moved on meanwhile."""
    task = plan.task
    if plan.broken or plan.refused:
        return _pause_broken(db, reach, plan, now)
    if not tasks.advance(db, task, plan.next_at, plan.ends, now):
        return NOTHING_FIRED
    if plan.skipped is not None:
        skipped = plan.skipped
        firings.add(db, task.id, skipped.first, now, FiringState.SKIPPED, skipped.reason, skipped.times)
    if plan.held is not None:
        asked = hold_text(db, reach, task, plan.fire, plan.held, now)
        return FiredRooms(rooms=asked.rooms, ran=asked.ran)
    return fire_times(db, reach, task, plan.fire, most_late, now)


def fire_times(
    db: Db, reach: ChannelInstances, task: Task, times: tuple[int, ...], most_late: int, now: int
) -> FiredRooms:
    """These times of a task, whatever comes next. One that was fired before is not fired again."""
    woken: set[str] = set()
    rooms: set[tuple[str, str]] = set()
    ran = 0
    for due_at in times:
        why = check_overlap(db, task, most_late)
        state = FiringState.SKIPPED if why else FiringState.SENT if task.text else FiringState.QUEUED
        firing_id = firings.add(db, task.id, due_at, now, state, why)
        if firing_id is None or why:
            continue
        ran += 1
        if refused := _find_refusal(db, task):
            rooms.add(_fail(db, reach, task, firing_id, due_at, refused, now))
        elif task.text:
            deliver_text(db, reach, task, firing_id, due_at, now)
            rooms.add((task.instance, task.address))
        elif isinstance(session := _queue(db, task, firing_id, due_at, now), Session):
            woken.add(session.id)
        else:
            rooms.add(_fail(db, reach, task, firing_id, due_at, session, now))
    if ran:
        tasks.add_runs(db, task.id, ran)
    return FiredRooms(tuple(sorted(woken)), tuple(sorted(rooms)), ran)


def _find_refusal(db: Db, task: Task) -> str:
    """Why a task may not run any more, though it could be made once; '' if it may."""
    if not has_way(db, task.folder, task.instance, task.address):
        return f"{task.folder} has no way to its room any more"
    behind = [each.person for each in tasks.list_origins(db, task.id)]
    if sender_rights.is_shut_out(db, behind, task.folder):
        return f"somebody on whose behalf it was made may not speak to {task.folder} any more"
    return ""


def _fail(
    db: Db, reach: ChannelInstances, task: Task, firing_id: int, due_at: int, why: str, now: int
) -> tuple[str, str]:
    """Nobody could be given it. The room to ring, where its owner is told."""
    firings.end_unqueued(db, firing_id, why, now)
    return add_failure_notice(db, reach, tasks.get(db, task.id) or task, due_at, why, now)


def _pause_broken(db: Db, reach: ChannelInstances, plan: FiringPlan, now: int) -> FiredRooms:
    task, due_at = replace(plan.task, zone="UTC"), plan.task.next_at  # its own may be what cannot be read
    why = plan.refused or plan.broken
    if due_at is None or not tasks.pause_at(db, task, why, now):
        return NOTHING_FIRED
    firings.add(db, task.id, due_at, now, FiringState.FAILED, why)
    if plan.refused:
        in_room = has_way(db, task.folder, task.instance, task.address)
        return FiredRooms(rooms=add_refusal_notices(db, reach, plan.task, due_at, why, now, in_room=in_room))
    return FiredRooms(rooms=(add_failure_notice(db, reach, task, due_at, plan.broken, now),))


def check_overlap(db: Db, task: Task, most_late: int) -> str:
    """Why a time is not fired though it has come; '' if it is."""
    count = firings.count_undelivered if task.text else firings.count_open
    waiting, end = count(db, task.id, most_late), "been delivered" if task.text else "ended"
    if waiting and task.missed is not MissedPolicy.ALL:
        return f"the run before has not {end}"
    if waiting >= most_late:
        return f"{waiting} runs of it have not {end}"
    return ""


def has_way(db: Db, folder: str, instance: str, address: str) -> bool:
    """Whether a group may speak in a room: it has been told of it, or has a conversation there."""
    if destinations.find_by_room(db, folder, instance, address) is not None:
        return True
    there = sessions.list_in_room(db, address)
    return any(each.instance == instance and covers(folder, each.folder) for each in there)


def render_late(task: Task, due_at: int, now: int) -> str:
    """What is said with something that comes late; '' if it does not."""
    if now - due_at <= LATE:
        return ""
    moment = iso(due_at - due_at % SECOND, task.zone) or ""
    return f"(late: it was due at {moment[:16].replace('T', ' ')} {task.zone})"


def deliver_text(db: Db, reach: ChannelInstances, task: Task, firing_id: int, due_at: int, now: int) -> None:
    late = render_late(task, due_at, now)
    said = OutgoingMessage(
        key=firings.get_text_key(task.id, due_at),
        origin=EffectOrigin.TOOL,
        instance=task.instance,
        address=task.address,
        thread=task.thread,
        text=f"{task.text}\n{late}" if late else task.text,
        folder=task.folder,
    )
    for effect in add_outgoing_message(db, reach, said, now)[:1]:
        firings.set_message(db, firing_id, effect.message_id, "")


def _queue(db: Db, task: Task, firing_id: int, due_at: int, now: int) -> Session | str:
    """The session that is to be woken, or why it cannot be given this."""
    session = _find_session(db, task, due_at, now)
    if session is None:
        return "its agent was ended"
    if why := inbox.check_room(db, session.id, RIGHTS, len(task.prompt), MOST_WAITING, LARGEST_WAITING):
        return why
    message_id = messages.accept(db, _make_message(task, session, due_at, now), now)
    if message_id is None:
        return "it was given to its agent before"
    origins.put(db, message_id, tasks.list_origins(db, task.id), task.depth)
    firings.set_message(db, firing_id, message_id, session.id)
    inbox.enqueue(db, message_id, session.id, session.folder, RIGHTS, now, InboxMode.TASK)
    if session.agent:
        timeline.add(db, session.id, "", TimelineKind.USER_MESSAGE, {"text": task.prompt}, now)
    return session


def _make_message(task: Task, session: Session, due_at: int, now: int) -> NewMessage:
    late = render_late(task, due_at, now)
    content: dict[str, Any] = {"prompt": f"{task.prompt}\n{late}" if late else task.prompt, "task": task.id}
    if task.script:
        content["script"] = task.script
    return NewMessage(
        instance=task.instance,
        address=task.address,
        thread=task.thread,
        direction=Direction.IN,
        platform_id=f"task/{task.id}/{due_at}",
        event="task",
        kind=MessageKind.TASK,
        sender=f"task:{task.id}",
        text=task.prompt,
        content=msgspec.json.encode(content).decode(),
        folder=session.folder,
        at=due_at,
    )


def _find_session(db: Db, task: Task, due_at: int, now: int) -> Session | None:
    """The conversation of the room, or a fresh one. A managed agent is its own conversation; None: it has ended."""
    place = (task.folder, task.instance, task.address, task.thread)
    if task.instance == agents.INSTANCE:
        return next((each for each in sessions.list_in_room(db, task.address) if each.agent), None)
    if task.context is TaskContext.ISOLATED:
        return sessions.add_isolated(db, f"{task.id}|{due_at}", *place, now)
    there = [each for each in sessions.list_in_room(db, task.address) if each.folder == task.folder]
    same = [each for each in there if each.mode is SessionMode.SHARED or each.thread == task.thread]
    if same:
        return same[0]
    whole = sessions.find_by_key(db, sessions.key_of(SessionMode.AGENT_SHARED, *place))
    return whole or sessions.find_or_add(db, SessionMode.PER_THREAD, *place, now)
