"""The effects of a panic."""

from msgspec import Struct


class PanicResult(Struct, frozen=True):
    """Sandboxes that were ended, whether it was new, and why it is not written down ('' if it is)."""

    ended: int
    changed: bool
    why: str
