"""The panic switch: everything ends, and nothing starts until it is off."""

from typing import Annotated, Any

from gatepost.serve.control.declaration import OperationArgs, declares, option


@declares("panic.on", right="panic")
class PanicOnArgs(OperationArgs[Any], frozen=True):
    """End everything at once, and let nothing start: no sandbox, no model call. Running turns are withdrawn; messages
    that come meanwhile are accepted and kept.

    It holds over restarts until `gatepost panic --off`, and can be set with the gateway down.
    """

    reason: Annotated[str, option("For the audit and for whoever looks at the status; rooms are not told.")] = ""


@declares("panic.off", right="panic")
class PanicOffArgs(OperationArgs[Any], frozen=True):
    """Go on: what was kept waiting is worked on."""
