"""Findings of the doctor: one a thing that was looked at."""

from typing import Literal

from msgspec import Struct

FindingLevel = Literal["ok", "note", "warn", "fail"]  # note: to be known, nothing to do


class Finding(Struct, frozen=True):
    level: FindingLevel
    subject: str
    text: str
    remedy: str = ""
