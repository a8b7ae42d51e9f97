"""A cache for rules, which change rarely and are read with every message: routes, rooms, people and where to reach
them, access, watchers, switches, budgets, names of destinations.

One row names the state that they are in. A write to one of their tables gives it a new name in the same transaction;
`Db` sees to that, so nobody can forget it. A cache compares the name before it answers. So several gateways on one
store keep their own caches, and a transaction that is undone leaves nothing behind: names are never used twice.

Engagements and choices (`PLACES`) are read as often and change while people talk. They have a name of their own, so
that such a change leaves the rules where they are. A change of the rules ends both: it may remove what stands there.
"""

import re
import threading
from collections.abc import Callable
from enum import StrEnum
from functools import lru_cache
from typing import Any, TypeVar, TypeVarTuple

from gatepost.core import ids
from gatepost.store.port import Db, Row

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

TABLES = frozenset(
    {
        "acl",
        "budgets",
        "destinations",
        "direct_rooms",
        "entrances",
        "grants",
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
PLACES = frozenset({"engagements", "sticky_choices"})
MOST = 10_000  # results that are kept
STATES = "SELECT name, places FROM rule_state"

_WRITE = re.compile(r"\s*(?:INSERT\s+INTO|UPDATE|DELETE\s+FROM)\s+(\w+)", re.IGNORECASE)


class RuleState(StrEnum):
    """A state with a name of its own: the column of `rule_state` with it."""

    RULES = "name"
    PLACES = "places"


@lru_cache(maxsize=4096)
def find_changed_state(sql: str) -> RuleState | None:
    """Return what a statement changes, if it writes to one of these tables."""
    found = _WRITE.match(sql)
    table = found[1].lower() if found else ""
    return RuleState.RULES if table in TABLES else RuleState.PLACES if table in PLACES else None


def rename_state(db: Db, state: RuleState = RuleState.RULES) -> None:
    """Have everybody drop what they keep, once this is committed."""
    db.execute_later(f"UPDATE rule_state SET {state} = ?", (ids.token(12),))


def get_state(db: Db) -> str:
    """Return the name of the state that the rules are in."""
    row = db.row("SELECT name FROM rule_state")
    return str(row[0]) if row else ""


class RuleCache(threading.local):
    """Results of reads. Call `renew` at the beginning of each transaction, then `read`. Each thread has its own: a read
    behind one's own writes is nobody else's before it is committed."""

    def __init__(self) -> None:
        self._states = ("", "")
        self._asked: Callable[[], list[Row]] | None = None
        self._kept: dict[tuple[Any, ...], Any] = {}
        self._places: dict[tuple[Any, ...], Any] = {}

    def renew(self, db: Db) -> None:
        """Ask for the state that the rules are in. The next `read` compares it."""
        self._asked = db.query_later(STATES)

    def read(self, db: Db, fn: Callable[[Db, *Ts], T], *args: *Ts) -> T:
        """Return what `fn` reads of these tables, and of no other. Nobody may change the answer: others get it, too."""
        if self._asked is not None:
            self._compare(self._asked())
        key = (fn, *args)
        if key not in self._kept:
            self._kept[key] = fn(db, *args)
        found: T = self._kept[key]
        return found

    def read_place(self, db: Db, fn: Callable[[Db, *Ts], T], *args: *Ts) -> T:
        """Return what `fn` reads of `PLACES`, in the same way."""
        if self._asked is not None:
            self._compare(self._asked())
        key = (fn, *args)
        if key not in self._places:
            self._places[key] = fn(db, *args)
        found: T = self._places[key]
        return found

    def _compare(self, rows: list[Row]) -> None:
        """Drop what is kept of another state than the rules are in."""
        self._asked = None
        states = (str(rows[0][0]), str(rows[0][1])) if rows else ("", "")
        if states[0] != self._states[0] or not states[0] or len(self._kept) > MOST:
            self._kept.clear()
            self._places.clear()
        elif states[1] != self._states[1] or len(self._places) > MOST:
            self._places.clear()
        self._states = states
