"""`gatepost cost`: what was spent on models."""

import click

from gatepost.cli import output
from gatepost.cli.operation_runner import home_of, read_store


@click.command()
@click.option("--by", type=click.Choice(["group", "user", "model", "day"]), default="group", help="What to add up by.")
@click.option("--days", type=click.IntRange(min=0), default=0, help="Only the last so many days (UTC; 0: all).")
@click.option("--json", "as_json", is_flag=True, help="An object: total_usd, reserved_usd, rows.")
@click.pass_obj
def command(home: str | None, by: str, days: int, as_json: bool) -> None:
    """What was spent on models: as measured between the agents and the vendors, and as agents reported it.

    A call counts in the day in which it began. Its group is the one that spent it; budgets add up all below a group.
    """
    from gatepost.access.budgets import render_usd
    from gatepost.core.clock import SystemClock
    from gatepost.serve.control.operations.spending import read_spending

    told = read_store(home_of(home), read_spending, by, days, SystemClock().now())
    if as_json:
        output.print_json(told)
        return
    output.print_table(
        (by, "spent", "calls", "input", "output", "cache read", "cache write"),
        [(row[by], render_usd(row["micro"]), row["calls"], *(row[key] for key in _TOKENS)) for row in told["rows"]],
        empty="nothing was spent",
    )
    if told["rows"]:
        output.print_line(f"total {render_usd(told['total_micro'])}")
    if told["reserved_usd"]:
        output.print_line(f"up to {told['reserved_usd']:.6f} USD more are set aside for calls that run")


_TOKENS = ("input", "output", "cache_read", "cache_write")
