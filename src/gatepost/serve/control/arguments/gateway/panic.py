"""The panic switch: everything ends, and nothing starts until it is off."""

from typing import Annotated

from msgspec import Struct

from gatepost.core.record_fields import option
from gatepost.serve.control.declaration import OperationArgs, declares


class PanicAnswer(Struct, frozen=True, kw_only=True):
    changed: bool
    ended: int = 0  # sandboxes
    on: bool = False
    reason: str = ""
    since: str | None = None
    durable: bool = True
    why: str = ""  # it is not durable


@declares("panic.on", right="panic")
class PanicOnArgs(OperationArgs[PanicAnswer], frozen=True):
    """End everything at once, and let nothing start: no sandbox, no model call. Running turns are withdrawn; messages
    that come meanwhile are accepted and kept.

    It holds over restarts until `gatepost panic --off`, and can be set with the gateway down.
    """

    reason: Annotated[str, option("For the audit and for whoever looks at the status; rooms are not told.")] = ""


@declares("panic.off", right="panic")
class PanicOffArgs(OperationArgs[PanicAnswer], frozen=True):
    """Go on: what was kept waiting is worked on."""
