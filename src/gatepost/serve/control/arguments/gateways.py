"""Gateways that share a store, the panic switch, and the doctor."""

from typing import Annotated

from msgspec import Struct

from gatepost.core.record_fields import ShownAs, argument, option, shown
from gatepost.serve.control.declaration import OperationArgs, declares
from gatepost.serve.health.findings import Finding
from gatepost.store.gateways.gateways import GatewayState

GATEWAYS_READ, GATEWAYS_WRITE = "gateways.read", "gateways.write"
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


@declares("gateway.list", right=GATEWAYS_READ, reads=True)
class ListGatewaysArgs(OperationArgs[list[GatewayView]], frozen=True):
    """The gateways on this store: which of them live, what each does for all, and how many sessions it runs."""


@declares("gateway.show", right=GATEWAYS_READ, reads=True)
class ShowGatewayArgs(OperationArgs[GatewayDetails], frozen=True):
    """One gateway, with the sessions that it runs."""

    name: GatewayName


@declares("gateway.drain", right=GATEWAYS_WRITE)
class DrainGatewayArgs(OperationArgs[GatewayView], frozen=True):
    """End a gateway in good order.

    It begins nothing new, and its turns have half a minute to end. The others take over the rest, and its process ends.
    """

    name: GatewayName


@declares("gateway.forget", right=GATEWAYS_WRITE)
class ForgetGatewayArgs(OperationArgs[GatewayView], frozen=True):
    """Remove a gateway that is gone from the list. One that comes back is listed again."""

    name: GatewayName


class PanicAnswer(Struct, frozen=True, kw_only=True):
    changed: bool
    ended: int = 0  # sandboxes
    on: bool = False
    reason: str = ""
    since: str | None = None
    durable: bool = True
    why: str = ""  # it is not durable


@declares("panic.on", right="panic", needs_home=True)
class PanicOnArgs(OperationArgs[PanicAnswer], frozen=True):
    """End everything at once, and let nothing start: no sandbox, no model call. Running turns are withdrawn; messages
    that come meanwhile are accepted and kept.

    It holds over restarts until `gatepost panic --off`, and can be set with the gateway down.
    """

    reason: Annotated[str, option("For the audit and for whoever looks at the status; rooms are not told.")] = ""


@declares("panic.off", right="panic", needs_home=True)
class PanicOffArgs(OperationArgs[PanicAnswer], frozen=True):
    """Go on: what was kept waiting is worked on."""


class DoctorReport(Struct, frozen=True, kw_only=True):
    ok: bool
    findings: list[Finding]
    checked_at: int = 0


@declares("home.close", right="mend", needs_home=True)
class CloseHomeArgs(OperationArgs[list[str]], frozen=True):
    """Close the private files of the home to other users of this machine, and list those that were open."""


@declares("doctor.run", right="doctor", offline=False)
class RunDoctorArgs(OperationArgs[DoctorReport], frozen=True):
    """Look at everything that `gatepost doctor` looks at: each finding, the worst first, with the way out.

    A run takes a few seconds, so findings of the last minute are shown again.
    """

    fresh: Annotated[bool, option("Look again now.")] = False


@declares("doctor.security", right="doctor", offline=False)
class JudgeSecurityArgs(OperationArgs[list[Finding]], frozen=True):
    """Judge how the gateway is set up: what is more open than it need be, the worst first, each with the way out."""
