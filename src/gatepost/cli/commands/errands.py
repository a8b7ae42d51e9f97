"""`gatepost errand`: work that agents gave to other agents."""

from collections.abc import Mapping
from typing import Any

import click

from gatepost.cli import output
from gatepost.cli.operation_command import CommandRun, from_operation
from gatepost.serve.control.arguments.errands import ErrandDetails, ErrandView, ListErrandsArgs, ShowErrandArgs


@click.group()
def errand_command() -> None:
    """Work that agents gave to other agents: list, show."""


@errand_command.command("list")
@from_operation(ListErrandsArgs)
def list_errands(run: CommandRun, found: list[ErrandView]) -> None:
    output.print_records(ErrandView, found, OWN, empty=_render_nothing(run.args), gives=("answer to",))


@errand_command.command()
@from_operation(ShowErrandArgs)
def show(run: CommandRun, errand: ErrandDetails) -> None:
    output.print_details(ErrandDetails, errand, {**OWN, **DETAILS}, width=10, sparse=True)


def _render_nothing(args: dict[str, Any]) -> str:
    if args["folder"] or args["open"] or args["before"]:
        return "no errand is like that; `gatepost errand list` shows all"
    return "there are no errands: no agent gave work to another"


def _render_place(errand: ErrandView) -> str:
    topic = f" #{errand.thread}" if errand.thread else ""
    return f"{errand.address}{topic}"


OWN: Mapping[str, output.Show] = {
    "age_s": lambda errand: output.format_duration(errand.age_s),
    "address": _render_place,
}
DETAILS: Mapping[str, output.Show] = {
    "caller_folder": lambda errand: f"{errand.caller_folder} in session {errand.caller_session}",
    "folder": lambda errand: f"{errand.folder} in session {errand.session_id}",
    "people": lambda errand: ", ".join(errand.people),
    "above": lambda errand: ", ".join(errand.above),
    "below": lambda errand: ", ".join(errand.below),
}
