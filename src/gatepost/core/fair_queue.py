"""A queue in which groups take turns: one that puts in a thousand items delays another's first by one item, not by a
thousand. Within a group, first come first served. Bookkeeping only, no I/O."""

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class FairQueue(Generic[K]):
    def __init__(self) -> None:
        self._lines: OrderedDict[str, dict[K, None]] = OrderedDict()  # the group whose turn is next stands first
        self._group: dict[K, str] = {}

    def __len__(self) -> int:
        return len(self._group)

    def __contains__(self, item: object) -> bool:
        return item in self._group

    def __iter__(self) -> Iterator[K]:
        return iter(self._group)

    def add(self, item: K, group: str) -> None:
        """Once: who waits already keeps its place."""
        if item not in self._group:
            self._group[item] = group
            self._lines.setdefault(group, {})[item] = None

    def next_group(self, rank: Callable[[str], int] = lambda group: 0) -> str | None:
        """Return whose turn it is: of the groups with the lowest rank the one that waits longest for its turn."""
        return min(self._lines, key=rank, default=None)

    def pop(self, group: str) -> K:
        """The group's first item. Then the other groups come first."""
        item = next(iter(self._lines[group]))
        self.discard(item)
        if group in self._lines:
            self._lines.move_to_end(group)
        return item

    def sizes(self) -> dict[str, int]:
        """How many items each group has, in the order of their turns."""
        return {group: len(line) for group, line in self._lines.items()}

    def discard(self, item: K) -> None:
        group = self._group.pop(item, None)
        if group is not None:
            line = self._lines[group]
            del line[item]
            if not line:
                del self._lines[group]
