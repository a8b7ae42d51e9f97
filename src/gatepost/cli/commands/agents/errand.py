"""`gatepost errand`: work that agents gave to other agents."""

from typing import Any

import click

from gatepost.cli import output
from gatepost.cli.operation_command import CommandRun, from_operation
from gatepost.serve.control.arguments.agents.errands import ErrandDetails, ErrandView, ListErrandsArgs, ShowErrandArgs


@click.group()
def command() -> None:
    """Work that agents gave to other agents: list, show."""


@command.command("list")
@from_operation(ListErrandsArgs)
def list_errands(run: CommandRun, found: list[ErrandView]) -> None:
    output.print_table(
        ("errand", "asked by", "done by", "depth", "state", "cost", "age", "answer to"),
        [
            (
                each.id,
                each.caller_folder,
                each.folder,
                each.depth,
                each.state,
                _render_cost(each),
                output.format_duration(each.age_s),
                _render_place(each),
            )
            for each in found
        ],
        empty=_render_nothing(run.args),
        gives=("answer to",),
    )


@command.command()
@from_operation(ShowErrandArgs)
def show(run: CommandRun, errand: ErrandDetails) -> None:
    why = f" ({errand.reason})" if errand.reason else ""
    lines = {
        "errand": f"{errand.id}, {errand.state}{why}",
        "asked by": f"{errand.caller_folder} in session {errand.caller_session}",
        "done by": f"{errand.folder} in session {errand.session_id}",
        "for": ", ".join(errand.people),
        "depth": str(errand.depth),
        "above": ", ".join(errand.above),
        "below": ", ".join(errand.below),
        "given": output.format_time(errand.created_at),
        "took" if errand.ended_at else "age": output.format_duration(errand.age_s),
        "cost": _render_cost(errand) or "",
        "answer to": _render_place(errand),
        "asked": errand.asked,
        "answer": errand.answer,
    }
    for name, value in lines.items():
        if value:
            output.print_line(f"{name:<10} ", value.replace("\n", "\n" + " " * 11))


def _render_nothing(args: dict[str, Any]) -> str:
    if args["folder"] or args["open"] or args["before"]:
        return "no errand is like that; `gatepost errand list` shows all"
    return "there are no errands: no agent gave work to another"


def _render_cost(errand: ErrandView) -> str | None:
    from gatepost.access.budgets import render_usd

    return render_usd(errand.cost) if errand.cost else None


def _render_place(errand: ErrandView) -> str:
    topic = f" #{errand.thread}" if errand.thread else ""
    return f"{errand.address}{topic}"
