"""Findings of the doctor: one a thing that was looked at."""

from typing import Any, Literal

from msgspec import Struct

FindingLevel = Literal["ok", "note", "warn", "fail"]  # note: to be known, nothing to do


class Mend(Struct, frozen=True):
    """An operation that mends what was found. It is safe: it may be run by whoever may, without a further word."""

    operation: str
    label: str
    args: dict[str, Any] = {}


class Finding(Struct, frozen=True):
    level: FindingLevel
    subject: str
    text: str
    remedy: str = ""
    mend: Mend | None = None
