"""Retention: remove what is over age now."""

from gatepost.serve.control.declaration import OperationArgs, declares


@declares("keep.run", right="retention.write")
class RunRetentionArgs(OperationArgs, frozen=True):
    """Remove what is over age now. A running gateway does so by itself every few hours."""
