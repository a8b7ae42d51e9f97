"""What the doctor says: one finding a thing that was looked at."""

from dataclasses import dataclass
from typing import Literal

FindingLevel = Literal["ok", "note", "warn", "fail"]  # note: to be known, nothing to do


@dataclass(frozen=True, slots=True)
class Finding:
    level: FindingLevel
    subject: str
    text: str
    way_out: str = ""
