"""Connectors: third-party MCP servers that the host runs, and their tools."""

from gatepost.serve.control.arguments.agents import ConnectorItem, ListConnectorsArgs
from gatepost.serve.web.dashboard.contract import PageRequest, Section, page
from gatepost.serve.web.dashboard.tables import make_columns, make_table
from gatepost.serve.web.dashboard.view import Action, EmptyState, PageView

EMPTY = EmptyState(
    text="No connector is declared. One is a table in gatepost.toml, and the next start runs it:",
    command='[connectors.github]\ncommand = ["github-mcp-server", "stdio"]\nenv_secrets = ["GITHUB_TOKEN"]\n'
    'tier = "world"',
)
CONNECTOR = make_columns(ConnectorItem, details=True)


@page("/connectors", "Connectors", Section.GATEWAY, "connector.list", order=20)
async def show_connectors(request: PageRequest) -> PageView:
    found = await request.ask(ListConnectorsArgs())
    may = await request.may("connector.check")
    return PageView(blocks=[make_table(found, CONNECTOR, EMPTY, actions=list_actions if may else list_none)])


def list_actions(connector: ConnectorItem) -> tuple[Action, ...]:
    return (Action(label="Check", operation="connector.check", args={"name": connector.name}, asks=True),)


def list_none(connector: ConnectorItem) -> tuple[Action, ...]:
    return ()
