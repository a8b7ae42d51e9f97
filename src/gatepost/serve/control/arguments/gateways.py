"""Gateways that share a store."""

from typing import Annotated, Any

from gatepost.serve.control.declaration import OperationArgs, argument, declares

READ, WRITE = "gateways.read", "gateways.write"


class GatewayArgs(OperationArgs[Any], frozen=True):
    name: Annotated[str, argument("Its name.", "gateway")]


@declares("gateway.list", right=READ, reads=True)
class ListGatewaysArgs(OperationArgs[Any], frozen=True):
    """The gateways on this store: which of them live, what each does for all, and how many sessions it runs."""


@declares("gateway.show", right=READ, reads=True)
class ShowGatewayArgs(GatewayArgs, frozen=True):
    """One gateway, with the sessions that it runs."""


@declares("gateway.drain", right=WRITE)
class DrainGatewayArgs(GatewayArgs, frozen=True):
    """End a gateway in good order.

    It begins nothing new, and its turns have half a minute to end. The others take over the rest, and its process ends.
    """


@declares("gateway.forget", right=WRITE)
class ForgetGatewayArgs(GatewayArgs, frozen=True):
    """Remove a gateway that is gone from the list. One that comes back is listed again."""
