"""Writes of a gateway that may end within any transaction: then nothing of it stays."""

from collections.abc import Callable
from typing import TypeVar, TypeVarTuple

from gatepost.store.port import Db, Store

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class KilledError(Exception):
    """The gateway ends within a transaction."""


async def write_or_end(store: Store, killed: bool, fn: Callable[[Db, *Ts], T], *args: *Ts) -> T | None:
    """`killed`: it ends before the commit, and there is no answer."""

    def unit(db: Db) -> T:
        done = fn(db, *args)
        if killed:
            raise KilledError
        return done

    try:
        return await store.write(unit)
    except KilledError:
        return None
