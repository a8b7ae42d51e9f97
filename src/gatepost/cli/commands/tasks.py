"""`gatepost task`: scheduled work of agents."""

from collections.abc import Mapping
from typing import Any
from zoneinfo import ZoneInfo

import click

from gatepost.cli import output
from gatepost.cli.given_files import read_text
from gatepost.cli.operation_command import CommandRun, from_operation
from gatepost.core.errors import Invalid
from gatepost.core.home import Home
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
    render_run_costs,
)
from gatepost.store.schedule.tasks import TaskState

LARGEST_SCRIPT = 65_536 * 4  # bytes of a file that is read; the gateway counts its characters


@click.group()
def task_command() -> None:
    """Scheduled work of agents: reminders, regular reports, checks. All but `run` work with the gateway up or down.

    \b
        gatepost task add home --text "Take the bread out." --at +20m
        gatepost task add home --prompt "Sum up my mails." --when "every weekday at 8"
        gatepost task preview "every 1st of the month at 8"
        gatepost task next
    """


def _read_script(home: Home, args: dict[str, Any]) -> dict[str, Any]:
    """The operation takes what is in the file."""
    if not args["script"]:
        return args
    script = read_text("--script", args["script"], LARGEST_SCRIPT)
    if not script.strip():
        raise Invalid("--script", f"{args['script']} is empty")
    return {**args, "script": script}


@task_command.command()
@from_operation(AddTaskArgs, prepare=_read_script)
def add(run: CommandRun, made: AddedTask) -> None:
    if not made.created:
        output.print_line(f"there is this task already: {made.id}, next at {_render_next(made)}")
        return
    output.print_line(f"{made.id}: {made.folder} in {made.address}, next at {_render_next(made)}")


@task_command.command("set")
@from_operation(SetTaskArgs, prepare=_read_script)
def set_task(run: CommandRun, task: TaskView) -> None:
    if task.state == TaskState.ACTIVE:
        output.print_line(f"{task.id}: {task.folder} in {task.address}, next at {_render_next(task)}")
    else:
        resumes = f"`gatepost task resume {task.id}` lets it run again"
        output.print_line(f"{task.id} is changed, and {task.state} ({task.reason}); {resumes}")
    if costs := render_run_costs(task.last_runs):
        output.print_line(f"it cost {costs}")


@task_command.command("list")
@from_operation(ListTasksArgs)
def list_tasks(run: CommandRun, found: list[TaskView]) -> None:
    output.print_records(
        TaskView,
        found,
        {"title": _get_words, "next_at": _render_next},
        empty="there are no tasks; `gatepost task add` makes one",
        gives=("what",),
    )


@task_command.command()
@from_operation(ShowTaskArgs)
def show(run: CommandRun, task: TaskDetails) -> None:
    output.print_details(TaskView, task, DETAILS, width=8, sparse=True)
    output.print_line()
    output.print_records(
        TaskLogEntry,
        task.log,
        {"state": _render_outcome, "duration_ms": _render_duration},
        empty=_render_no_run(task),
        gives=("why",),
        zone=(ZoneInfo(task.zone), task.zone),
    )


def _render_no_run(task: TaskView) -> str:
    if task.state == TaskState.ACTIVE:
        return f"it has not run yet; `gatepost task run {task.id}` runs it now"
    return "it has not run"


def _render_ends(task: TaskView) -> str:
    ends = [f"after {task.max_runs} runs"] if task.max_runs else []
    ends += [f"at {_format_in_zone(task.expires_at, task.zone)} {task.zone}"] if task.expires_at else []
    return ", or ".join(ends)


def _render_outcome(run: TaskLogEntry) -> str:
    return f"{run.state} {run.times} times" if run.times > 1 else run.state


def _render_duration(run: TaskLogEntry) -> str | None:
    return None if run.duration_ms is None else output.format_duration(run.duration_ms / 1000)


@task_command.command("next")
@from_operation(NextFiringsArgs)
def list_next(run: CommandRun, coming: list[ComingFiring]) -> None:
    own = {"due_at": lambda each: _shorten(each.local)}
    output.print_records(ComingFiring, coming, own, empty=_render_nothing(run.args["id"]), gives=("what",))


def _render_nothing(task_id: str) -> str:
    if task_id:
        return f"{task_id} has no time to come; `gatepost task show {task_id}` says why"
    return "nothing is scheduled; `gatepost task add` makes a task, `gatepost task list` shows those that are paused"


@task_command.command()
@from_operation(PreviewTaskArgs)
def preview(run: CommandRun, found: SchedulePreview) -> None:
    output.print_line(f"{found.words} ({found.zone}), exactly: {found.exact}")
    for moment in found.coming:
        output.print_line(_shorten(moment))


@task_command.command()
@from_operation(PauseTaskArgs)
def pause(run: CommandRun, task: TaskView) -> None:
    output.print_line(f"{task.id} is {task.state}; `gatepost task resume {task.id}` lets it run again")


@task_command.command()
@from_operation(ResumeTaskArgs)
def resume(run: CommandRun, task: TaskView) -> None:
    output.print_line(f"{task.id} is {task.state}, next at {_render_next(task)}")


@task_command.command("run")
@from_operation(RunTaskArgs)
def run_now(run: CommandRun, fired: RunningTask) -> None:
    output.print_line(f"{fired.id} runs; `gatepost task show {fired.id}` tells what becomes of it")


@task_command.command()
@from_operation(CancelTaskArgs)
def cancel(run: CommandRun, task: TaskView) -> None:
    output.print_line(f"{task.id} is {task.state}")


def _render_next(task: TaskView) -> str:
    coming = task.next_local if task.state == TaskState.ACTIVE else None
    return f"{_shorten(coming)} {task.zone}" if coming else "-"


def _shorten(moment: str) -> str:
    """In its own zone, to the second."""
    return moment[:19].replace("T", " ")


def _format_in_zone(moment: int | None, zone: str) -> str:
    """Every time of a task is in its own zone: beside the due time, another zone looks like a delay of hours."""
    return output.format_time(moment, ZoneInfo(zone))


def _get_words(task: TaskView) -> str:
    return task.title or task.prompt or task.text


DETAILS: Mapping[str, output.Show] = {
    "title": lambda task: task.title,
    "state": lambda task: f"{task.state} ({task.reason})" if task.reason else task.state,
    "reason": lambda task: "",  # beside the state
    "address": lambda task: f"{task.address} #{task.thread}" if task.thread else task.address,
    "next_at": _render_next,
    "expires_at": _render_ends,
    "runs": lambda task: f"{task.runs}" + (f", the last {task.failures} failed" if task.failures else ""),
    "created_at": lambda task: f"{_format_in_zone(task.created_at, task.zone)} {task.zone}",
    "context": lambda task: task.context if task.prompt else "",
}
