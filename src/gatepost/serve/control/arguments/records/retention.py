"""Retention: remove what is over age now."""

from msgspec import Struct

from gatepost.serve.control.declaration import OperationArgs, declares
from gatepost.store.schedule.retention import RetentionCounts


class KeptRows(Struct, frozen=True):
    what: str
    setting: str
    days: int
    rows: int
    over_age: int
    oldest: str


class KeptFiles(Struct, frozen=True):
    what: str
    setting: str
    days: int
    bytes: int


class StoreSize(Struct, frozen=True):
    bytes: int
    shrinks: bool


class RetentionOverview(Struct, frozen=True):
    rows: list[KeptRows]
    files: list[KeptFiles]
    store: StoreSize


@declares("keep.run", right="retention.write")
class RunRetentionArgs(OperationArgs[RetentionCounts], frozen=True):
    """Remove what is over age now. A running gateway does so by itself every few hours."""


@declares("keep.show", right="retention.read", needs_home=True)
class ShowRetentionArgs(OperationArgs[RetentionOverview], frozen=True):
    """Data that is kept: for how many days, how much there is, and how much of it is over age.

    The settings are keep.…_days in gatepost.toml; 0 keeps for ever. Rows that something in flight needs stay, whatever
    their age.
    """
