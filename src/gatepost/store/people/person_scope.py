"""The person whose rows are looked for when they are forgotten or exported."""

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

FORGOTTEN = "forgotten"  # stands for them where somebody must be named


class PersonScope(Struct, frozen=True):
    """The person whose rows are looked for."""

    names: tuple[str, ...]  # their identities
    rooms: tuple[tuple[str, str], ...] = ()  # (instance, address) of their direct rooms

    @property
    def condition(self) -> tuple[str, tuple[str, ...]]:
        """Return the condition that a row `m` of messages is the person's, and the parameters."""
        marks = make_marks(self.names)
        places = " OR (m.instance = ? AND m.address = ?)" * len(self.rooms)
        sql = (
            f"(m.sender IN ({marks}) OR EXISTS (SELECT 1 FROM origins g WHERE g.message_id = m.id"
            f" AND g.person IN ({marks})){places})"
        )
        return sql, (*self.names, *self.names, *(each for room in self.rooms for each in room))


def make_marks(values: Sequence[Any]) -> str:
    """Question marks for a list of parameters; an empty list matches nothing."""
    return ", ".join("?" * len(values)) or "NULL"
