"""Tasks: a prompt or a text at a time, once or again and again."""

from typing import TYPE_CHECKING, Annotated

from msgspec import Struct

from gatepost.core.money import render_usd
from gatepost.core.record_changes import make_optional
from gatepost.core.record_fields import ShownAs, argument, option, shown
from gatepost.serve.control.declaration import OperationArgs, declares
from gatepost.store.schedule.firings import FiringState, RunCosts
from gatepost.store.schedule.tasks import Task, TaskFields

READ, WRITE = "tasks.read", "tasks.write"
WHEN = option(
    "When, in words: once, or again and again.",
    metavar="WORDS",
    examples=(
        "every weekday at 9:00",
        "tomorrow at 18:00",
        "in two hours",
        "every 1st of the month at 8:00",
        "every 30 minutes",
    ),
)
TaskId = Annotated[str, argument("The task's id, as `task list` shows it.", "task")]


def render_run_costs(costs: RunCosts) -> str:
    """Return the cost of the last runs in words; '' if there are none."""
    if not costs.runs:
        return ""
    estimated = f", {render_usd(costs.estimated)} of it estimated" if costs.estimated else ""
    runs = "run" if costs.runs == 1 else f"{costs.runs} runs"
    return f"{render_usd(costs.micro)} (the last {runs}{estimated})"


def render_milliseconds(duration: int | None) -> str:
    return "" if duration is None else f"{duration / 1000:.1f} s"


class TaskView(Task, frozen=True, kw_only=True):
    """A task. `next_local`: its next time in its own zone."""

    last_runs: Annotated[RunCosts, shown("Cost", head="cost", render=render_run_costs)]
    next_local: str | None


class AddedTask(TaskView, frozen=True, kw_only=True):
    """`created`: no, if the same task was active before."""

    created: bool


class TaskLogEntry(Struct, frozen=True, kw_only=True):
    """One run. `times`: how many due times a skipped one stands for. `cost`: in millionths of the currency.
    `delivery`: what became of a text."""

    due_at: Annotated[int, shown("Due", ShownAs.MOMENT, head="due")]
    due_local: str
    fired_at: Annotated[int, shown("Ran", ShownAs.MOMENT, head="ran")]
    state: Annotated[FiringState, shown("Outcome", ShownAs.BADGE, head="outcome")]
    delivery: Annotated[str, shown("Delivery")]
    duration_ms: Annotated[int | None, shown("Took", head="took", render=render_milliseconds)]
    cost: Annotated[int, shown("Cost", ShownAs.MONEY)]
    reason: Annotated[str, shown("Why", head="why")]
    times: int
    turn_id: str


class TaskDetails(TaskView, frozen=True, kw_only=True):
    log: list[TaskLogEntry]


class ComingFiring(Struct, frozen=True, kw_only=True):
    """A time that is to come, and in the zone of its task."""

    due_at: Annotated[int, shown("In", ShownAs.MOMENT, head="at")]
    local: str
    zone: Annotated[str, shown("Zone")]
    id: Annotated[str, shown("Id", ShownAs.ID, head="task")]
    folder: Annotated[str, shown("Group", head="group")]
    what: Annotated[str, shown("Task")]


class RunningTask(Struct, frozen=True, kw_only=True):
    id: str
    fired: int


@declares("task.add", right=WRITE)
class AddTaskArgs(TaskFields, OperationArgs[AddedTask], frozen=True, kw_only=True):
    """Have the agent of FOLDER do something at a time (--prompt), or deliver a text then (--text), which wakes nobody.

    Say when with --when, in words, or exactly with one of --at, --cron and --every.
    """

    folder: Annotated[str, argument("The group whose task it is.", scope=True, examples=("acme/eng",))]
    when: Annotated[str, WHEN] = ""
    at: Annotated[
        str,
        option("Once, at this time.", metavar="TIME", examples=("+20m", "tomorrow 9:00", "2027-01-31T09:00:00+01:00")),
    ] = ""
    cron: Annotated[
        str,
        option("Five fields: minute, hour, day, month, weekday.", metavar="FIELDS", examples=("0 9 * * 1-5", "@daily")),
    ] = ""
    every: Annotated[str, option("Again and again, so far apart.", metavar="DURATION", examples=("2h30m",))] = ""
    room: Annotated[
        str,
        option("The room that it runs and speaks in (default: the group's only one).", metavar="ADDRESS"),
    ] = ""
    agent: Annotated[str, option("Wake this managed agent of the group (id or title).", metavar="AGENT")] = ""
    tz: Annotated[str, option("Its time zone (default: the setting timezone).", examples=("Europe/Berlin",))] = ""
    max_runs: Annotated[int, option("End it after so many runs.", least=1, most=1_000_000, unset=0)] = 0
    max_cost: Annotated[str, option("The most that one run may cost.", metavar="USD", examples=("0.50",))] = ""
    until: Annotated[str, option("End it at this time, written as for --at.", metavar="TIME")] = ""


if TYPE_CHECKING:
    GivenTaskFields = TaskFields
else:
    GivenTaskFields = make_optional(
        TaskFields,
        missed=option("The policy for times that were missed because the gateway was down."),
        context=option("The room's conversation, or a fresh one for each run."),
        script=option(
            "Shell commands that run in the sandbox before the prompt.",
            cli="A file of shell commands that run in the sandbox before the prompt.",
            metavar="FILE",
            secret=True,
        ),
    )


@declares("task.set", right=WRITE)
class SetTaskArgs(GivenTaskFields, OperationArgs[TaskView], frozen=True, kw_only=True):
    """Change what a task does, when, or where. Options that are left out change nothing.

    Another schedule counts from now. A prompt takes the place of a text, and the other way round. --max-runs 0 and an
    empty --until, --title or --script take these away.
    """

    id: TaskId
    when: Annotated[str | None, WHEN] = None
    at: Annotated[str | None, option("Once, at this time.", metavar="TIME", examples=("+20m", "tomorrow 9:00"))] = None
    cron: Annotated[str | None, option("Five fields, or @daily and the like.", metavar="FIELDS")] = None
    every: Annotated[str | None, option("Again and again, so far apart.", metavar="DURATION")] = None
    room: Annotated[str | None, option("The room that it runs and speaks in.", metavar="ADDRESS")] = None
    tz: Annotated[str | None, option("Its time zone.", examples=("Europe/Berlin",))] = None
    max_runs: Annotated[int | None, option("End it after so many runs, those before included; 0: never.")] = None
    max_cost: Annotated[
        str | None,
        option(
            "The most that one run may cost; `none` takes the limit away.", metavar="USD", examples=("0.50", "none")
        ),
    ] = None
    until: Annotated[str | None, option("End it at this time, written as for --at.", metavar="TIME")] = None


@declares("task.list", right=READ, reads=True)
class ListTasksArgs(OperationArgs[list[TaskView]], frozen=True):
    """Tasks of FOLDER and the groups below it, or of all groups; active and paused ones."""

    folder: Annotated[str, argument("Only of this group and those below it.", scope=True)] = ""
    all: Annotated[bool, option("Those that are over, too.")] = False
    after: Annotated[str, option("Only those behind this id.", metavar="ID")] = ""
    limit: Annotated[int, option("At most so many.", least=1, most=1000)] = 200


@declares("task.show", right=READ, reads=True)
class ShowTaskArgs(OperationArgs[TaskDetails], frozen=True):
    """One task and its runs, the newest first: when it was due, when it ran, the outcome, its length and cost."""

    id: TaskId
    runs: Annotated[int, option("At most so many runs.", least=1, most=500)] = 20


@declares("task.next", right=READ, reads=True)
class NextFiringsArgs(OperationArgs[list[ComingFiring]], frozen=True):
    """The coming times of one task, or of all, in the time zone of each."""

    id: Annotated[str, argument("Only of this task.", "task")] = ""
    limit: Annotated[int, option("At most so many.", least=1, most=500)] = 50


class SchedulePreview(Struct, frozen=True, kw_only=True):
    """A schedule as it was understood. `text`: all of it in a sentence."""

    words: str
    exact: str
    zone: str
    coming: list[str]
    text: str


@declares("task.preview", right=READ)
class PreviewTaskArgs(OperationArgs[SchedulePreview], frozen=True, kw_only=True):
    """Say what is understood of a time or schedule, and when it would be next. Nothing is made.

    Say when with WORDS, or exactly with one of --at, --cron and --every.
    """

    when: Annotated[str, argument("When, in words.", "words", examples=("every weekday at 9:00",))] = ""
    folder: Annotated[str, option("The group whose task it would be.", scope=True, metavar="FOLDER")] = ""
    id: Annotated[str, option("As a change of this task, in its time zone.", "task", metavar="TASK")] = ""
    at: Annotated[str, option("Once, at this time.", metavar="TIME")] = ""
    cron: Annotated[str, option("Five fields.", metavar="FIELDS")] = ""
    every: Annotated[str, option("Again and again, so far apart.", metavar="DURATION")] = ""
    tz: Annotated[
        str, option("Its time zone (default: the task's, or the setting timezone).", examples=("Europe/Berlin",))
    ] = ""


@declares("task.pause", right=WRITE)
class PauseTaskArgs(OperationArgs[TaskView], frozen=True):
    """Hold a task: it does not run until it is resumed. A run that has begun goes on."""

    id: TaskId


@declares("task.resume", right=WRITE)
class ResumeTaskArgs(OperationArgs[TaskView], frozen=True):
    """Let a paused task run again, from its next time on."""

    id: TaskId


@declares("task.run", right=WRITE, offline=False)
class RunTaskArgs(OperationArgs[RunningTask], frozen=True):
    """Run a task now, besides its schedule. Needs a running gateway."""

    id: TaskId


@declares("task.cancel", right=WRITE)
class CancelTaskArgs(OperationArgs[TaskView], frozen=True):
    """End a task for good. Runs that wait are withdrawn; one that has begun goes on."""

    id: TaskId
