"""Retention: remove what is over age now."""

from typing import Any

from gatepost.serve.control.declaration import OperationArgs, declares


@declares("keep.run", right="retention.write")
class RunRetentionArgs(OperationArgs[Any], frozen=True):
    """Remove what is over age now. A running gateway does so by itself every few hours."""


@declares("keep.show", right="retention.read", needs_home=True)
class ShowRetentionArgs(OperationArgs[Any], frozen=True):
    """Data that is kept: for how many days, how much there is, and how much of it is over age.

    The settings are keep.…_days in gatepost.toml; 0 keeps for ever. Rows that something in flight needs stay, whatever
    their age.
    """
