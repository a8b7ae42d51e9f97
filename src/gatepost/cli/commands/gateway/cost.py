"""`gatepost cost`: the cost of models."""

import click

from gatepost.cli import output
from gatepost.cli.operation_command import CommandRun, from_operation
from gatepost.serve.control.arguments.gateway.spending import ShowCostArgs, SpendingReport


@click.command()
@from_operation(ShowCostArgs)
def command(run: CommandRun, report: SpendingReport) -> None:
    from gatepost.access.budgets import render_usd

    output.print_table(
        (report.by, "spent", "estimated", "calls", "input", "output", "cache read", "cache write"),
        [
            (
                *(row.key, render_usd(row.micro), render_usd(row.estimated_micro), row.calls),
                *(row.input, row.output, row.cache_read, row.cache_write),
            )
            for row in report.rows
        ],
        empty="nothing was spent",
    )
    if report.rows:
        since = f" since {report.since[:10]} (UTC)" if report.since else ""
        output.print_line(f"total {render_usd(report.total_micro)}{since}")
    if report.reserved_usd:
        output.print_line(f"up to {report.reserved_usd:.6f} USD more are set aside for calls that run")
