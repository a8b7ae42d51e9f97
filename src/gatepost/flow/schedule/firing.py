"""The firing of a task whose time has come. `plan_firing` decides from values; `fire` writes the plan in one
transaction with the task's next time. A second attempt writes nothing.

A prompt becomes a message of the ledger, kind `task`, for the session that works on it. It belongs to nobody: it is no
command and has no person's rights. Costs and denials are those of the people on whose behalf the task was made. A text
becomes a delivery, and no agent is woken. A text that was held is said once, or its run has failed, in the transaction
of the decision about it.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from gatepost.access.tiers import covers
from gatepost.flow.delivery.outgoing_messages import ChannelInstances, OutgoingMessage, add_outgoing_message
from gatepost.flow.requests.choices import render_decision
from gatepost.flow.schedule.firing_facts import FiringFacts, JudgedTime, judge_times, read_facts, render_no_way
from gatepost.flow.schedule.held_texts import HeldText, hold_text
from gatepost.flow.schedule.queued_prompts import queue_prompts
from gatepost.flow.schedule.task_outcomes import add_failure_notice, add_refusal_notices, add_undelivered_notice
from gatepost.flow.schedule.task_rights import TaskJudge
from gatepost.flow.schedule.times import LATE, Schedule, list_due, render_late
from gatepost.mailbox.runner_frames import LONGEST_RESULT
from gatepost.messages.text_size import measure
from gatepost.store.messages import destinations
from gatepost.store.messages.outbox import EffectOrigin
from gatepost.store.port import Db
from gatepost.store.rights import requests
from gatepost.store.rights.requests import AnswerLasts, Request, RequestState
from gatepost.store.rooms.origins import Origin
from gatepost.store.schedule import firings, scheduled_texts, tasks
from gatepost.store.schedule.firings import Firing, FiringState, NewFiring, make_firing
from gatepost.store.schedule.tasks import MissedPolicy, Task, TaskMove
from gatepost.store.sessions import sessions

_ALL, _SKIP = MissedPolicy.ALL, MissedPolicy.SKIP  # in Python 3.11 it takes as long as a call to find a member
EXPIRED = "its time is over (expiresAt)"
_decode_holds = msgspec.json.Decoder(list[tuple[str, str]]).decode


class SkippedTimes(Struct, frozen=True):
    """Times that are not fired, as one row of the log."""

    first: int
    times: int
    reason: str


class FiringPlan(Struct, frozen=True, kw_only=True):
    """The plan for a task that is due. `next_at` None: it is completed, for the reason `ends`."""

    task: Task
    fire: tuple[int, ...]
    behind: Sequence[Origin] = ()  # on whose behalf it was made
    skipped: SkippedTimes | None = None
    next_at: int | None = None
    ends: str = ""
    broken: str = ""  # why nothing can be said of it: it is paused
    refused: str = ""  # why those behind it have no right to it any more: it is paused
    held: HeldText | None = None  # a person is asked before its text is said


class FiredRooms(Struct, frozen=True):
    """The rooms that are to be woken once it is committed, and how many times were fired."""

    sessions: tuple[str, ...] = ()
    rooms: tuple[tuple[str, str], ...] = ()
    ran: int = 0


NOTHING_FIRED = FiredRooms()


def schedule_of(task: Task) -> Schedule:
    return Schedule(kind=task.kind, text=task.schedule, zone=task.zone, every=task.every)


def plan_firing(
    task: Task, now: int, most_late: int, behind: Sequence[Origin] = (), held: HeldText | None = None, since: int = 0
) -> FiringPlan:
    """By the task's policy: of several times that have come, the newest counts, or all of them. `since`: tasks are
    looked at since then, so that a time before it was missed."""
    assert task.next_at is not None
    until = now if task.expires_at is None else min(now, task.expires_at)
    if task.next_at > until:
        return FiringPlan(task=task, fire=(), behind=behind, ends=EXPIRED, held=held)
    due = list_due(schedule_of(task), task.next_at, until, most_late if task.missed is _ALL else 1)
    fire = due.newest
    if task.missed is _SKIP and fire and fire[-1] < max(now - LATE, since):
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
    return FiringPlan(
        task=task, fire=fire[:left], behind=behind, skipped=skipped, next_at=next_at, ends=ends, held=held
    )


def make_move(plan: FiringPlan, ran: int) -> TaskMove:
    """Return the task's next state once so many of its times are fired. A skipped time is no run, so it cannot end the
    task. A task whose text is held does not end before the next look: only then is it known which of its times wait for
    an answer."""
    task, open_ends = plan.task, plan.held is not None and bool(plan.fire)
    if task.max_runs is not None and task.runs + ran >= task.max_runs and not open_ends:
        return TaskMove(task, None, f"it has run {task.max_runs} times (maxRuns)", ran)
    return TaskMove(task, plan.next_at, plan.ends, ran)


def count_parts(channels: ChannelInstances, task: Task) -> int:
    """About how many messages one run of it puts into the outbox, or the one for its agent. Pure."""
    if not task.text:
        return 1
    longest = channels.get_kind(task.instance).max_text or LONGEST_RESULT
    return 1 + measure(task.text, channels.get_kind(task.instance).text_unit) // longest


def fire_plans(db: Db, channels: ChannelInstances, plans: Sequence[FiringPlan], most_late: int, now: int) -> FiredRooms:
    """Write each plan completely, or not at all if its task was moved on meanwhile. Rows are read and written for all
    plans together."""
    paused = [_pause(db, channels, plan, now) for plan in plans if plan.broken or plan.refused]
    planned = [plan for plan in plans if not plan.broken and not plan.refused]
    if not planned:
        return _join(paused)
    times = [(plan.task.id, at) for plan in planned for at in plan.fire]
    times += [(plan.task.id, plan.skipped.first) for plan in planned if plan.skipped is not None]
    behind = {plan.task.id: plan.behind for plan in planned}
    facts = read_facts(db, [plan.task for plan in planned], times, most_late, behind)
    whole = [plan for plan in planned if facts.places[plan.task.id].reached]
    if len(whole) < len(planned):
        paused += [_pause_unplaced(db, channels, plan, now) for plan in planned if plan not in whole]
    due = [(plan.task, at) for plan in whole for at in plan.fire if plan.held is None]
    missed = [(plan.task.id, plan.skipped) for plan in whole if plan.skipped is not None]
    judged = judge_times(facts, due, most_late, {plan.task.id: count_parts(channels, plan.task) for plan in whole})
    runs = dict.fromkeys(behind, 0)
    for each in judged:
        runs[each.task.id] += not each.skipped
    moves = [make_move(plan, runs[plan.task.id]) for plan in whole]
    moved = tasks.advance(db, moves, now)
    rows = [
        make_firing(task_id, some.first, now, FiringState.SKIPPED, some.reason, some.times)
        for task_id, some in missed
        if task_id in moved and (task_id, some.first) not in facts.fired
    ]
    fired = _fire(db, channels, [each for each in judged if each.task.id in moved], rows, facts, now)
    held = [_hold(db, channels, plan, now) for plan in whole if plan.held is not None and plan.task.id in moved]
    return _join([*paused, *held, fired])


def fire_times(
    db: Db, channels: ChannelInstances, task: Task, times: tuple[int, ...], most_late: int, now: int
) -> FiredRooms:
    """These times of a task, whatever comes next. One that was fired before is not fired again."""
    facts = read_facts(db, [task], [(task.id, each) for each in times], most_late, tasks.list_origins_of(db, [task.id]))
    due = [(task, each) for each in times]
    judged = judge_times(facts, due, most_late, {task.id: count_parts(channels, task)})
    fired = _fire(db, channels, judged, (), facts, now)
    if fired.ran:
        tasks.add_runs(db, task.id, fired.ran)
    return fired


def _fire(
    db: Db,
    channels: ChannelInstances,
    judged: Sequence[JudgedTime],
    rows: Sequence[NewFiring],
    facts: FiringFacts,
    now: int,
) -> FiredRooms:
    """Each of these times, and their rows with the others."""
    running = [each for each in judged if not each.skipped and not each.refused]
    queued = queue_prompts(db, [each for each in running if not each.task.text], facts, now)
    texts = [each for each in running if each.task.text]
    skipped = [(each, each.skipped) for each in judged if each.skipped]
    failed = [(each, each.refused) for each in judged if each.refused]
    failed += [(each.time, each.why) for each in queued if each.why]
    begun = FiringState.QUEUED
    firings.add_all(
        db,
        [
            *rows,
            *(_row(each, now, FiringState.SKIPPED, why) for each, why in skipped),
            *(_row(each, now, FiringState.FAILED, why) for each, why in failed),
            *(
                _row(each, now, FiringState.SENT, "", deliver_text(db, channels, each.task, each.due_at, now))
                for each in texts
            ),
            *[
                make_firing(each.time.task.id, each.time.due_at, now, begun, "", 1, each.message_id, each.session_id)
                for each in queued
                if not each.why
            ],
        ],
    )
    rooms = _add_failures(db, channels, failed, now) if failed else set()
    rooms |= {(each.task.instance, each.task.address) for each in texts}
    woken = {each.session_id for each in queued if not each.why}
    return FiredRooms(tuple(sorted(woken)), tuple(sorted(rooms)), len(judged) - len(skipped))


def _row(
    due: JudgedTime, now: int, state: FiringState, why: str, message_id: int | None = None, session_id: str = ""
) -> NewFiring:
    return make_firing(due.task.id, due.due_at, now, state, why, 1, message_id, session_id)


def _join(fired: Iterable[FiredRooms]) -> FiredRooms:
    every = list(fired)
    if len(every) == 1:
        return every[0]
    woken = {session for each in every for session in each.sessions}
    rooms = {room for each in every for room in each.rooms}
    return FiredRooms(tuple(sorted(woken)), tuple(sorted(rooms)), sum(each.ran for each in every))


def _add_failures(
    db: Db, channels: ChannelInstances, failed: Sequence[tuple[JudgedTime, str]], now: int
) -> set[tuple[str, str]]:
    """Record times that no session or room could take, and notify the owners of their tasks. Return the rooms to ring.
    The last notice of a task says that it is paused; further late times add none."""
    rooms, counts = set[tuple[str, str]](), Counter[str]()
    for each, why in failed:
        tasks.record_failure(db, each.task.id, why[: firings.LONGEST_REASON], now)
        counts[each.task.id] += 1
        if counts[each.task.id] <= tasks.MOST_FAILURES:
            task = tasks.get(db, each.task.id) or each.task
            rooms.add(add_failure_notice(db, channels, task, each.due_at, why, now))
    return rooms


def _pause(db: Db, channels: ChannelInstances, plan: FiringPlan, now: int) -> FiredRooms:
    task, due_at, why = plan.task, plan.task.next_at, plan.refused or plan.broken
    if due_at is None or not tasks.pause_at(db, task, why, now):
        return NOTHING_FIRED
    firings.add(db, task.id, due_at, now, FiringState.FAILED, why)
    if plan.refused:
        in_room = has_way(db, task.folder, task.instance, task.address)
        return FiredRooms(rooms=add_refusal_notices(db, channels, task, due_at, why, now, in_room=in_room))
    return FiredRooms(rooms=(add_failure_notice(db, channels, task, due_at, why, now),))


def _pause_unplaced(db: Db, channels: ChannelInstances, plan: FiringPlan, now: int) -> FiredRooms:
    return _pause(db, channels, replace(plan, refused=render_no_way(plan.task)), now)


def _hold(db: Db, channels: ChannelInstances, plan: FiringPlan, now: int) -> FiredRooms:
    assert plan.held is not None
    asked = hold_text(db, channels, plan.task, plan.fire, plan.held, now)
    return FiredRooms(rooms=asked.rooms, ran=asked.ran)


def has_way(db: Db, folder: str, instance: str, address: str) -> bool:
    """Return True if a group may speak in a room: it has been told of it, or has a conversation there."""
    if destinations.find_by_room(db, folder, instance, address) is not None:
        return True
    there = sessions.list_in_room(db, address)
    return any(each.instance == instance and covers(folder, each.folder) for each in there)


def deliver_text(db: Db, channels: ChannelInstances, task: Task, due_at: int, now: int) -> int | None:
    """The message of the first part."""
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
    added = add_outgoing_message(db, channels, said, now)
    return added[0].message_id if added else None


def follow_held_text(db: Db, channels: ChannelInstances, request: Request, now: int) -> tuple[tuple[str, str], ...]:
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
    return tuple(_end_held_text(db, channels, task, each, why, now) for each in waiting)


def _end_held_text(
    db: Db, channels: ChannelInstances, task: Task, firing: Firing, why: str, now: int
) -> tuple[str, str]:
    if not why:
        scheduled_texts.record_sent(db, firing.id, deliver_text(db, channels, task, firing.due_at, now), now)
        return task.instance, task.address
    scheduled_texts.record_denied(db, firing, why, now)
    return add_undelivered_notice(db, channels, tasks.get(db, task.id) or task, firing.due_at, why, now)
