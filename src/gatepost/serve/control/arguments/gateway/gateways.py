"""Gateways that share a store."""

from typing import Annotated

from msgspec import Struct

from gatepost.core.record_fields import argument
from gatepost.serve.control.declaration import OperationArgs, declares
from gatepost.store.gateways.gateways import GatewayState

READ, WRITE = "gateways.read", "gateways.write"
GatewayName = Annotated[str, argument("Its name.", "gateway")]


class GatewayView(Struct, frozen=True, kw_only=True):
    """`alive`: by the clock of the database its lease is not over. `duties`: what it does for all of them."""

    name: str
    alive: bool
    state: GatewayState
    host: str
    listen: str
    version: str
    schema_number: int
    epoch: int
    capacity: int
    sessions: int
    duties: list[str]
    started_at: int
    lease_until: int


class GatewayDetails(GatewayView, frozen=True, kw_only=True):
    running_sessions: list[str]


@declares("gateway.list", right=READ, reads=True)
class ListGatewaysArgs(OperationArgs[list[GatewayView]], frozen=True):
    """The gateways on this store: which of them live, what each does for all, and how many sessions it runs."""


@declares("gateway.show", right=READ, reads=True)
class ShowGatewayArgs(OperationArgs[GatewayDetails], frozen=True):
    """One gateway, with the sessions that it runs."""

    name: GatewayName


@declares("gateway.drain", right=WRITE)
class DrainGatewayArgs(OperationArgs[GatewayView], frozen=True):
    """End a gateway in good order.

    It begins nothing new, and its turns have half a minute to end. The others take over the rest, and its process ends.
    """

    name: GatewayName


@declares("gateway.forget", right=WRITE)
class ForgetGatewayArgs(OperationArgs[GatewayView], frozen=True):
    """Remove a gateway that is gone from the list. One that comes back is listed again."""

    name: GatewayName
