"""A pattern that is compiled when it is first used.

To compile a regular expression costs up to some milliseconds, and a gateway has some hundred of them. Those that most
starts never use are declared by `late_pattern`; those of the hot path stay with `re.compile`.
"""

import re
from typing import cast


class _LatePattern:
    """Each method of the pattern becomes an attribute when it is first asked for; from then on it costs no more."""

    def __init__(self, text: str, flags: int) -> None:
        self._text, self._flags = text, flags

    def __getattr__(self, name: str) -> object:
        found = getattr(re.compile(self._text, self._flags), name)
        setattr(self, name, found)
        return found


def late_pattern(text: str, flags: int = 0) -> re.Pattern[str]:
    """Take the place of `re.compile`: what comes back is used as a pattern, but is none to `isinstance`."""
    return cast("re.Pattern[str]", _LatePattern(text, flags))
