"""How deep a value from JSON may nest: whoever walks, encodes or scrubs it later does so by recursion. Pure."""

from typing import Any

DEEPEST = 100


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
