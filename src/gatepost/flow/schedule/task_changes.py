"""Changes of tasks: pure checks, then one transaction each. Tools and operations call the same functions; whoever calls
has judged the right to the group, and rings `events.tasks` after the commit."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from gatepost.core.clock import to_microseconds
from gatepost.core.errors import Invalid, NotFound
from gatepost.core.record_changes import get_given, make_change
from gatepost.core.records import extend
from gatepost.core.settings import Config, setting
from gatepost.flow.delivery.outgoing_messages import ChannelInstances
from gatepost.flow.requests import ask_approver
from gatepost.flow.requests.ask_approver import AskingRules
from gatepost.flow.schedule import TIMEZONE
from gatepost.flow.schedule.firing import FiredRooms, fire_times, has_way, schedule_of
from gatepost.flow.schedule.held_texts import HeldText, hold_text, withdraw_text
from gatepost.flow.schedule.task_rights import judge_tasks
from gatepost.flow.schedule.times import Schedule, check_interval, list_due, parse_moment, parse_schedule, parse_zone
from gatepost.messages.text import clean
from gatepost.store.messages import inbox
from gatepost.store.messages.inbox import InboxState
from gatepost.store.port import Db, LockKind
from gatepost.store.rooms import origins
from gatepost.store.rooms.origins import Origin, OriginChain
from gatepost.store.schedule import firings, scheduled_texts, tasks
from gatepost.store.schedule.tasks import NewTask, ScheduleKind, Task, TaskFields, TaskState

LEAST_INTERVAL_S = setting(
    "schedule.least_interval_s", 60.0, help="Tasks whose times lie closer together than this are refused."
)
MOST_TASKS = setting("schedule.most_tasks", 100, help="How many tasks a group may have, active and paused ones.")
MOST_LATE = setting(
    "schedule.most_late",
    100,
    help="How many times a task with missed=all runs late at most, and how many of its runs may wait.",
)
LONGEST_PROMPT, LONGEST_SCRIPT, LONGEST_TITLE = 100_000, 65_536, 100
LIVE = (TaskState.ACTIVE, TaskState.PAUSED)
F = TypeVar("F", bound=TaskFields)


class TaskRules(Struct, frozen=True, kw_only=True):
    """The operator's settings for tasks. `least`: microseconds between two times of a task. `asking`: how people are
    asked about a text that is held."""

    zone: str
    least: int
    most_tasks: int
    most_late: int
    asking: AskingRules


def read_rules(config: Config) -> TaskRules:
    return TaskRules(
        zone=config[TIMEZONE],
        least=to_microseconds(config[LEAST_INTERVAL_S]),
        most_tasks=config[MOST_TASKS],
        most_late=max(1, config[MOST_LATE]),
        asking=ask_approver.read_rules(config),
    )


class TaskRequest(TaskFields, frozen=True, kw_only=True):
    """A task as somebody asks for it. `when`: any form that `parse_schedule` reads. `zone` '': the gateway's.
    `when_field`, `end_field`: what the caller calls these two, for errors."""

    folder: str
    instance: str
    address: str
    thread: str = ""
    when: str
    zone: str = ""
    max_runs: int | None = None
    max_cost: int | None = None
    expires_at: str = ""
    created_by: str
    when_field: str = "cron"
    end_field: str = "expiresAt"


def make_task(asked: TaskRequest, rules: TaskRules, now: int) -> NewTask:
    """Checked: what it does, and when. Pure."""
    checked = _check_fields(asked)
    zone = parse_zone(asked.zone or rules.zone)
    schedule, first = parse_schedule(asked.when, zone, now, asked.when_field)
    check_interval(schedule, first, rules.least, asked.when_field)
    return extend(
        NewTask,
        checked,
        TaskFields,
        folder=asked.folder,
        instance=asked.instance,
        address=asked.address,
        thread=asked.thread,
        kind=schedule.kind,
        schedule=schedule.text,
        every=schedule.every,
        zone=zone,
        next_at=first,
        max_runs=_check_runs(asked.max_runs),
        max_cost=asked.max_cost,
        expires_at=_parse_end(asked.expires_at, zone, first, now, asked.end_field),
        created_by=asked.created_by,
    )


def _check_fields(given: F) -> F:
    prompt, text, script = _check_words(given.prompt, given.text, given.script)
    return replace(given, prompt=prompt, text=text, script=script, title=_check_title(given.title))


def _check_title(said: str) -> str:
    title = " ".join(clean(said).split())
    if len(title) > LONGEST_TITLE:
        raise Invalid("title", f"has {len(title)} characters; the most is {LONGEST_TITLE}")
    return title


def _check_words(prompt: str, text: str, script: str) -> tuple[str, str, str]:
    prompt, text, script = clean(prompt), clean(text), clean(script)
    if bool(prompt.strip()) == bool(text.strip()):
        raise Invalid("prompt", "give either a prompt, which wakes the agent, or a text, which is delivered as it is")
    for field, words, most in (
        ("prompt", prompt, LONGEST_PROMPT),
        ("text", text, LONGEST_PROMPT),
        ("script", script, LONGEST_SCRIPT),
    ):
        if len(words) > most:
            raise Invalid(field, f"has {len(words)} characters; the most is {most}")
    if script.strip() and not prompt.strip():
        raise Invalid("script", "a script decides whether a prompt wakes the agent; a text wakes nobody")
    return (prompt if prompt.strip() else ""), (text if text.strip() else ""), (script if script.strip() else "")


def _check_runs(wanted: int | None, field: str = "maxRuns") -> int | None:
    if wanted is not None and not 1 <= wanted <= 1_000_000:
        raise Invalid(field, f"{wanted} is not between 1 and 1000000")
    return wanted


def _parse_end(said: str, zone: str, first: int, now: int, field: str = "expiresAt") -> int | None:
    if not said.strip():
        return None
    _, at = parse_moment(said, zone, now, field)
    if at < first:
        raise Invalid(field, f"{said[:64]!r} is before its first time, so it would never run")
    return at


def add_task(
    db: Db, new: NewTask, rules: TaskRules, now: int, behind: Sequence[Origin] = (), depth: int = 0
) -> tuple[Task, bool]:
    """The task, and whether it is new: the same one that is active is not made twice. `behind`: on whose behalf, of
    which the first pays; `depth`: how many steps from agent to agent lie behind it."""
    db.lock(LockKind.QUOTA, "tasks", new.folder)
    if (same := tasks.find_same(db, new)) is not None:
        return same, False
    if not has_way(db, new.folder, new.instance, new.address):
        raise NotFound("room", new.address, f"nobody has written to {new.folder} there yet")
    if tasks.count_live(db, new.folder) >= rules.most_tasks:
        why = f"{new.folder} has {rules.most_tasks} tasks, which is the most (schedule.most_tasks)"
        raise Invalid("folder", f"{why}; cancel some first")
    everybody = tuple(behind) or (Origin("", new.instance, new.address, new.thread),)
    return tasks.add(db, new, everybody, depth, now), True


def get_task(db: Db, task_id: str) -> Task:
    """One that was not cancelled."""
    found = tasks.get(db, task_id)
    if found is None or found.state is TaskState.CANCELLED:
        raise NotFound("task", task_id[:80], "list the tasks to see them")
    return found


if TYPE_CHECKING:
    TaskFieldsChange = TaskFields
else:
    TaskFieldsChange = make_change(TaskFields)


class TaskChange(TaskFieldsChange, frozen=True, kw_only=True):
    """The fields that are to be changed; the rest stays. None takes a limit away. `place`: another room, as instance,
    address and thread. The fields that end in `_field`: what the caller calls these, for errors."""

    when: str | UnsetType = UNSET
    zone: str | UnsetType = UNSET
    max_runs: int | UnsetType | None = UNSET
    max_cost: int | UnsetType | None = UNSET
    expires_at: str | UnsetType | None = UNSET
    place: tuple[str, str, str] | UnsetType = UNSET
    id_field: str = "taskId"
    runs_field: str = "maxRuns"
    when_field: str = "cron"
    end_field: str = "expiresAt"


def update_task(
    db: Db, task_id: str, change: TaskChange, rules: TaskRules, now: int, behind: OriginChain | None = None
) -> Task:
    """Change a task. Another schedule counts from now. A prompt takes the place of a text, and the other way round.
    `behind` names the people on whose behalf an agent changes it. From then on they stand behind it besides those for
    whom it was made. Otherwise others would pay for their words, and what they are denied would be done for others."""
    task = _get_live(db, task_id, change.id_field)
    changed = change_task(task, change, rules, now)
    tasks.replace(db, changed, now)
    if changed.spoken != task.spoken:  # what somebody agreed to is not said any more
        scheduled_texts.remove_agreed(db, task_id)
        withdraw_text(db, task, "its task was changed", now)
    if behind is not None:
        everybody = origins.merge(behind.origins, tasks.list_origins(db, task_id))
        if len(everybody) > origins.MOST:
            raise Invalid("taskId", f"more than {origins.MOST} people and rooms are behind it; schedule another task")
        tasks.set_origins(db, task_id, everybody, max(task.depth, behind.depth + 1))
    return changed


def change_task(task: Task, change: TaskChange, rules: TaskRules, now: int) -> Task:
    """Pure."""
    fields = _check_fields(_replace_fields(task, change))
    zone = task.zone if isinstance(change.zone, UnsetType) else parse_zone(change.zone or rules.zone)
    schedule, next_at = schedule_of(task), task.next_at
    if change.when is not UNSET or zone != task.zone:
        schedule, next_at = _change_times(task, change, zone, now)
        check_interval(schedule, next_at, rules.least, change.when_field)
    ends = task.expires_at
    if not isinstance(change.expires_at, UnsetType):
        ends = _parse_end(change.expires_at or "", zone, next_at or now, now, change.end_field)
    runs = task.max_runs if isinstance(change.max_runs, UnsetType) else _check_runs(change.max_runs, change.runs_field)
    if runs is not None and runs <= task.runs:
        raise Invalid(change.runs_field, f"it has run {task.runs} times already")
    instance, address, thread = (
        (task.instance, task.address, task.thread) if isinstance(change.place, UnsetType) else change.place
    )
    return replace(
        fields,
        instance=instance,
        address=address,
        thread=thread,
        kind=schedule.kind,
        schedule=schedule.text,
        every=schedule.every,
        zone=zone,
        next_at=next_at,
        max_runs=runs,
        max_cost=task.max_cost if isinstance(change.max_cost, UnsetType) else change.max_cost,
        expires_at=ends,
    )


def _replace_fields(task: Task, change: TaskChange) -> Task:
    """A prompt takes the place of a text, and the other way round. A text has no script."""
    given = {name: each for name, each in get_given(change).items() if name in TaskFields.__struct_fields__}
    if given.get("prompt"):
        given.setdefault("text", "")
    if given.get("text"):
        given.setdefault("prompt", "")
    if not given.get("prompt", task.prompt):
        given.setdefault("script", "")
    return replace(task, **given)


def _change_times(task: Task, change: TaskChange, zone: str, now: int) -> tuple[Schedule, int]:
    if isinstance(change.when, UnsetType) and task.kind is not ScheduleKind.CRON:
        return replace(schedule_of(task), zone=zone), task.next_at or now
    when = task.schedule if isinstance(change.when, UnsetType) else change.when
    return parse_schedule(when, zone, now, change.when_field)


def pause_task(db: Db, task_id: str, by: str, now: int, field: str = "taskId") -> Task:
    """`field`: what the caller calls the id, for errors; here and below."""
    task = _get_live(db, task_id, field)
    if task.state is TaskState.ACTIVE:
        tasks.set_state(db, task_id, TaskState.PAUSED, f"{tasks.BY}{by}", task.next_at, now)
    return get_task(db, task_id)


def resume_task(db: Db, task_id: str, now: int, field: str = "taskId") -> Task:
    """Its next time is one that lies ahead: what came while it was paused is not made up for."""
    task = _get_live(db, task_id, field)
    if task.state is TaskState.PAUSED:
        tasks.set_state(db, task_id, TaskState.ACTIVE, "", find_resumed_time(task, now, field), now)
    return get_task(db, task_id)


def find_resumed_time(task: Task, now: int, field: str = "taskId") -> int:
    """Pure."""
    coming = task.next_at
    if coming is not None and coming <= now:
        try:
            coming = list_due(schedule_of(task), coming, now, 1).next
        except (LookupError, ValueError, OSError) as error:
            way = "update its schedule or its time zone, then resume it"
            raise Invalid(field, f"the schedule of {task.id} cannot be read: {error}; {way}") from None
    if coming is None:
        way = "update it with a new one, then resume it, or make another task"
        raise Invalid(field, f"the time of {task.id} is over; {way}")
    return coming


def cancel_task(db: Db, task_id: str, by: str, now: int) -> Task:
    """It never runs again. A turn that works on it goes on; runs that wait for one are withdrawn."""
    task = get_task(db, task_id)
    tasks.set_state(db, task_id, TaskState.CANCELLED, f"cancelled by {by}", None, now)
    withdraw_text(db, task, "its task was cancelled", now)
    for message_id in firings.list_open_messages(db, task_id):
        for entry in inbox.list_for_message(db, message_id):
            if entry.state in (InboxState.QUEUED, InboxState.RETRY):
                inbox.set_state(db, entry.id, InboxState.CANCELLED, "its task was cancelled", None, now)
    return tasks.get(db, task_id) or task


def run_task(
    db: Db, channels: ChannelInstances, task_id: str, rules: TaskRules, now: int, field: str = "taskId"
) -> FiredRooms:
    """Now, besides its schedule, by the rights of those behind it. Invalid, if it cannot."""
    task = _get_live(db, task_id, field)
    judged = judge_tasks(db, [task])
    if why := judged.refused.get(task_id):
        raise Invalid(field, f"{task_id} did not run: {why}")
    if holds := judged.held.get(task_id):
        asked = hold_text(db, channels, task, (now,), HeldText(holds, rules.asking), now)
        fired = FiredRooms(rooms=asked.rooms, ran=asked.ran)
    else:
        fired = fire_times(db, channels, task, (now,), rules.most_late, now)
    if not fired.ran:
        last = firings.list_for_task(db, task_id, 1)
        raise Invalid(field, f"{task_id} did not run: {last[0].firing.reason if last else 'it runs already'}")
    return fired


def _get_live(db: Db, task_id: str, field: str) -> Task:
    task = get_task(db, task_id)
    if task.state not in LIVE:
        raise Invalid(field, f"{task_id} is over: {task.reason}; schedule another task")
    return task
