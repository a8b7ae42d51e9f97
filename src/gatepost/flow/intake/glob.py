"""Globs of routes, over the `/` segments of an address: `*`, `?` and `[…]` stay within a segment, `**` covers any
number of them, also none; `a|b` is either; a lone `*` means: there is something.

Matching takes time by the value's length alone (`core/globs.py`).
"""

import re
from functools import lru_cache

from gatepost.core.errors import Invalid
from gatepost.core.globs import SET, glob_to_regex, is_glob
from gatepost.core.linear_regex import BadPattern, compile_linear_regex
from gatepost.flow.intake.match_limits import UNLIMITED, Matcher, MatchLimit

LONGEST = 512
MOST_DOUBLE_STARS = 4  # in one alternative


@lru_cache(maxsize=4096)
def compile_glob(pattern: str, plain: bool = False) -> Matcher:
    """The function that tells whether a value fits. `plain`: the value has no segments (text), `*` covers all of it.

    An empty value fits nothing: that a value is absent is said with `key=`, not with a glob.
    """
    if len(pattern) > LONGEST:
        raise Invalid("match", f"a pattern of {len(pattern)} characters is too long; at most {LONGEST} are possible")
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
    """Keeps the expression and not its program: `compile_linear` bounds how many of those there are."""

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
            found = SET.match(pattern, at)
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
