"""The way out of a sandbox that no gateway runs: the rules, secrets and budgets of its group, from the store itself.
Also beside a daemon: the store takes writers of several processes.

No daemon ends what runs here, so this looks at the operator's switch by itself: before every request, and meanwhile.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TypeVar, TypeVarTuple

from gatepost.core.bells import Bells
from gatepost.core.clock import SystemClock
from gatepost.core.home import Home
from gatepost.core.keyring import Keyring
from gatepost.core.settings import Config
from gatepost.egress.http import Refusal
from gatepost.egress.models import Models
from gatepost.egress.price_list import PriceList
from gatepost.egress.socket import EgressAround
from gatepost.flow.delivery.outgoing import Reach
from gatepost.flow.spending import Keys, Purse
from gatepost.store import switches
from gatepost.store.port import Db, Store
from gatepost.store.secrets import Secrets
from gatepost.store.writer import SqliteStore

STOPPED = "whoever runs this gateway has stopped everything (`gatepost panic`)"
LOOK_S = 0.25  # how long a panic may go unseen where nothing is asked for

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class Halting:
    """A store that reads nothing for the way out while everything is stopped: no request gets past its first rule."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.write, self.post, self.look = store.write, store.post, store.look

    async def read(self, fn: Callable[[Db, *Ts], T], *args: *Ts, within: float | None = None, lane: str = "") -> T:
        return await self._store.read(_unless_stopped, fn, args, within=within, lane=lane)


def _unless_stopped(db: Db, fn: Callable[[Db, *Ts], T], args: tuple[*Ts]) -> T:
    if switches.get(db, switches.PANIC) is not None:
        raise Refusal(403, STOPPED)
    return fn(db, *args)


async def stopped(store: Store) -> None:
    """Returns when everything is to end."""
    while True:
        if store.look(switches.get, switches.PANIC) is not None:
            return
        await asyncio.sleep(LOOK_S)  # another process turns it on: no bell of ours rings


@asynccontextmanager
async def way_out(home: Home, config: Config) -> AsyncIterator[EgressAround]:
    """What an EgressSocket needs, until the block is left."""
    store, clock = SqliteStore(home.store, readers=1), SystemClock()
    keys = Keys(store, Secrets(store, Keyring(home), clock))
    # No room is told of a budget: whoever runs the command reads it there.
    purse = Purse(store, clock, Reach({}), Bells())
    prices = PriceList(home, config)
    models = Models(config, purse, keys, prices, prices.tool)
    try:
        yield EgressAround(store=Halting(store), clock=clock, models=models, keys=keys)
    finally:
        await models.close()
        store.close()
