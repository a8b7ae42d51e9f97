"""Models: whether the endpoints that groups use can be reached."""

from typing import Any

from gatepost.serve.control.declaration import OperationArgs, declares


@declares("models.check", right="status.read")
class CheckModelsArgs(OperationArgs[Any], frozen=True):
    """Check whether the endpoints that groups use can be reached and take their keys. Nothing is spent."""
