"""Rules change rarely and are read with every message: routes, rooms, people and where to reach them, access, watchers,
switches, budgets, names of destinations.

One row names the state that they are in. Whoever writes to one of their tables gives it a new name in the same
transaction (`Db` sees to that, so nobody can forget it), and whoever keeps what it has read compares the name first.
So several gateways on one store keep their own caches, and a transaction that is undone leaves nothing behind: names
are never used twice.
"""

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any, TypeVar, TypeVarTuple

from gatepost.core import ids
from gatepost.store.port import Db

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

TABLES = frozenset(
    {
        "acl",
        "budgets",
        "destinations",
        "direct_rooms",
        "entrances",
        "group_members",
        "groups",
        "identities",
        "memberships",
        "request_cards",
        "rooms",
        "routes",
        "switches",
        "user_roles",
        "users",
        "watchers",
    }
)
MOST = 10_000  # results that are kept

_WRITE = re.compile(r"\s*(?:INSERT\s+INTO|UPDATE|DELETE\s+FROM)\s+(\w+)", re.IGNORECASE)


@lru_cache(maxsize=4096)
def changes_rules(sql: str) -> bool:
    """Whether a statement writes to one of their tables."""
    found = _WRITE.match(sql)
    return found is not None and found[1].lower() in TABLES


def rename_state(db: Db) -> None:
    """What anybody has kept is not valid any more, once this is committed."""
    db.run("UPDATE rule_state SET name = ?", (ids.token(12),))


class RuleCache:
    """Results of reads, for one thread. `renew` at the beginning of each transaction, then `read`."""

    def __init__(self) -> None:
        self._state = ""
        self._kept: dict[tuple[Any, ...], Any] = {}

    def renew(self, db: Db) -> None:
        row = db.row("SELECT name FROM rule_state")
        state = str(row[0]) if row else ""
        if state != self._state or not state or len(self._kept) > MOST:
            self._kept.clear()
            self._state = state

    def read(self, db: Db, fn: Callable[[Db, *Ts], T], *args: *Ts) -> T:
        """What `fn` reads of these tables, and of no other. Nobody may change the answer: others get it, too."""
        key = (fn, *args)
        try:
            found: T = self._kept[key]
        except KeyError:
            found = self._kept[key] = fn(db, *args)
        return found
