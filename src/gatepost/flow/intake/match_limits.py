"""How much may be done for one message, counted and not timed: the same message is always decided alike."""

from typing import Protocol

BASE, STEPS_TO_COMPILE = 16, 8  # of a condition: its program may have to be compiled anew
STEPS_A_UNIT = 100  # measured: at worst 20 ns a step and byte, mostly a hundredth of it


class MatchLimitExceeded(Exception):
    """The effort is spent."""


class MatchLimit:
    """The work that may still be done for a message; a unit takes 2 µs at worst. None: as much as it takes."""

    __slots__ = ("left",)

    def __init__(self, left: int | None = None) -> None:
        self.left = left

    def spend(self, units: int) -> None:
        if self.left is not None:
            self.left -= units
            if self.left < 0:
                raise MatchLimitExceeded

    def spend_on(self, text: str, steps: int) -> None:
        """For running a program of so many instructions over a text."""
        size = len(text) if text.isascii() else len(text.encode("utf-8", "replace"))
        self.spend(BASE + steps // STEPS_TO_COMPILE + size * steps // STEPS_A_UNIT)


UNLIMITED = MatchLimit()


class Matcher(Protocol):
    """Tells whether a value fits, and counts what that takes."""

    def __call__(self, value: str, effort: MatchLimit = UNLIMITED) -> bool: ...
