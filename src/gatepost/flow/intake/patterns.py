"""Patterns of routes: globs, regular expressions, and the work that matching may take.

Globs go over the `/` segments of an address. `*`, `?` and `[…]` stay within a segment; `**` covers any number of them,
also none. `a|b` is either, and a lone `*` means that there is something. Matching takes time by the value's length
alone (`core/linear_patterns.py`).

Regular expressions are for `text=/…/` and use RE2: a search takes time that grows only with the text's length. Python's
`re` can take for ever on a bad pattern and a well-chosen text, and nobody who writes a route may stop the gateway with
it. The syntax is that of `re` without back-references and look-around.

Work is counted and not timed, so the same message is always decided alike.
"""

import re
from functools import lru_cache
from typing import Protocol

from gatepost.core.errors import Invalid
from gatepost.core.linear_patterns import GLOB_SET, BadPattern, compile_linear_regex, glob_to_regex, is_glob

LONGEST_GLOB = 512
LONGEST_REGEX = 200
MOST_DOUBLE_STARS = 4  # in one alternative
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
        """Count a run of a program of so many instructions over a text."""
        size = len(text) if text.isascii() else len(text.encode("utf-8", "replace"))
        self.spend(BASE + steps // STEPS_TO_COMPILE + size * steps // STEPS_A_UNIT)


UNLIMITED = MatchLimit()


class Matcher(Protocol):
    """Tells whether a value fits, and counts what that takes."""

    def __call__(self, value: str, effort: MatchLimit = UNLIMITED) -> bool: ...


@lru_cache(maxsize=4096)
def compile_glob(pattern: str, plain: bool = False) -> Matcher:
    """Return a function that tells whether a value fits. `plain`: the value has no segments (text), so `*` covers all
    of it.

    An empty value fits nothing: that a value is absent is said with `key=`, not with a glob.
    """
    if len(pattern) > LONGEST_GLOB:
        raise Invalid(
            "match", f"a pattern of {len(pattern)} characters is too long; at most {LONGEST_GLOB} are possible"
        )
    if pattern == "*":
        return _is_there
    alternatives = split_alternatives(pattern)
    if not any(map(is_glob, alternatives)):
        return _Either(frozenset(alternatives)).fits
    for each in alternatives:
        if not plain and len(re.findall(r"\*\*+", each)) > MOST_DOUBLE_STARS:
            raise Invalid("match", f"the pattern {each!r} has more than {MOST_DOUBLE_STARS} '**'")
    try:
        expression = "|".join(glob_to_regex(each, plain=plain, across=True) for each in alternatives)
        compile_linear_regex(expression)
    except BadPattern as error:
        raise Invalid("match", f"the pattern {pattern!r} cannot be used: {error}") from None
    return _Glob(expression).fits


class _Either:
    def __init__(self, values: frozenset[str]) -> None:
        self._values = values

    def fits(self, value: str, effort: MatchLimit = UNLIMITED) -> bool:
        effort.spend(1)
        return value in self._values


class _Glob:
    """Keeps the expression and not its program: `compile_linear_regex` bounds how many of those there are."""

    def __init__(self, expression: str) -> None:
        self._expression = expression

    def fits(self, value: str, effort: MatchLimit = UNLIMITED) -> bool:
        linear = compile_linear_regex(self._expression)
        effort.spend_on(value, linear.steps)
        return value != "" and linear.fits(value)


def _is_there(value: str, effort: MatchLimit = UNLIMITED) -> bool:
    effort.spend(1)
    return value != ""


def split_alternatives(pattern: str) -> list[str]:
    """Cut at each `|` that is not inside `[…]`; an empty alternative or an open `[` is refused."""
    parts = [""]
    at = 0
    while at < len(pattern):
        if pattern[at] == "[":
            found = GLOB_SET.match(pattern, at)
            if found is None:
                raise Invalid(
                    "match", f"the pattern {pattern!r} has a '[' without its ']'; write [[] for the character"
                )
            parts[-1] += found.group()
            at = found.end()
            continue
        if pattern[at] == "|":
            parts.append("")
        else:
            parts[-1] += pattern[at]
        at += 1
    if "" in parts:
        raise Invalid("match", f"the pattern {pattern!r} has an empty alternative; write key= alone for 'absent'")
    return parts


@lru_cache(maxsize=1024)
def compile_search(pattern: str) -> Matcher:
    """Return a function that tells whether the pattern occurs in a text."""
    if len(pattern) > LONGEST_REGEX:
        raise Invalid(
            "match", f"a regular expression of {len(pattern)} characters is too long; at most {LONGEST_REGEX}"
        )
    try:
        compile_linear_regex(pattern)
    except BadPattern as error:
        raise Invalid("match", f"/{pattern}/ cannot be used as a regular expression: {error}") from None
    return _Search(pattern).search


class _Search:
    """Keeps the pattern and not its program: `compile_linear_regex` bounds how many of those there are."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern

    def search(self, value: str, effort: MatchLimit = UNLIMITED) -> bool:
        linear = compile_linear_regex(self._pattern)
        effort.spend_on(value, linear.steps)
        return linear.occurs_in(value)
