"""Tasks: what agents do at a time, when next, and what became of it."""

from typing import Any

from gatepost.serve.web.dashboard.contract import PageRequest, Section, page, render_path
from gatepost.serve.web.dashboard.view import (
    Action,
    Badge,
    Cell,
    Code,
    Column,
    EmptyState,
    Fact,
    Facts,
    Filter,
    Link,
    Moment,
    Money,
    PageView,
    Row,
    Table,
    Text,
    Tone,
)

PAGE = 200
NEXT = 12
TONES = {"active": Tone.GOOD, "paused": Tone.WARN}
RUN_TONES = {"answered": Tone.GOOD, "delivered": Tone.GOOD, "failed": Tone.BAD, "skipped": Tone.QUIET}
NEW = Action(label="New task", operation="task.add", asks=True, tone=Tone.GOOD)
STATES = (("", "Active and paused"), ("all", "All, also those that are over"))


@page("/tasks", "Tasks", Section.AGENTS, "task.list", order=30)
async def show_tasks(request: PageRequest) -> PageView:
    folder, state = request.query.get("folder", ""), request.query.get("state", "")
    after = request.query.get("after", "")
    found = await request.ask("task.list", folder=folder, all=state == "all", after=after, limit=PAGE)
    coming = await request.ask("task.next", limit=NEXT) if not folder and not after else []
    blocks = [_make_table(found)]
    if coming:
        blocks.append(_make_coming(coming))
    states = Filter(name="state", label="Show", choices=STATES, chosen=state)
    return PageView(blocks=[*blocks], actions=(NEW,), filters=(states,))


def _make_table(found: list[dict[str, Any]]) -> Table:
    return Table(
        columns=(
            Column("id", "Task"),
            Column("what", "What"),
            Column("folder", "Group"),
            Column("when", "When"),
            Column("next_at", "Next"),
            Column("state", "State"),
        ),
        rows=[_make_row(each) for each in found],
        empty=EmptyState(text="No agent has a task yet. A task is a prompt or a text at a time.", action=NEW),
        more=f"?after={found[-1]['id']}" if len(found) == PAGE else "",
    )


def _make_row(task: dict[str, Any]) -> Row:
    what = task["prompt"] or task["text"]
    return Row(
        cells=(
            Link(task["id"], render_path("/tasks/{id}", id=task["id"])),
            what[:120] + ("…" if len(what) > 120 else ""),
            task["folder"],
            Code(task["schedule"]),
            Moment(task["next_at"]),
            Badge(task["state"], TONES.get(task["state"], Tone.QUIET)),
        ),
        actions=list_actions(task),
    )


def list_actions(task: dict[str, Any]) -> tuple[Action, ...]:
    given = {"id": task["id"]}
    end = Action(label="Cancel", operation="task.cancel", args=given, asks=True, tone=Tone.BAD)
    if task["state"] == "paused":
        return (Action(label="Resume", operation="task.resume", args=given), end)
    if task["state"] == "active":
        run = Action(label="Run now", operation="task.run", args=given)
        return (run, Action(label="Pause", operation="task.pause", args=given), end)
    return ()


def _make_coming(coming: list[dict[str, Any]]) -> Table:
    return Table(
        title="Coming",
        columns=(Column("due_at", "In"), Column("local", "Local time"), Column("id", "Task"), Column("what", "What")),
        rows=[
            Row(
                cells=(
                    Moment(each["due_at"]),
                    f"{each['local'][:16].replace('T', ' ')} {each['zone']}",
                    Link(each["id"], render_path("/tasks/{id}", id=each["id"])),
                    each["what"][:120],
                )
            )
            for each in coming
        ],
        empty=EmptyState(text="Nothing is to come."),
    )


@page("/tasks/{id}", "Task", Section.AGENTS, "task.show")
async def show_task(request: PageRequest) -> PageView:
    task = await request.ask("task.show", id=request.params["id"], runs=100)
    facts: list[tuple[str, Cell]] = [
        ("State", Badge(task["state"], TONES.get(task["state"], Tone.QUIET))),
        ("Group", task["folder"]),
        ("Room", Code(task["address"])),
        ("When", Code(task["schedule"])),
        ("Zone", task["zone"]),
        ("Next", Moment(task["next_at"])),
        ("Missed times", task["missed"]),
        ("Made by", task["created_by"]),
    ]
    return PageView(
        title=f"Task {task['id']}",
        actions=list_actions(task),
        blocks=[
            Facts(items=[Fact(*each) for each in facts]),
            Text(title="Prompt" if task["prompt"] else "Text", text=task["prompt"] or task["text"]),
            _make_log(task["log"]),
        ],
    )


def _make_log(log: list[dict[str, Any]]) -> Table:
    return Table(
        title="Runs",
        columns=(
            Column("due_at", "Due"),
            Column("fired_at", "Ran"),
            Column("state", "Outcome"),
            Column("reason", "Why"),
            Column("duration_ms", "Took", right=True),
            Column("cost", "Cost", right=True),
        ),
        rows=[
            Row(
                cells=(
                    Moment(each["due_at"]),
                    Moment(each["fired_at"]),
                    Badge(each["state"], RUN_TONES.get(each["state"], Tone.PLAIN)),
                    each["reason"],
                    f"{each['duration_ms'] / 1000:.1f} s" if each["duration_ms"] is not None else None,
                    Money(each["cost"]),
                )
            )
            for each in log
        ],
        empty=EmptyState(text="It has not run yet."),
    )
