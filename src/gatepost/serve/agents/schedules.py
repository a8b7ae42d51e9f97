"""Tasks as tools of the management server: a prompt for an agent, or for a group's room, at a time."""

from typing import Annotated

from msgspec import Meta, Struct

from gatepost.access.subjects import Subject
from gatepost.access.tiers import Tier
from gatepost.core.clock import iso
from gatepost.core.errors import Invalid
from gatepost.core.registry import Registry
from gatepost.flow.schedule import task_changes
from gatepost.flow.schedule.task_changes import TaskRequest, read_rules
from gatepost.flow.schedule.task_rooms import TaskRoom, add_task_in, find_agent_room, find_task_room
from gatepost.flow.schedule.times import parse_spoken_time, parse_when, parse_zone
from gatepost.gate.tool_answers import fitting
from gatepost.messages.inbound import OPERATOR
from gatepost.serve.agents.service import AgentService
from gatepost.store.port import Db
from gatepost.store.schedule import firings, tasks
from gatepost.store.schedule.firings import FiringState, Run
from gatepost.store.schedule.tasks import MissedPolicy, Task, TaskState
from gatepost.store.sessions import agents
from gatepost.tools.call import ToolCall
from gatepost.tools.contract import Body, Tool, tool

MOST, LONGEST_LISTED = 200, 300  # schedules, characters of a prompt in a list
ScheduleId = Annotated[str, Meta(description="As list_schedules shows it.")]


class ScheduleView(Struct, frozen=True, rename="camel", kw_only=True):
    """A schedule as it stands. `agentId` is null if it is for a group's room."""

    id: str
    agent_id: str | None
    folder: str
    room: str
    title: str
    prompt: str
    text: str
    schedule: str
    timezone: str
    missed: MissedPolicy
    status: TaskState
    reason: str
    next_run_at: str | None
    runs: int
    failures: int
    max_runs: int | None
    expires_at: str | None


class CreateScheduleResult(Struct, frozen=True):
    """`created`: false, if the same schedule was active before."""

    schedule: ScheduleView
    created: bool


class ListSchedulesResult(Struct, frozen=True):
    """`more`: give the last id as `after` to see the next ones."""

    schedules: list[ScheduleView]
    more: bool


class ScheduleRun(Struct, frozen=True, rename="camel", kw_only=True):
    """`cost`: in millionths of the currency."""

    due_at: str
    ran_at: str
    status: FiringState
    reason: str
    duration_ms: int | None
    cost: int


class InspectScheduleResult(Struct, frozen=True):
    """`runs`: the newest first."""

    schedule: ScheduleView
    runs: list[ScheduleRun]


class ScheduleStateResult(Struct, frozen=True, rename="camel", kw_only=True):
    success: bool
    status: TaskState
    next_run_at: str | None


def add_schedule_tools(service: AgentService, made: Registry[Tool]) -> None:
    _add_making_tools(service, made)
    _add_reading_tools(made)
    _add_changing_tools(made)


def _add_making_tools(service: AgentService, made: Registry[Tool]) -> None:
    @tool(tier=Tier.ROOT, group="agents", registry=made, effects=(Subject.SCHEDULE,))
    async def create_schedule(
        call: ToolCall,
        prompt: Annotated[Body, Meta(description="The task for that time.")],
        cron: Annotated[str, Meta(description="Five fields, or @daily and the like.")] = "",
        every: Annotated[str, Meta(description="Again and again, so far apart: 2h30m.")] = "",
        at: Annotated[str, Meta(description="Once: RFC 3339, 'tomorrow 9:00', '+20m' or 'in 20 minutes'.")] = "",
        agentId: Annotated[str, Meta(description="The agent that does it: its id or title.")] = "",
        folder: Annotated[str, Meta(description="In place of an agent: the group that does it.")] = "",
        room: Annotated[str, Meta(description="The room of that group. Left out: its only one.")] = "",
        timezone: Annotated[str, Meta(description="Such as Europe/Berlin. Left out: the gateway's.")] = "",
        missed: Annotated[
            MissedPolicy, Meta(description="Times when the gateway was down: skip them, once (late), or all.")
        ] = MissedPolicy.ONCE,
        maxRuns: Annotated[int, Meta(description="End it after so many runs; 0: never.", ge=0, le=1_000_000)] = 0,
        expiresAt: Annotated[str, Meta(description="End it at this time, written as for `at`.")] = "",
        title: Annotated[str, Meta(description="Its title, in lists and notices.")] = "",
    ) -> CreateScheduleResult:
        """Give an agent (or a group) something to do at a time: say exactly one of cron, every and at.

        To give an agent work now use send_agent_prompt.
        """
        if bool(agentId) == bool(folder):
            raise Invalid("agentId", "say who does it: either an agent, or a group's folder")
        session = await service.find(agentId) if agentId else None
        rules, zone = read_rules(call.deps.config), parse_zone(timezone or read_rules(call.deps.config).zone)
        asked = TaskRequest(
            folder=session.folder if session is not None else folder,
            instance="",
            address="",
            prompt=prompt,
            when=parse_when(at, cron, every, zone, call.now),
            zone=zone,
            missed=missed,
            max_runs=maxRuns or None,
            expires_at=parse_spoken_time(expiresAt, zone, call.now, "expiresAt") if expiresAt.strip() else "",
            created_by=OPERATOR,
            title=title,
            when_field="every" if every.strip() else "cron",
        )
        new = task_changes.make_task(asked, rules, call.now)

        def find(db: Db) -> TaskRoom:
            if session is None:
                return find_task_room(db, folder, room)
            return find_agent_room(db, session.folder, agents.get(db, session.id) or session)

        task, created = await call.write(lambda db: add_task_in(db, find(db), new, rules, "", call.now))
        call.deps.events.tasks()
        return CreateScheduleResult(make_schedule_view(task), created)


def _add_reading_tools(made: Registry[Tool]) -> None:
    @tool(tier=Tier.ROOT, group="agents", registry=made, read_only=True, idempotent=True)
    async def list_schedules(
        call: ToolCall,
        includeEnded: Annotated[bool, Meta(description="Those that are over, too.")] = False,
        after: Annotated[str, Meta(description="Only those behind this id.")] = "",
        limit: Annotated[int, Meta(description="At most so many (1–200).")] = MOST,
    ) -> ListSchedulesResult:
        """List the schedules of all agents and groups, by id. For the runs of one use inspect_schedule."""
        most = min(max(limit, 1), MOST)
        found = await call.read(lambda db: tasks.list_page(db, None, after, most + 1, ended=includeEnded))
        shown, cut_off = fitting(make_schedule_view(each, LONGEST_LISTED) for each in found[:most])
        return ListSchedulesResult(shown, cut_off or len(found) > most)

    @tool(tier=Tier.ROOT, group="agents", registry=made, read_only=True, idempotent=True)
    async def inspect_schedule(
        call: ToolCall,
        id: ScheduleId,
        limit: Annotated[int, Meta(description="At most so many runs (1–200).")] = 50,
    ) -> InspectScheduleResult:
        """See one schedule and what became of its runs: outcome, reason, duration and cost."""

        def read(db: Db) -> tuple[Task, list[Run]]:
            return task_changes.get_task(db, id), firings.list_for_task(db, id, min(max(limit, 1), MOST))

        task, runs = await call.read(read)
        shown, _ = fitting(map(_make_run, runs))
        return InspectScheduleResult(make_schedule_view(task), shown)


def _add_changing_tools(made: Registry[Tool]) -> None:
    @tool(tier=Tier.ROOT, group="agents", registry=made, idempotent=True, effects=(Subject.SCHEDULE,))
    async def pause_schedule(call: ToolCall, id: ScheduleId) -> ScheduleStateResult:
        """Hold a schedule: it does not run until resume_schedule. A run that has begun goes on."""
        task = await call.write(lambda db: task_changes.pause_task(db, id, OPERATOR, call.now, "id"))
        return _finish(call, task)

    @tool(tier=Tier.ROOT, group="agents", registry=made, idempotent=True, effects=(Subject.SCHEDULE,))
    async def resume_schedule(call: ToolCall, id: ScheduleId) -> ScheduleStateResult:
        """Let a paused schedule run again, from its next time on."""
        task = await call.write(lambda db: task_changes.resume_task(db, id, call.now, "id"))
        return _finish(call, task)

    @tool(tier=Tier.ROOT, group="agents", registry=made, destructive=True, effects=(Subject.SCHEDULE, Subject.ERASE))
    async def delete_schedule(call: ToolCall, id: ScheduleId) -> ScheduleStateResult:
        """End a schedule for good. A run that has begun goes on. To hold it for a while use pause_schedule."""

        def end(db: Db) -> Task:
            before = task_changes.cancel_task(db, id, OPERATOR, call.now)
            return tasks.get(db, id) or before

        return _finish(call, await call.write(end))


def _finish(call: ToolCall, task: Task) -> ScheduleStateResult:
    call.deps.events.tasks()
    return ScheduleStateResult(success=True, status=task.state, next_run_at=iso(task.next_at, task.zone))


def make_schedule_view(task: Task, longest: int = 20_000) -> ScheduleView:
    own = task.instance == agents.INSTANCE
    return ScheduleView(
        id=task.id,
        agent_id=task.address.removeprefix(f"{agents.PLATFORM}:") if own else None,
        folder=task.folder,
        room=task.address,
        title=task.title,
        prompt=task.prompt[:longest],
        text=task.text[:longest],
        schedule=task.schedule,
        timezone=task.zone,
        missed=task.missed,
        status=task.state,
        reason=task.reason,
        next_run_at=iso(task.next_at, task.zone),
        runs=task.runs,
        failures=task.failures,
        max_runs=task.max_runs,
        expires_at=iso(task.expires_at, task.zone),
    )


def _make_run(run: Run) -> ScheduleRun:
    firing, began = run.firing, run.began_at
    took = None if began is None or firing.ended_at is None else (firing.ended_at - began) // 1000
    return ScheduleRun(
        due_at=iso(firing.due_at) or "",
        ran_at=iso(firing.fired_at) or "",
        status=firing.state,
        reason=firing.reason,
        duration_ms=took,
        cost=run.cost,
    )
