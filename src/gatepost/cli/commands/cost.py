"""`gatepost cost`: the cost of models."""

from typing import Any

import click

from gatepost.cli import output
from gatepost.cli.operation_command import CommandRun, from_operation
from gatepost.serve.control.arguments.spending import ShowCostArgs

_TOKENS = ("input", "output", "cache_read", "cache_write")


@click.command()
@from_operation(ShowCostArgs)
def command(run: CommandRun, told: dict[str, Any]) -> None:
    from gatepost.access.budgets import render_usd

    by = told["by"]
    output.print_table(
        (by, "spent", "estimated", "calls", "input", "output", "cache read", "cache write"),
        [
            (
                *(row[by], render_usd(row["micro"]), render_usd(row["estimated_micro"]), row["calls"]),
                *(row[key] for key in _TOKENS),
            )
            for row in told["rows"]
        ],
        empty="nothing was spent",
    )
    if told["rows"]:
        output.print_line(f"total {render_usd(told['total_micro'])}")
    if told["reserved_usd"]:
        output.print_line(f"up to {told['reserved_usd']:.6f} USD more are set aside for calls that run")
