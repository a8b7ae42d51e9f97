"""What a panic did."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PanicResult:
    """Sandboxes that were ended, whether it was new, and why it is not written down ('' if it is)."""

    ended: int
    changed: bool
    why: str
