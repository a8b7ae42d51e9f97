"""Regular expressions for `text=/…/`, by RE2: searched in time that grows only with the text's length.

Whoever may write a route must not be able to stop the gateway with it, and Python's `re` can take for ever on a bad
pattern and a well-chosen text. The syntax is RE2's: that of `re` without what needs to go back, so groups cannot be
referred to and there is no look-around.
"""

from functools import lru_cache

from gatepost.core.errors import Invalid
from gatepost.core.linear_regex import BadPattern, compile_linear_regex
from gatepost.flow.intake.match_limits import UNLIMITED, Matcher, MatchLimit

LONGEST = 200


@lru_cache(maxsize=1024)
def compile_search(pattern: str) -> Matcher:
    """The function that tells whether the pattern occurs in a text."""
    if len(pattern) > LONGEST:
        raise Invalid("match", f"a regular expression of {len(pattern)} characters is too long; at most {LONGEST}")
    try:
        compile_linear_regex(pattern)
    except BadPattern as error:
        raise Invalid("match", f"/{pattern}/ cannot be used as a regular expression: {error}") from None
    return _Search(pattern).search


class _Search:
    """Keeps the pattern and not its program: `compile_linear` bounds how many of those there are."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern

    def search(self, value: str, effort: MatchLimit = UNLIMITED) -> bool:
        linear = compile_linear_regex(self._pattern)
        effort.spend_on(value, linear.steps)
        return linear.occurs_in(value)
