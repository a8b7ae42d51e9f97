"""`gatepost connector`: third-party MCP servers that the host runs, and what has changed about their tools."""

import click

from gatepost.cli import output
from gatepost.cli.operation_command import CommandRun, from_operation
from gatepost.serve.control.arguments.agents import (
    AcceptConnectorToolsArgs,
    AcceptedTools,
    CheckConnectorArgs,
    ConnectorChanges,
    ConnectorItem,
    ListConnectorChangesArgs,
    ListConnectorsArgs,
)
from gatepost.store.rights.connector_tools import ConnectorCheck


@click.group()
def command() -> None:
    """Third-party MCP servers that the host runs: [connectors.NAME] in gatepost.toml declares them.

    Tools that a server adds or tells of in other words are not offered to agents until you accept them.
    """


@command.command("list")
@from_operation(ListConnectorsArgs)
def list_connectors(run: CommandRun, found: list[ConnectorItem]) -> None:
    own = {"tools": lambda each: len(each.tools) or "none known; restart the gateway"}
    output.print_records(ConnectorItem, found, own, empty="no connector is declared")


@command.command()
@from_operation(CheckConnectorArgs)
def check(run: CommandRun, found: ConnectorCheck) -> None:
    output.print_line(found.trouble or f"{found.name} has {len(found.tools)} tools")


@command.command()
@from_operation(ListConnectorChangesArgs)
def changes(run: CommandRun, found: list[ConnectorChanges]) -> None:
    if not found:
        output.print_line("nothing waits to be accepted")
    for each in found:
        for tool in each.tools:
            output.print_line(f"{each.name}: {tool.tool} is {'new' if tool.new else 'told of in other words'}")
            for line in tool.lines:
                output.print_line(f"  {line}")
        output.print_line(f"To accept all of it: gatepost connector accept {each.name} --digest {each.digest}")


@command.command()
@from_operation(AcceptConnectorToolsArgs)
def accept(run: CommandRun, done: AcceptedTools) -> None:
    output.print_line(f"{done.name}: accepted {', '.join(done.tools)}")
