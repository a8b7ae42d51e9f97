"""Requests of agents: what one of them asks."""

from typing import Annotated, Any

from gatepost.serve.control.arguments.agents import READ
from gatepost.serve.control.declaration import OperationArgs, argument, declares


@declares("permit.show", right=READ, reads=True)
class ShowRequestArgs(OperationArgs[Any], frozen=True):
    """Show one request: what is asked with its arguments, the answers that it takes, who agreed, what it waits for."""

    id: Annotated[str, argument("The request's id.", "request")]
