"""Sandboxes: which isolation a group's agents get."""

from typing import Annotated

from gatepost.core.record_fields import option
from gatepost.flow.sessions.sandbox.isolation_report import SandboxIsolation
from gatepost.serve.control.declaration import OperationArgs, declares


@declares("sandbox.walls", right="status.read")
class IsolationArgs(OperationArgs[SandboxIsolation], frozen=True):
    """Tell which sandbox a group's agents get, as the gateway itself sees this machine."""

    folder: Annotated[str, option("The group; '': one that says nothing of sandboxes.", scope=True)] = ""
    provider: Annotated[str, option("For this provider instead of the group's.")] = ""
