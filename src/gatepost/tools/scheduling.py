"""Tasks: a prompt or a text at a time, once or again and again. `flow/schedule` fires them."""

from collections.abc import Callable, Mapping
from typing import Annotated, Any, TypeVar

from msgspec import UNSET, Meta, Struct, UnsetType

from gatepost.access.subjects import Subject
from gatepost.access.tiers import ROOT_FOLDER, Tier, TreeScope, may_act_on
from gatepost.core.clock import iso
from gatepost.core.errors import Invalid, NotFound, Refused
from gatepost.core.records import extend, replace
from gatepost.flow.schedule import task_changes
from gatepost.flow.schedule.task_changes import TaskChange, TaskRequest
from gatepost.flow.schedule.task_rights import agree_to_holds
from gatepost.gate.tool_answers import fitting
from gatepost.store.port import Db
from gatepost.store.schedule import firings, scheduled_texts, tasks
from gatepost.store.schedule.firings import FiringState, Run
from gatepost.store.schedule.tasks import MissedPolicy, Task, TaskContext, TaskFields, TaskState
from gatepost.tools.call import ToolCall
from gatepost.tools.contract import Body, tool
from gatepost.tools.kit.outbox_effects import Room
from gatepost.tools.kit.record_parameters import with_fields_of

T = TypeVar("T")

MOST = 200
LONGEST_LISTED = 300  # characters of a prompt in a list
When = Annotated[
    str,
    Meta(description="Repeating: 'every weekday at 9', cron or 2h30m. Once: +20m, 'tomorrow 9:00' or RFC 3339."),
]
Zone = Annotated[str, Meta(description="Such as Europe/Berlin.")]
TaskId = Annotated[str, Meta(description="As list_tasks shows it.")]
Prompt = Annotated[Body, Meta(description="What you are asked to do then.")]
Text = Annotated[Body, Meta(description="Instead of a prompt, delivered as it is: for reminders.")]
Script = Annotated[
    Body,
    Meta(description='Shell commands to run first. Last line {"wakeAgent": false} ends the run; true adds `data`.'),
]
Context = Annotated[str, Meta(description="group, or isolated: a fresh conversation each run.")]
Missed = Annotated[MissedPolicy, Meta(description="Runs that were due while the gateway was down.")]
WORDS = {"prompt": Prompt, "text": Text, "script": Script, "context": Context, "missed": Missed}
Runs = Annotated[int, Meta(description="End after so many.", ge=0, le=1_000_000)]
Expires = Annotated[str, Meta(description="End then: RFC 3339, or 20m, 'in 20 days'.")]


class ScheduledTask(Struct, frozen=True):
    """`created`: False, if the same task was active before."""

    taskId: str
    nextRun: str
    created: bool


class TaskSummary(TaskFields, frozen=True, kw_only=True, rename={"context": "contextMode"}):
    """Longer words are cut; inspect_tasks shows them whole."""

    taskId: str
    folder: str
    targetJid: str
    topic: str
    cron: str
    timezone: str
    status: TaskState
    reason: str
    nextRun: str | None
    maxRuns: int | None
    expiresAt: str | None
    runs: int
    failures: int
    createdBy: str
    createdAt: str


class TaskList(Struct, frozen=True):
    """`more`: give the last `taskId` as `after` to see the next ones."""

    tasks: list[TaskSummary]
    count: int
    more: bool


class TaskRun(Struct, frozen=True, kw_only=True):
    """One run. `status`: queued, sent (a text), answered, silent, failed, skipped or cancelled. `times`: how many due
    times a skipped row stands for. `cost`: in millionths of the currency, as booked."""

    dueAt: str
    ranAt: str
    status: FiringState
    reason: str
    times: int
    turn: str
    durationMs: int | None
    cost: int
    delivery: str


class TaskInspection(Struct, frozen=True):
    """`runs`: the newest first, if one task was asked for."""

    tasks: list[TaskSummary]
    runs: list[TaskRun] | None = None
    more: bool = False


class TaskChanged(Struct, frozen=True):
    ok: bool
    taskId: str
    status: TaskState
    nextRun: str | None


def _sends(arguments: Mapping[str, Any]) -> str:
    """A text is said in the room, later."""
    return "send" if arguments.get("text") else ""


@tool(
    tier=Tier.WORKER,
    scoped_by="chatJid",
    former_names=("targetJid",),
    group="scheduling",
    core=True,
    effects=(Subject.SCHEDULE, Subject.SPEAK),
    acts_as=_sends,
)
@with_fields_of(TaskFields, WORDS)
async def schedule_task(
    call: ToolCall,
    fields: dict[str, Any],
    *,
    chatJid: Room = None,
    cron: When = "",
    timezone: Zone = "",
    maxRuns: Runs | None = None,
    expiresAt: Expires | None = None,
) -> ScheduledTask:
    """Run a prompt or deliver a text later, once or again and again: for reminders, regular reports and checks."""
    rules, place = task_changes.read_rules(call.deps.config), call.place
    folder = place.folder or call.caller.folder
    _check_owner(call, folder, place.address)
    asked = TaskRequest(
        **_read_fields(fields),
        folder=folder,
        instance=place.instance,
        address=place.address,
        thread=place.thread,
        when=cron,
        zone=timezone,
        max_runs=maxRuns,
        expires_at=expiresAt or "",
        created_by=f"agent:{call.caller.folder}",
    )
    new = task_changes.make_task(asked, rules, call.now)

    def add(db: Db) -> tuple[Task, bool]:
        chain = call.chain(db)
        task, created = task_changes.add_task(db, new, rules, call.now, chain.origins, chain.depth + 1)
        if task.created_by == new.created_by:
            agree_to_holds(db, task)  # whatever holds `send` there has held this call, and somebody let it through
        if created and call.approved is not None:
            scheduled_texts.add_allowing(db, task.id, call.approved.id)
        return task, created

    task, created = await call.write(add)
    call.deps.events.tasks()
    return ScheduledTask(task.id, iso(task.next_at, task.zone) or "", created)


def _given(value: T | None) -> T | UnsetType:
    return UNSET if value is None else value


def _read_fields(given: dict[str, Any]) -> dict[str, Any]:
    """Every context but `isolated` means the group's, as older callers expect."""
    if "context" not in given:
        return given
    isolated = given["context"] == TaskContext.ISOLATED
    return {**given, "context": TaskContext.ISOLATED if isolated else TaskContext.GROUP}


def _may_own(call: ToolCall, folder: str) -> bool:
    """Root: every group's tasks. A world: those within it. Every other agent: its own, in its own rooms."""
    tier, own = call.caller.tier, call.caller.folder
    if not call.allows(folder):
        return False
    return folder == own if tier in (Tier.AGENT, Tier.WORKER) else may_act_on(TreeScope.SUBTREE, own, folder)


def _check_owner(call: ToolCall, folder: str, target: str) -> None:
    if not _may_own(call, folder):
        raise Refused(call.caller.folder, call.tool, target, f"a task there would be {folder}'s")


async def _change(call: ToolCall, task_id: str, change: Callable[[Db], Task]) -> TaskChanged:
    """One that may be another's is as unknown as one that is not there."""

    def checked(db: Db) -> Task:
        found = task_changes.get_task(db, task_id)
        if not _may_own(call, found.folder):
            raise NotFound("task", task_id[:80], "list the tasks to see them")
        return change(db)

    task = await call.write(checked)
    call.deps.events.tasks()
    return TaskChanged(True, task.id, task.state, iso(task.next_at, task.zone))


async def _find_approval(call: ToolCall, arguments: Mapping[str, Any]) -> str:
    """Return why a person must agree, or '' if nobody must. A task that a person allowed is not changed without one."""
    task_id = str(arguments["taskId"])

    def find(db: Db) -> str:
        task = tasks.get(db, task_id)
        own = task is not None and _may_own(call, task.folder)
        by = scheduled_texts.find_allowing(db, task_id) if own else ""
        return f"the task was allowed as it is ({by})" if by else ""

    return await call.read(find)


@tool(
    tier=Tier.WORKER,
    group="scheduling",
    effects=(Subject.SCHEDULE, Subject.SPEAK),
    idempotent=True,
    holds_if=_find_approval,
)
@with_fields_of(TaskFields, WORDS, changes=True, without=("text",))
async def update_task(
    call: ToolCall,
    fields: dict[str, Any],
    *,
    taskId: TaskId,
    cron: When | None = None,
    timezone: Zone | None = None,
    maxRuns: Runs | None = None,
    expiresAt: Expires | None = None,
) -> TaskChanged:
    """Change what a scheduled task does, or when. Arguments left out change nothing; maxRuns 0, an empty expiresAt and
    an empty script take these away.

    Another schedule counts from now. A task that delivers a text is not changed: cancel it and schedule a new one.
    """
    rules = task_changes.read_rules(call.deps.config)
    change = TaskChange(
        **_read_fields(fields),
        when=_given(cron),
        zone=_given(timezone),
        max_runs=UNSET if maxRuns is None else maxRuns or None,
        expires_at=_given(expiresAt),
    )

    def update(db: Db) -> Task:
        if task_changes.get_task(db, taskId).text and not fields.get("prompt"):
            why = f"{taskId} delivers a text, which was agreed to for its times; cancel it and schedule another"
            raise Invalid("taskId", why)
        return task_changes.update_task(db, taskId, change, rules, call.now, call.chain(db))

    return await _change(call, taskId, update)


@tool(tier=Tier.WORKER, group="scheduling", effects=(Subject.SCHEDULE,), idempotent=True)
async def pause_task(call: ToolCall, taskId: TaskId) -> TaskChanged:
    """Hold a scheduled task: it does not run until resume_task. A run that has begun goes on."""
    by = f"agent:{call.caller.folder}"
    return await _change(call, taskId, lambda db: task_changes.pause_task(db, taskId, by, call.now))


@tool(tier=Tier.WORKER, group="scheduling", effects=(Subject.SCHEDULE,), idempotent=True)
async def resume_task(call: ToolCall, taskId: TaskId) -> TaskChanged:
    """Let a paused task run again, from its next time on. Runs missed meanwhile are not made up for.

    One that paused itself after five failed runs is resumed the same way. One that is over cannot be resumed.
    """

    def resume(db: Db) -> Task:
        task = task_changes.get_task(db, taskId)
        if task.reason.startswith(tasks.BY) and not task.reason.startswith(f"{tasks.BY}agent:"):
            raise Refused(call.caller.folder, call.tool, taskId, f"it was {task.reason}, who alone can resume it")
        return task_changes.resume_task(db, taskId, call.now)

    return await _change(call, taskId, resume)


@tool(tier=Tier.WORKER, group="scheduling", effects=(Subject.SCHEDULE, Subject.ERASE), destructive=True, core=True)
async def cancel_task(call: ToolCall, taskId: TaskId) -> TaskChanged:
    """End a scheduled task for good. pause_task holds it for a while."""
    by = f"agent:{call.caller.folder}"
    return await _change(call, taskId, lambda db: task_changes.cancel_task(db, taskId, by, call.now))


@tool(tier=Tier.WORKER, group="scheduling", read_only=True, idempotent=True, core=True)
async def list_tasks(
    call: ToolCall,
    after: Annotated[str, Meta(description="The taskId behind which to go on.")] = "",
    limit: Annotated[int, Meta(description="1–200.")] = MOST,
) -> TaskList:
    """See the scheduled tasks. inspect_tasks tells of their runs, update_task changes one."""
    found, more = await call.read(_list_visible, call, after, min(max(limit, 1), MOST))
    shown, cut_off = fitting(_render_task(each, LONGEST_LISTED) for each in found)
    return TaskList(shown, len(shown), more or cut_off)


def _list_visible(db: Db, call: ToolCall, after: str, most: int) -> tuple[list[Task], bool]:
    own = call.caller.folder
    page = tasks.list_page(db, None if own == ROOT_FOLDER else own, after, most + 1)
    return [each for each in page[:most] if _may_own(call, each.folder)], len(page) > most


@tool(tier=Tier.WORKER, group="scheduling", read_only=True, idempotent=True)
async def inspect_tasks(
    call: ToolCall,
    task_id: Annotated[str | None, Meta(description="One task, with its runs. Left out: all, without runs.")] = None,
    limit: Annotated[int, Meta(description="At most so many runs or tasks, the newest runs (1–200).")] = 50,
) -> TaskInspection:
    """See why a scheduled task did not run or what became of it: its runs with outcome, reason, duration and cost.

    For a plain list use list_tasks.
    """
    most = min(max(limit, 1), MOST)
    if task_id is None:
        found, more = await call.read(_list_visible, call, "", most)
        listed, cut_off = fitting(_render_task(each, LONGEST_LISTED) for each in found)
        return TaskInspection(listed, None, more or cut_off)

    def read(db: Db) -> tuple[Task, list[Run]]:
        task = task_changes.get_task(db, task_id)
        if not _may_own(call, task.folder):
            raise NotFound("task", task_id[:80], "list the tasks to see them")
        return task, firings.list_for_task(db, task_id, most + 1)

    task, runs = await call.read(read)
    shown, cut_off = fitting(_render_run(each) for each in runs[:most])
    return TaskInspection([_render_task(task)], shown, cut_off or len(runs) > most)


def _render_task(task: Task, longest: int = 20_000) -> TaskSummary:
    words = {name: _cut(getattr(task, name), longest) for name in ("prompt", "text", "script")}
    return extend(
        TaskSummary,
        replace(task, **words),
        TaskFields,
        taskId=task.id,
        folder=task.folder,
        targetJid=task.address,
        topic=task.thread,
        cron=task.schedule,
        timezone=task.zone,
        status=task.state,
        reason=task.reason,
        nextRun=iso(task.next_at, task.zone),
        maxRuns=task.max_runs,
        expiresAt=iso(task.expires_at, task.zone),
        runs=task.runs,
        failures=task.failures,
        createdBy=task.created_by,
        createdAt=iso(task.created_at) or "",
    )


def _cut(words: str, longest: int) -> str:
    return words if len(words) <= longest else f"{words[:longest]}… [{len(words)} characters]"


def _render_run(run: Run) -> TaskRun:
    firing = run.firing
    ended = firing.ended_at if run.began_at is not None else None
    return TaskRun(
        dueAt=iso(firing.due_at) or "",
        ranAt=iso(firing.fired_at) or "",
        status=firing.state,
        reason=firing.reason,
        times=firing.times,
        turn=firing.turn_id,
        durationMs=(ended - run.began_at) // 1000 if ended is not None and run.began_at is not None else None,
        cost=run.cost,
        delivery=run.delivery,
    )
