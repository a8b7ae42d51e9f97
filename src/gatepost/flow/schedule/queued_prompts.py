"""Prompts whose time has come, as messages of the ledger, kind `task`, for the sessions that work on them: all those of
one look together.

Such a message belongs to nobody: it is no command and has no person's rights. Costs and denials are those of the people
on whose behalf its task was made.
"""

from collections import Counter
from collections.abc import Iterator, Sequence, Set
from typing import Any

import msgspec
from msgspec import Struct

from gatepost.flow.schedule.firing_facts import FiringFacts, JudgedTime
from gatepost.flow.schedule.times import render_late
from gatepost.store.messages import inbox, messages
from gatepost.store.messages.inbox import NewTaskRow, WaitingLoad
from gatepost.store.messages.messages import NewPrompt
from gatepost.store.port import Db
from gatepost.store.rooms import origins
from gatepost.store.rooms.origins import OriginChain
from gatepost.store.schedule.tasks import Task, TaskContext
from gatepost.store.sessions import agents, sessions, timeline
from gatepost.store.sessions.sessions import SessionMode
from gatepost.store.sessions.timeline import TimelineKind

_ISOLATED = TaskContext.ISOLATED  # in Python 3.11 it takes as long as a call to find a member
MOST_WAITING, LARGEST_WAITING = 200, 4_000_000  # firings, and their characters, that wait in one conversation


class QueuedPrompt(Struct, kw_only=True):
    """The outcome of a prompt, filled in while it is written. `name`: of its message, which no other bears. `why`:
    nobody could be given it, for this reason."""

    time: JudgedTime
    name: str
    message_id: int | None = None
    session_id: str = ""
    why: str = ""


def queue_prompts(db: Db, due: Sequence[JudgedTime], facts: FiringFacts, now: int) -> list[QueuedPrompt]:
    """In the order in which they are given."""
    placed = _check_loads(db, [_find_session(db, each, facts, now) for each in due])
    accepted = messages.accept_prompts(db, [_make_message(each, facts, now) for each in placed if not each.why], now)
    fresh = [each.time.task for each in placed if each.name in accepted and not each.session_id]
    made = iter(sessions.add_isolated(db, [_room(each) for each in fresh], now))
    lasting = {each.session_id for each in placed if each.session_id}
    for each in placed:
        if not each.why:
            _set_numbers(each, accepted.get(each.name), made)
    _enqueue(db, [each for each in placed if not each.why], lasting, facts, now)
    return placed


def _set_numbers(placed: QueuedPrompt, message_id: int | None, made: Iterator[str]) -> None:
    """Its message, and a fresh conversation if it has none."""
    if message_id is None:
        placed.session_id, placed.why = "", "it was given to its agent before"
        return
    placed.message_id = message_id
    placed.session_id = placed.session_id or next(made)


def _find_session(db: Db, due: JudgedTime, facts: FiringFacts, now: int) -> QueuedPrompt:
    """The conversation of the room, or '' for a fresh one. A managed agent is its own conversation."""
    task, name = due.task, f"task/{due.task.id}/{due.due_at}"
    there = facts.places[task.id].session_id
    if task.instance == agents.INSTANCE:
        return QueuedPrompt(time=due, name=name, session_id=there, why="" if there else "its agent was ended")
    if task.context is _ISOLATED:
        return QueuedPrompt(time=due, name=name)
    there = there or sessions.find_or_add(db, SessionMode.PER_THREAD, *_room(task), now).id
    return QueuedPrompt(time=due, name=name, session_id=there)


def _check_loads(db: Db, placed: Sequence[QueuedPrompt]) -> list[QueuedPrompt]:
    """Those that do not fit into what waits in their session say so."""
    there = sorted({each.session_id for each in placed if each.session_id})
    if not there:
        return list(placed)
    loads = inbox.count_waiting_tasks(db, there)
    checked: list[QueuedPrompt] = []
    for each in placed:
        load, more = loads.get(each.session_id, WaitingLoad()), len(each.time.task.prompt)
        if each.session_id and not each.why and (why := check_load(load, more)):
            checked.append(QueuedPrompt(time=each.time, name=each.name, why=why))
            continue
        if each.session_id:
            loads[each.session_id] = WaitingLoad(load.rows + 1, load.chars + more)
        checked.append(each)
    return checked


def check_load(load: WaitingLoad, more: int) -> str:
    """Why a further prompt of so many characters does not fit; '' if it does."""
    if load.rows >= MOST_WAITING:
        return f"{MOST_WAITING} such messages wait there or are worked on, which is the most"
    if load.chars + more > LARGEST_WAITING:
        return f"such messages that wait there or are worked on may have {LARGEST_WAITING} characters together at most"
    return ""


def _enqueue(db: Db, queued: Sequence[QueuedPrompt], lasting: Set[str], facts: FiringFacts, now: int) -> None:
    """`lasting`: sessions that were there before, whose numbers go on."""
    if not queued:
        return
    wanted = Counter([each.session_id for each in queued if each.session_id in lasting]) if lasting else {}
    seqs = sessions.claim_seqs(db, wanted, now) if wanted else {}
    rows: list[NewTaskRow] = []
    behind: list[tuple[int, OriginChain]] = []
    for each in queued:
        assert each.message_id is not None
        task, folder, seq = each.time.task, facts.places[each.time.task.id].folder, seqs.get(each.session_id, 1)
        seqs[each.session_id] = seq + 1
        rows.append(NewTaskRow(each.message_id, each.session_id, folder, seq))
        if people := facts.behind[task.id]:
            behind.append((each.message_id, OriginChain(tuple(people), task.depth)))
    if behind:
        origins.put_all(db, behind)
    inbox.enqueue_tasks(db, rows, now)
    for each in queued:
        if each.time.task.instance == agents.INSTANCE:
            agents.set_prompted(db, each.session_id, now)
            timeline.add(db, each.session_id, "", TimelineKind.USER_MESSAGE, {"text": each.time.task.prompt}, now)


def _room(task: Task) -> tuple[str, str, str, str]:
    return task.folder, task.instance, task.address, task.thread


def _make_message(placed: QueuedPrompt, facts: FiringFacts, now: int) -> NewPrompt:
    task, due_at = placed.time.task, placed.time.due_at
    late = render_late(task, due_at, now)
    content: dict[str, Any] = {"prompt": f"{task.prompt}\n{late}" if late else task.prompt, "task": task.id}
    if task.script:
        content["script"] = task.script
    return NewPrompt(
        instance=task.instance,
        address=task.address,
        thread=task.thread,
        platform_id=placed.name,
        sender=f"task:{task.id}",
        text=task.prompt,
        content=msgspec.json.encode(content).decode(),
        folder=facts.places[task.id].folder,
        at=due_at,
    )
