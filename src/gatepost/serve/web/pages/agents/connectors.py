"""Connectors: third-party MCP servers that the host runs, and their tools."""

from gatepost.serve.control.arguments.agents.connectors import ConnectorItem, ListConnectorsArgs
from gatepost.serve.web.dashboard.contract import PageRequest, Section, page
from gatepost.serve.web.dashboard.tables import badge, code, made, make_table, shorten
from gatepost.serve.web.dashboard.view import Action, EmptyState, PageView

EMPTY = EmptyState(
    text="No connector is declared. One is a table in gatepost.toml, and the next start runs it:",
    command='[connectors.github]\ncommand = ["github-mcp-server", "stdio"]\nenv_secrets = ["GITHUB_TOKEN"]\n'
    'tier = "world"',
)
CONNECTOR = (
    code("name", "Connector"),
    code("program", "Program"),
    badge("tier", "For agents from"),
    made("tools", "Tools", lambda each: shorten(", ".join(each.tools)) or "not asked yet"),
    made("held", "Wait to be accepted", lambda each: shorten(", ".join(each.held)) or None),
    made("secrets", "Secrets", lambda each: shorten(", ".join(each.secrets)) or None),
    made("variables", "Variables", lambda each: shorten(", ".join(each.variables)) or None),
    made("timeout_s", "Patience", lambda each: f"{each.timeout_s:g} s"),
)


@page("/connectors", "Connectors", Section.GATEWAY, "connector.list", order=20)
async def show_connectors(request: PageRequest) -> PageView:
    found = await request.ask(ListConnectorsArgs())
    may = await request.may("connector.check")
    return PageView(blocks=[make_table(found, CONNECTOR, EMPTY, actions=list_actions if may else list_none)])


def list_actions(connector: ConnectorItem) -> tuple[Action, ...]:
    return (Action(label="Check", operation="connector.check", args={"name": connector.name}, asks=True),)


def list_none(connector: ConnectorItem) -> tuple[Action, ...]:
    return ()
