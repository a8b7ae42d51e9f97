"""Tasks: add, set, list, show, what comes next, pause, resume, run, cancel."""

import heapq
from collections.abc import Callable, Iterator, Sequence
from itertools import islice

from msgspec import UNSET, UnsetType

from gatepost.core.clock import iso
from gatepost.core.errors import Invalid, NotFound
from gatepost.core.money import parse_usd
from gatepost.core.records import extend, replace
from gatepost.flow.schedule import task_changes
from gatepost.flow.schedule.firing import FiredRooms, schedule_of
from gatepost.flow.schedule.task_changes import TaskChange, TaskRequest, TaskRules, read_rules
from gatepost.flow.schedule.task_rights import agree_to_holds
from gatepost.flow.schedule.task_rooms import TaskRoom, add_task_in, find_agent_room, find_new_place, find_task_room
from gatepost.flow.schedule.times import (
    check_interval,
    list_coming,
    next_after,
    parse_schedule,
    parse_spoken_time,
    parse_when,
    parse_zone,
    render_moment,
    render_schedule,
)
from gatepost.messages.inbound import OPERATOR, is_person
from gatepost.serve.control.arguments.tasks import (
    AddedTask,
    AddTaskArgs,
    CancelTaskArgs,
    ComingFiring,
    ListTasksArgs,
    NextFiringsArgs,
    PauseTaskArgs,
    PreviewTaskArgs,
    ResumeTaskArgs,
    RunningTask,
    RunTaskArgs,
    SchedulePreview,
    SetTaskArgs,
    ShowTaskArgs,
    TaskDetails,
    TaskLogEntry,
    TaskView,
)
from gatepost.serve.control.contract import OperationDeps, operation, read_operation
from gatepost.store.port import Db
from gatepost.store.rooms.origins import Origin, OriginChain
from gatepost.store.schedule import firings, tasks
from gatepost.store.schedule.firings import FiringState, Run, RunCosts
from gatepost.store.schedule.tasks import ScheduleKind, Task, TaskFields, TaskState
from gatepost.store.sessions import agents, groups

TIMES = ("when", "at", "cron", "every")
MOST_PREVIEWED = 3
NONE = "none"  # takes a limit away
EITHER_SILENT = "the agent, or the script before it, chose silence"  # the runner does not report which


def _list_views(db: Db, found: Sequence[Task]) -> list[TaskView]:
    costs = firings.list_costs(db, [each.id for each in found])
    return [
        extend(
            TaskView,
            each,
            next_local=iso(each.next_at, each.zone),
            last_runs=costs.get(each.id, RunCosts()),
        )
        for each in found
    ]


@operation
async def add(deps: OperationDeps, args: AddTaskArgs) -> AddedTask:
    rules, now = read_rules(deps.config), deps.clock.now()
    zone = parse_zone(args.tz or rules.zone, "tz")
    when = parse_when(args.at, args.cron, args.every, zone, now, args.when)
    until = parse_spoken_time(args.until, zone, now, "until") if args.until.strip() else ""
    if args.agent and (args.room or args.text):
        raise Invalid("agent", "a managed agent has a room of its own and is given a prompt")

    asked = extend(
        TaskRequest,
        args,
        TaskFields,
        folder=args.folder,
        instance="",  # and its address: by what the store knows, in the transaction
        address="",
        when=when,
        zone=zone,
        max_runs=args.max_runs or None,
        max_cost=_parse_cost(args.max_cost),
        expires_at=until,
        created_by=deps.caller,
        when_field=next((name for name in TIMES if getattr(args, name).strip()), "when"),
        end_field="until",
    )
    new = task_changes.make_task(asked, rules, now)
    person = _get_person(deps)

    def insert(db: Db) -> AddedTask:
        task, created = add_task_in(db, _find_room(db, args), new, rules, person, now)
        return extend(AddedTask, _list_views(db, [task])[0], created=created)

    made = await deps.write(insert)
    deps.events.tasks()
    return made


@operation
async def preview(deps: OperationDeps, args: PreviewTaskArgs) -> SchedulePreview:
    """A task's own checks of its times are among those that it makes: what is shown could be saved."""
    rules, now = read_rules(deps.config), deps.clock.now()
    own = rules.zone
    if args.id:
        task = await deps.store.read(_get, args.id)
        if args.folder and not f"{task.folder}/".startswith(f"{args.folder}/"):
            raise NotFound("task", args.id, "`gatepost task list` shows them")
        own = task.zone
    zone = parse_zone(args.tz or own, "tz")
    when = parse_when(args.at, args.cron, args.every, zone, now, args.when)
    field = next(name for name in TIMES if getattr(args, name).strip())
    schedule, first = parse_schedule(when, zone, now, field)
    check_interval(schedule, first, rules.least, field)
    coming = list_coming(schedule, first, MOST_PREVIEWED)
    words = render_schedule(schedule)
    shown = "; ".join(render_moment(at, zone) for at in coming)
    text = f"{words[:1].upper()}{words[1:]} ({zone}): {shown}" + ("." if schedule.kind is ScheduleKind.ONCE else "; …")
    return SchedulePreview(words=words, exact=when, zone=zone, coming=[iso(at, zone) or "" for at in coming], text=text)


def _get_person(deps: OperationDeps) -> str:
    """'': the operator."""
    return deps.caller if deps.caller != OPERATOR and is_person(deps.caller) else ""


@operation
async def set_task(deps: OperationDeps, args: SetTaskArgs) -> TaskView:
    rules, now, person = read_rules(deps.config), deps.clock.now(), _get_person(deps)
    change = _make_change(args, await deps.store.read(_get, args.id), rules, now)

    def update(db: Db) -> Task:
        task = _get(db, args.id)
        behind = OriginChain((Origin(person, task.instance, task.address, task.thread),)) if person else None
        place = UNSET if args.room is None else find_new_place(db, task, args.room, now)
        changed = task_changes.update_task(db, args.id, replace(change, place=place), rules, now, behind)
        if not person:
            agree_to_holds(db, changed)  # by the word of who could lift them
        return changed

    return await _change(deps, args.id, update)


def _make_change(args: SetTaskArgs, task: Task, rules: TaskRules, now: int) -> TaskChange:
    """Make the change of a task from the arguments. Fields that are not named stay. It is a pure function."""
    if args == SetTaskArgs(id=args.id):
        raise Invalid(
            "task", "say what to change: --prompt, --text, --when, --cron, --every, --at, --room, --title or another"
        )
    zone = parse_zone(args.tz or (rules.zone if args.tz is not None else task.zone), "tz")
    times = {each: getattr(args, each) for each in TIMES if getattr(args, each) is not None}
    when: str | UnsetType = UNSET
    if times:
        when = parse_when(args.at or "", args.cron or "", args.every or "", zone, now, args.when or "")
    until: str | UnsetType = UNSET
    if args.until is not None:
        until = parse_spoken_time(args.until, zone, now, "until") if args.until.strip() else ""
    values = ((name, getattr(args, name)) for name in TaskFields.__struct_fields__)
    return TaskChange(
        **{name: value for name, value in values if value is not None},
        when=when,
        zone=UNSET if args.tz is None else zone,
        max_runs=UNSET if args.max_runs is None else args.max_runs or None,
        max_cost=UNSET if args.max_cost is None else _parse_cost(args.max_cost),
        expires_at=until,
        id_field="task",
        runs_field="max_runs",
        when_field=next(iter(times), "tz"),
        end_field="until",
    )


def _parse_cost(said: str) -> int | None:
    """Return the limit of a run, in millionths of a USD; None if it has none of its own."""
    return None if said.strip().lower() in ("", NONE) else parse_usd(said, "max_cost")


def _find_room(db: Db, args: AddTaskArgs) -> TaskRoom:
    if not args.agent:
        return find_task_room(db, args.folder, args.room)
    return find_agent_room(db, args.folder, agents.find(db, args.agent))


@read_operation
def list_tasks(db: Db, args: ListTasksArgs, now: int) -> list[TaskView]:
    found = tasks.list_page(db, args.folder or None, args.after, args.limit, ended=args.all)
    if args.folder and not found and not _has_group(db, args.folder):
        raise NotFound("group", args.folder[:200], "`gatepost group list` shows them")
    return _list_views(db, found)


def _has_group(db: Db, folder: str) -> bool:
    """There, or below: a folder on the way to a group has no agent of its own."""
    return any(f"{each.folder}/".startswith(f"{folder}/") for each in groups.list_all(db))


@read_operation
def show(db: Db, args: ShowTaskArgs, now: int) -> TaskDetails:
    task = _get(db, args.id)
    runs = firings.list_for_task(db, args.id, args.runs)
    return extend(TaskDetails, _list_views(db, [task])[0], log=[_make_entry(task, each) for each in runs])


def _get(db: Db, task_id: str) -> Task:
    """Also one that is over."""
    found = tasks.get(db, task_id)
    if found is None:
        raise NotFound("task", task_id[:80], "`gatepost task list --all` shows them")
    return found


def _make_entry(task: Task, run: Run) -> TaskLogEntry:
    firing = run.firing
    took = None if run.began_at is None or firing.ended_at is None else (firing.ended_at - run.began_at) // 1000
    return TaskLogEntry(
        due_at=firing.due_at,
        due_local=iso(firing.due_at, task.zone) or "",
        fired_at=firing.fired_at,
        state=firing.state,
        reason=EITHER_SILENT if firing.state is FiringState.SILENT and task.script else firing.reason,
        times=firing.times,
        duration_ms=took,
        cost=run.cost,
        delivery=run.delivery,
        turn_id=firing.turn_id,
    )


@read_operation
def list_next(db: Db, args: NextFiringsArgs, now: int) -> list[ComingFiring]:
    """Those of paused tasks are none. Each schedule is walked through as far as it is shown."""
    of = [_get(db, args.id)] if args.id else tasks.list_coming(db, args.limit)
    coming = heapq.merge(*(_walk(task) for task in of if task.state is TaskState.ACTIVE), key=lambda each: each.due_at)
    return list(islice(coming, args.limit))


def _walk(task: Task) -> Iterator[ComingFiring]:
    """Until it ends. One whose schedule cannot be read any more has none."""
    at, number = task.next_at, task.runs
    what = " ".join((task.title or task.prompt or task.text)[:200].split())
    most = float("inf") if task.max_runs is None else task.max_runs  # it may have more runs, by hand
    while at is not None and number < most and (task.expires_at is None or at <= task.expires_at):
        local = iso(at, task.zone) or ""
        yield ComingFiring(due_at=at, local=local, zone=task.zone, id=task.id, folder=task.folder, what=what)
        at, number = _find_next(task, at), number + 1


def _find_next(task: Task, at: int) -> int | None:
    try:
        return next_after(schedule_of(task), at)
    except (LookupError, ValueError, OSError):
        return None


def _check_not_cancelled(db: Db, task_id: str) -> None:
    task = _get(db, task_id)
    if task.state is TaskState.CANCELLED:
        raise Invalid("task", f"{task.id} is over: {task.reason}; `gatepost task add` makes another")


async def _change(deps: OperationDeps, task_id: str, change: Callable[[Db], Task]) -> TaskView:
    def checked(db: Db) -> TaskView:
        _check_not_cancelled(db, task_id)
        return _list_views(db, [change(db)])[0]

    task = await deps.write(checked)
    deps.events.tasks()
    return task


@operation
async def pause(deps: OperationDeps, args: PauseTaskArgs) -> TaskView:
    now = deps.clock.now()
    return await _change(deps, args.id, lambda db: task_changes.pause_task(db, args.id, deps.caller, now, "task"))


@operation
async def resume(deps: OperationDeps, args: ResumeTaskArgs) -> TaskView:
    now = deps.clock.now()
    return await _change(deps, args.id, lambda db: task_changes.resume_task(db, args.id, now, "task"))


@operation
async def cancel(deps: OperationDeps, args: CancelTaskArgs) -> TaskView:
    now = deps.clock.now()

    def end(db: Db) -> Task:
        task_changes.cancel_task(db, args.id, deps.caller, now)
        return _get(db, args.id)

    return await _change(deps, args.id, end)


@operation
async def run_now(deps: OperationDeps, args: RunTaskArgs) -> RunningTask:
    rules, now, channels = read_rules(deps.config), deps.clock.now(), deps.extra["channel_instances"]

    def run(db: Db) -> FiredRooms:
        _check_not_cancelled(db, args.id)
        return task_changes.run_task(db, channels, args.id, rules, now, "task")

    fired = await deps.write(run)
    for session_id in fired.sessions:
        deps.events.session(session_id)
    for room in fired.rooms:
        deps.events.room(*room)
    return RunningTask(id=args.id, fired=fired.ran)
