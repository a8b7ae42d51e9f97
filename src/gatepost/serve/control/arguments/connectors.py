"""Connectors: third-party MCP servers that the host runs."""

from typing import Annotated, Any

from gatepost.serve.control.declaration import OperationArgs, argument, declares, option


@declares("connector.list", right="connector.read")
class ListConnectorsArgs(OperationArgs[Any], frozen=True):
    """List the connectors of gatepost.toml, with the tools that each listed when it was last asked."""


@declares("connector.check", right="connector.check")
class CheckConnectorArgs(OperationArgs[Any], frozen=True):
    """Start a connector without any secret, have it list its tools, and end it. Nothing changes."""

    name: Annotated[str, argument("The connector.", "name", examples=("github",))]


@declares("connector.changes", right="connector.read")
class ListConnectorChangesArgs(OperationArgs[Any], frozen=True):
    """Show the tools of connectors that are new or told of in other words than were accepted. Agents do not have
    them."""

    name: Annotated[str, argument("Only this connector.", "name", examples=("github",))] = ""


@declares("connector.accept", right="connector.write")
class AcceptConnectorToolsArgs(OperationArgs[Any], frozen=True):
    """Accept the tools of a connector as they are now, or one of them. Agents have them from then on."""

    name: Annotated[str, argument("The connector.", "name", examples=("github",))]
    tool: Annotated[str, argument("Only this tool, as its server names it.", "tool")] = ""
    digest: Annotated[str, option("Only if this is what waits: the digest that `changes` prints.")] = ""
