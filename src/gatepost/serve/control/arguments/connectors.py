"""Connectors: third-party MCP servers that the host runs."""

from typing import Annotated

from gatepost.serve.control.declaration import OperationArgs, argument, declares


@declares("connector.list", right="connector.read")
class ListConnectorsArgs(OperationArgs, frozen=True):
    """List the connectors of gatepost.toml, with the tools that each listed when it was last asked."""


@declares("connector.check", right="connector.check")
class CheckConnectorArgs(OperationArgs, frozen=True):
    """Start a connector without any secret, have it list its tools, and end it. Nothing changes."""

    name: Annotated[str, argument("The connector.", "name", examples=("github",))]
