"""Retention: remove what is over age now."""

from typing import Annotated

from msgspec import Struct

from gatepost.core.record_fields import ShownAs, shown
from gatepost.serve.control.declaration import OperationArgs, declares
from gatepost.store.schedule.retention import RetentionCounts


def render_days(days: int) -> str:
    return f"{days} day{'' if days == 1 else 's'}" if days else "ever"


def render_size(size: int) -> str:
    return f"{size / 1024 / 1024:,.1f} MB"


class KeptRows(Struct, frozen=True):
    what: Annotated[str, shown("What")]
    setting: Annotated[str, shown("Setting")]
    days: Annotated[int, shown("Kept for", head="kept for", render=render_days)]
    rows: Annotated[int, shown("Rows", ShownAs.NUMBER)]
    over_age: Annotated[int, shown("Over age", ShownAs.NUMBER, head="over age")]
    oldest: Annotated[str, shown("Oldest", ShownAs.MOMENT)]


class KeptFiles(Struct, frozen=True):
    what: Annotated[str, shown("What")]
    setting: Annotated[str, shown("Setting")]
    days: Annotated[int, shown("Kept for", render=render_days)]
    bytes: Annotated[int, shown("Size", render=render_size)]


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
