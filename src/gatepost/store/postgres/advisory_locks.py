"""Locks of a transaction: advisory ones, in one order for all, so that nobody waits in a circle.

A unit cannot always know beforehand which locks it will need. A lock that comes out of the order is taken only if it is
free. Else the unit is undone and run again, with all locks that it has asked for so far taken first, in order.
"""

from collections.abc import Iterable
from functools import lru_cache
from hashlib import sha256

from gatepost.store.port import LockKind

_PLACES = {kind: place for place, kind in enumerate(LockKind)}

LockName = tuple[int, str]  # the place of its kind in the order, and the key

TAKE, TRY = "SELECT pg_advisory_xact_lock(?)", "SELECT pg_try_advisory_xact_lock(?)"
SHARE, TRY_SHARE = "SELECT pg_advisory_xact_lock_shared(?)", "SELECT pg_try_advisory_xact_lock_shared(?)"
_GATEWAYS = -1  # before all kinds


class LockOrderConflict(Exception):
    """Somebody else has a lock that was asked for out of the order. `wanted`: all that the unit has asked for."""

    def __init__(self, wanted: frozenset[LockName]) -> None:
        super().__init__("somebody else has what this needs, too")
        self.wanted = wanted


class TransactionLocks:
    """Those of one transaction."""

    def __init__(self) -> None:
        self._held: set[LockName] = set()
        self._shared: set[LockName] = set()  # of those that are held, together with others

    def clear(self) -> None:
        self._held.clear()
        self._shared.clear()

    def find_way(self, name: LockName) -> str:
        """The statement that takes it; '' if it is held. One that is shared is not waited for: two that share it would
        wait for each other."""
        if name in self._held:
            return TRY if name in self._shared else ""
        return TRY if self._held and name < max(self._held) else TAKE

    def add_shared(self, name: LockName) -> None:
        if name not in self._held:
            self._held.add(name)
            self._shared.add(name)

    def add(self, name: LockName) -> None:
        self._held.add(name)
        self._shared.discard(name)

    def make_conflict(self, name: LockName) -> LockOrderConflict:
        return LockOrderConflict(frozenset({*self._held, name}))


def make_gateway_number(gateway: str) -> int:
    """Return the number of the lock that all transactions of a gateway share. Ending the gateway's life takes it alone,
    and so waits for what is under way. A lock of the row itself would do the same, but each costs the server a write,
    and several at a time a multixact."""
    return make_number((_GATEWAYS, gateway))


def make_name(kind: LockKind, key: Iterable[str]) -> LockName:
    return _PLACES[kind], "\0".join(key)


@lru_cache(maxsize=4096)
def make_number(name: LockName) -> int:
    """Two names with one number wait for each other now and then, which harms nobody."""
    return int.from_bytes(
        sha256(f"gatepost\0{name[0]}\0{name[1]}".encode("utf-8", "surrogatepass")).digest()[:8], "big", signed=True
    )
