"""Tasks: what agents do at a time, when next, and what became of it."""

from gatepost.flow.schedule.firing import schedule_of
from gatepost.flow.schedule.times import render_schedule
from gatepost.serve.control.arguments.tasks import (
    ComingFiring,
    ListTasksArgs,
    NextFiringsArgs,
    ShowTaskArgs,
    TaskLogEntry,
    TaskView,
)
from gatepost.serve.web.dashboard.contract import PageRequest, Section, page
from gatepost.serve.web.dashboard.tables import (
    code,
    get_tone,
    link,
    made,
    make_columns,
    make_facts,
    make_table,
    make_texts,
    shorten,
    text,
)
from gatepost.serve.web.dashboard.view import (
    Action,
    Badge,
    Cell,
    Code,
    EmptyState,
    Filter,
    PageView,
    Tone,
)
from gatepost.store.schedule.tasks import TaskState

PAGE, NEXT, RUNS = 200, 12, 100
NEW = Action(label="New task", operation="task.add", asks=True, tone=Tone.GOOD)
STATES = (("", "Active and paused"), ("all", "All, also those that are over"))
EMPTY = EmptyState(text="No agent has a task yet. A task is a prompt or a text at a time.", action=NEW)


def _name_task(task: TaskView) -> str:
    return shorten(task.title or task.prompt or task.text)


def _show_room(task: TaskView) -> Cell:
    return Code(shorten(f"{task.address} #{task.thread}" if task.thread else task.address))


def show_when(task: TaskView) -> Cell:
    return render_schedule(schedule_of(task), task.next_at)


def _show_runs(task: TaskView) -> Cell:
    most = f" of {task.max_runs}" if task.max_runs else ""
    failed = f", the last {task.failures} failed" if task.failures else ""
    return f"{task.runs}{most}{failed}"


def _show_outcome(run: TaskLogEntry) -> Cell:
    return Badge(f"{run.state} {run.times} times" if run.times > 1 else run.state, get_tone(run.state))


GROUP = link("folder", "Group", "/groups/{folder}")
TASK = make_columns(
    TaskView,
    {
        "title": link("what", "Task", "/tasks/{id}", by="id", shown=_name_task),
        "folder": GROUP,
        "schedule": made("schedule", "When", show_when),
    },
)
DETAILS = make_columns(
    TaskView,
    {
        "id": code("id", "Id"),
        "title": text("title", "Title"),
        "folder": GROUP,
        "schedule": made("schedule", "When", show_when),
        "address": made("address", "Room", _show_room),
        "runs": made("runs", "Runs", _show_runs),
        "context": made("context", "Context", lambda task: task.context if task.prompt else None),
    },
    details=True,
)
COMING = make_columns(
    ComingFiring,
    {
        "zone": made("local", "Local time", lambda row: f"{row.local[:16].replace('T', ' ')} {row.zone}"),
        "what": link("what", "Task", "/tasks/{id}", by="id"),
        "folder": GROUP,
    },
)
RUN = make_columns(TaskLogEntry, {"state": made("state", "Outcome", _show_outcome)})


@page("/tasks", "Tasks", Section.AGENTS, "task.list", order=20)
async def show_tasks(request: PageRequest) -> PageView:
    folder, state = request.query.get("folder", ""), request.query.get("state", "")
    after = request.query.get("after", "")
    found = await request.ask(ListTasksArgs(folder=folder, all=state == "all", after=after, limit=PAGE))
    more = f"?after={found[-1].id}" if len(found) == PAGE else ""
    blocks = [make_table(found, TASK, EMPTY, actions=list_actions, more=more)]
    if found and not folder and not after:
        coming = await request.ask(NextFiringsArgs(limit=NEXT))
        blocks.append(make_table(coming, COMING, EmptyState(text="Nothing is to come."), title="Coming"))
    states = Filter(name="state", label="Show", choices=STATES, chosen=state)
    return PageView(blocks=[*blocks], actions=(NEW,), filters=(states,))


def list_actions(task: TaskView) -> tuple[Action, ...]:
    given = {"id": task.id}
    end = Action(label="Cancel", operation="task.cancel", args=given, asks=True, tone=Tone.BAD)
    if task.state == TaskState.PAUSED:
        return (Action(label="Resume", operation="task.resume", args=given), end)
    if task.state == TaskState.ACTIVE:
        run = Action(label="Run now", operation="task.run", args=given)
        return (run, Action(label="Pause", operation="task.pause", args=given), end)
    return ()


@page("/tasks/{id}", "Task", Section.AGENTS, "task.show")
async def show_task(request: PageRequest) -> PageView:
    task = await request.ask(ShowTaskArgs(id=request.params["id"], runs=RUNS))
    return PageView(
        title=shorten(task.title or task.prompt or task.text, 60),
        actions=list_actions(task),
        blocks=[
            make_facts(task, DETAILS),
            *make_texts(TaskView, task),
            make_table(task.log, RUN, EmptyState(text="It has not run yet."), title="Runs"),
        ],
    )
