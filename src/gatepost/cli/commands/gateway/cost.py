"""`gatepost cost`: the cost of models."""

import click

from gatepost.cli import output
from gatepost.cli.operation_command import CommandRun, from_operation
from gatepost.serve.control.arguments.spending import SPENT_BY, ShowCostArgs, SpendingReport, SpendingRow


@click.command()
@from_operation(ShowCostArgs)
def command(run: CommandRun, report: SpendingReport) -> None:
    from gatepost.access.budgets import render_usd

    others = [name for name in SPENT_BY if name != report.by]
    output.print_records(SpendingRow, report.rows, empty="nothing was spent", without=others)
    if report.rows:
        since = f" since {report.since[:10]} (UTC)" if report.since else ""
        output.print_line(f"total {render_usd(report.total_micro)}{since}")
    if report.reserved_usd:
        output.print_line(f"up to {report.reserved_usd:.6f} USD more are set aside for calls that run")
