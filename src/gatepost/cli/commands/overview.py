"""`gatepost overview`: how every agent stands, and what to do next. `gatepost why`: why a message has no answer."""

import click

from gatepost.cli import output
from gatepost.cli.operation_command import CommandRun, from_operation
from gatepost.core.clock import iso
from gatepost.core.money import render_usd
from gatepost.serve.control.arguments.overview import (
    AgentOverview,
    ExplainMissingArgs,
    GatewayOverview,
    ShowOverviewArgs,
    WhyAnswer,
)


@click.command()
@from_operation(ShowOverviewArgs)
def overview_command(run: CommandRun, found: GatewayOverview) -> None:
    print_health(found)
    output.print_table(
        ("agent", "state", "since", "queue", "awake", "today", "last", "next"),
        [_make_row(each) for each in found.agents],
        empty="no agent is like that" if any(found.counts.values()) else "there are no agents yet",
        gives=("last", "next"),
    )
    for each in found.agents:
        for wait in each.waits:
            output.print_line(f"{wait.who} waits for {wait.whom}: {wait.what} ({wait.count})")
    left = found.total - run.args["start"] - len(found.agents)
    if left > 0:
        output.print_line(f"{left} more; --start {run.args['start'] + len(found.agents)} shows them")


@click.command()
@from_operation(ExplainMissingArgs)
def why_command(run: CommandRun, found: WhyAnswer) -> None:
    output.print_line(found.text)
    if found.next is not None:
        output.print_line("  ", output.colored(f"→ {found.next.command}", "dim"))


def print_health(found: GatewayOverview) -> None:
    """Print the findings on the gateway's health, each with the way out."""
    if panic := found.panic:
        why = f": {panic.reason}" if panic.reason else ""
        output.print_line(output.colored(f"everything is stopped since {iso(panic.since_at)}{why}", "fail"))
        output.print_line("  ", output.colored("→ gatepost panic --off", "dim"))
    for each in found.findings:
        output.print_line(output.colored(f"{each.subject}: {each.text}", each.level))
        if each.remedy:
            output.print_line("  ", output.colored(f"→ {each.remedy}", "dim"))
    if found.alerts:
        are_open = "1 alert is" if found.alerts == 1 else f"{found.alerts} alerts are"
        output.print_line(f"{are_open} open; `gatepost alert list` says what helps")
    if found.homeless:
        output.print_line(f"{found.homeless} requests that are about no group wait; `gatepost permit ls` lists them")


def _make_row(agent: AgentOverview) -> tuple[object, ...]:
    last, steps = agent.last, [each.command for each in (agent.next, agent.retry) if each is not None]
    name = f"{agent.title} ({agent.id})" if agent.managed and agent.title else agent.id
    return (
        name,
        agent.state,
        output.format_time(agent.since_at),
        agent.queued,
        agent.sandboxes,
        render_usd(agent.spent),
        f"{last.by}: {last.text}" if last else "",
        " or ".join(steps),
    )
