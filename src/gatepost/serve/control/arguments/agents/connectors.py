"""Connectors: third-party MCP servers that the host runs."""

from typing import Annotated

from msgspec import Struct

from gatepost.core.record_fields import ShownAs, argument, option, shown
from gatepost.serve.control.declaration import OperationArgs, declares
from gatepost.store.rights.connector_tools import ConnectorCheck, ToolChange


class ConnectorItem(Struct, frozen=True, kw_only=True):
    """`variables`: the names alone. `tools`: as agents call them, when it was last asked. `held`: those that changed
    and wait to be accepted, as its server names them."""

    name: Annotated[str, shown("Connector", ShownAs.CODE, head="connector")]
    program: Annotated[str, shown("Program", ShownAs.CODE)]
    tier: Annotated[str, shown("For agents from", ShownAs.BADGE, head="down to tier")]
    tools: Annotated[tuple[str, ...], shown("Tools", empty="not asked yet")]
    held: Annotated[tuple[str, ...], shown("Wait to be accepted", head="wait to be accepted")]
    secrets: Annotated[tuple[str, ...], shown("Secrets", details=True)]
    variables: Annotated[tuple[str, ...], shown("Variables", details=True)]
    timeout_s: Annotated[float, shown("Patience", details=True, render=lambda seconds: f"{seconds:g} s")]


class ConnectorChanges(Struct, frozen=True):
    """`digest`: of all that waits; to accept by it is to accept just this."""

    name: str
    digest: str
    tools: list[ToolChange]


class AcceptedTools(Struct, frozen=True):
    name: str
    tools: tuple[str, ...]


@declares("connector.list", right="connector.read")
class ListConnectorsArgs(OperationArgs[list[ConnectorItem]], frozen=True):
    """List the connectors of gatepost.toml, with the tools that each listed when it was last asked."""


@declares("connector.check", right="connector.check")
class CheckConnectorArgs(OperationArgs[ConnectorCheck], frozen=True):
    """Start a connector without any secret, have it list its tools, and end it. Nothing changes."""

    name: Annotated[str, argument("The connector.", "name", examples=("github",))]


@declares("connector.changes", right="connector.read")
class ListConnectorChangesArgs(OperationArgs[list[ConnectorChanges]], frozen=True):
    """Show the tools of connectors that are new or told of in other words than were accepted. Agents do not have
    them."""

    name: Annotated[str, argument("Only this connector.", "name", examples=("github",))] = ""


@declares("connector.accept", right="connector.write")
class AcceptConnectorToolsArgs(OperationArgs[AcceptedTools], frozen=True):
    """Accept the tools of a connector as they are now, or one of them. Agents have them from then on."""

    name: Annotated[str, argument("The connector.", "name", examples=("github",))]
    tool: Annotated[str, argument("Only this tool, as its server names it.", "tool")] = ""
    digest: Annotated[str, option("Only if this is what waits: the digest that `changes` prints.")] = ""
