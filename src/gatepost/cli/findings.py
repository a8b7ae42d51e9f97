"""What the doctor says: one finding a thing that was looked at."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Finding:
    level: Literal["ok", "note", "warn", "fail"]  # note: nothing here needs it
    subject: str
    text: str
    way_out: str = ""
