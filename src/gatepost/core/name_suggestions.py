"""The name that was probably meant by one that is not known."""

import difflib
from collections.abc import Iterable


def did_you_mean(given: str, known: Iterable[str]) -> str:
    """`; did you mean 'x'?`, to be put behind an error; '' if nothing is near."""
    names = {name.lower(): name for name in known}
    near = difflib.get_close_matches(given.lower()[:200], names, n=1)
    return f"; did you mean {str(names[near[0]])!r}?" if near else ""
