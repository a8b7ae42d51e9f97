"""Regular expressions whose time grows with the text's length alone: RE2, bounded in every direction.

For patterns that others than the operator may write. Python's `re` goes back and tries again, so a bad pattern and a
well-chosen text take for ever; it must not be used for those. The library is loaded with the first pattern.
"""

import re
from functools import lru_cache
from typing import Protocol

LONGEST = 8192  # characters of an expression
MOST_MEMORY = 128 * 1024  # of one program and the states that it remembers
MOST_STEPS = 2000  # instructions of a program: matching costs up to so many steps a byte
MOST_KEPT = 1024  # compiled programs, which bounds their memory altogether


_UNREAD = re.compile(r"(?<!\\)\{(?:,\d|\d+,\d{5}|\d{5})\d*\}?")  # RE2 would take these for plain characters


class BadPattern(ValueError):
    """An expression that cannot be used; its text says why."""


class _Re2Program(Protocol):
    @property
    def programsize(self) -> int: ...

    def search(self, text: bytes) -> object | None: ...

    def fullmatch(self, text: bytes) -> object | None: ...


class LinearRegex:
    """A compiled expression. `.` is any character but a newline, `\\d`, `\\w`, `\\s` and `\\b` know ASCII alone."""

    __slots__ = ("_program", "steps")

    def __init__(self, program: _Re2Program) -> None:
        self._program, self.steps = program, program.programsize

    def occurs_in(self, text: str) -> bool:
        return self._program.search(text.encode("utf-8", "replace")) is not None

    def fits(self, text: str) -> bool:
        """Return True if it covers the whole text."""
        return self._program.fullmatch(text.encode("utf-8", "replace")) is not None


@lru_cache(maxsize=MOST_KEPT)
def compile_linear_regex(expression: str) -> LinearRegex:
    """Compile, or raise `BadPattern`. Ask anew for every use instead of keeping it: what is kept is bounded here."""
    import re2

    if len(expression) > LONGEST:
        raise BadPattern(f"it has {len(expression)} characters; at most {LONGEST} are possible")
    if (unread := _UNREAD.search(expression)) is not None:
        raise BadPattern(f"{unread.group()[:40]} is not a repetition; write {{0,9}} with numbers of at most 1000")
    options = re2.Options()
    options.max_mem, options.log_errors, options.never_capture = MOST_MEMORY, False, True
    try:
        program: _Re2Program = re2.compile(expression.encode("utf-8", "replace"), options)
    except re2.error as error:
        raise BadPattern(_reason(error)) from None
    if program.programsize > MOST_STEPS:
        raise BadPattern("it is too large; use smaller numbers in {} and smaller sets")
    return LinearRegex(program)


def _reason(error: Exception) -> str:
    """Return what RE2 says, in words that name the way out."""
    said = error.args[0] if error.args else ""
    text = said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said)
    kind, _, where = text.partition(": ")
    if kind == "invalid perl operator" or (kind == "invalid escape sequence" and where[1:2].isdigit()):
        return f"{where[:40]} is not supported: look-around and references to groups would need to go back"
    if kind == "invalid repetition size":
        return f"{where[:40]} repeats too often; at most 1000 are possible, those inside each other multiplied"
    if kind.startswith("pattern too large"):
        return "it is too large; use smaller numbers in {} and smaller sets"
    return f"{kind}: {where[:40]}" if where else text[:80]
