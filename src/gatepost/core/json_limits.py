"""Limits of JSON from others: how many values a text holds, before anything is built of it, and how deep a value nests.

Each value becomes an object, whatever its size. Code that walks, encodes or scrubs a value later does so by recursion.
"""

import sys
from typing import Any

LONGEST_NUMBER = 640  # digits; writing an integer takes the square of them. Python allows no smaller limit
LARGEST_NUMBER = 2**63  # the first that no row of a store holds
MOST_VALUES = 10_000  # in one request, frame or call: what is larger is a file

_SIGNS = (b",", b"[", b"{")  # every value but the first follows one of them
DEEPEST = 100


def bound_values(raw: bytes) -> int:
    """Return how many values a text or a piece of one holds at most. Signs within its texts are counted, too."""
    return sum(map(raw.count, _SIGNS))


def has_few_values(raw: bytes, most: int = MOST_VALUES) -> bool:
    """Counted by the C library. Signs within texts are no values, and are left out where they matter."""
    if len(raw) <= most or bound_values(raw) <= most:
        return True
    plain = raw.replace(b"\\\\", b"").replace(b'\\"', b"")
    if plain.count(b'"') > 4 * most:  # a name and a text for each
        return False
    return bound_values(b"".join(plain.split(b'"')[::2])) <= most


def limit_numbers() -> None:
    """From now on, in this process, a longer integer is no JSON that can be read."""
    sys.set_int_max_str_digits(LONGEST_NUMBER)


def check_depth(value: Any) -> None:
    """A ValueError if it nests deeper. Level by level, so that no depth breaks the check itself."""
    level = [value]
    for _ in range(DEEPEST + 1):
        below: list[Any] = []
        for each in level:
            if isinstance(each, dict):
                below += [held for held in each.values() if isinstance(held, dict | list)]
            elif isinstance(each, list):
                below += [held for held in each if isinstance(held, dict | list)]
        if not below:
            return
        level = below
    raise ValueError(f"it is nested deeper than {DEEPEST} levels")
