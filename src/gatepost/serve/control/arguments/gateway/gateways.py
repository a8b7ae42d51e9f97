"""Gateways that share a store."""

from typing import Annotated

from msgspec import Struct

from gatepost.core.record_fields import ShownAs, argument, shown
from gatepost.serve.control.declaration import OperationArgs, declares
from gatepost.store.gateways.gateways import GatewayState

READ, WRITE = "gateways.read", "gateways.write"
GatewayName = Annotated[str, argument("Its name.", "gateway")]


class GatewayView(Struct, frozen=True, kw_only=True):
    """`alive`: by the clock of the database its lease is not over. `duties`: what it does for all of them."""

    name: Annotated[str, shown("Gateway", ShownAs.CODE, head="gateway")]
    alive: bool
    state: Annotated[GatewayState, shown("State", ShownAs.BADGE)]
    host: Annotated[str, shown("Host")]
    listen: Annotated[str, shown("Web", head="web")]
    sessions: Annotated[int, shown("Sessions", ShownAs.NUMBER)]
    capacity: Annotated[int, shown("At most", ShownAs.NUMBER, head="at most")]
    duties: Annotated[list[str], shown("Does for all")]
    version: Annotated[str, shown("Version")]
    schema_number: Annotated[int, shown("Schema", ShownAs.NUMBER, head="schema", details=True)]
    epoch: Annotated[int, shown("Life", ShownAs.NUMBER, head="life", details=True)]
    started_at: Annotated[int, shown("Since", ShownAs.MOMENT, head="since", details=True)]
    lease_until: int


class GatewayDetails(GatewayView, frozen=True, kw_only=True):
    running_sessions: Annotated[list[str], shown("Sessions that run", head="running", details=True)]


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
