"""The way out of a sandbox that no gateway runs: the rules, secrets and budgets of its group, from the store itself.
Also beside a daemon: the store takes writers of several processes.

No daemon ends what runs here, so this looks at the operator's switch by itself: before every request, and meanwhile.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TypeVar, TypeVarTuple

from gatepost.core.clock import SystemClock
from gatepost.core.event_bus import EventBus
from gatepost.core.home import Home
from gatepost.core.keyring import Keyring
from gatepost.core.settings import Config
from gatepost.egress.egress_socket import EgressDeps
from gatepost.egress.http import HttpRefusal
from gatepost.egress.model_proxy import ModelProxy
from gatepost.egress.price_list import PriceList
from gatepost.flow.budgets_and_secrets import SpenderSecrets, StoreBudget
from gatepost.flow.delivery.outgoing_messages import ChannelInstances
from gatepost.store.engine.open_store import open_store
from gatepost.store.port import Db, Store
from gatepost.store.rights import switches
from gatepost.store.rights.secrets import SecretReader

STOPPED = "whoever runs this gateway has stopped everything (`gatepost panic`)"
LOOK_S = 0.25  # how long a panic may go unseen where nothing is asked for

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class PanicCheckingStore:
    """A store that reads nothing for the way out while everything is stopped: no request gets past its first rule."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.write, self.post = store.write, store.post
        self.rewrite_files, self.truncate_log = store.rewrite_files, store.truncate_log

    async def read(self, fn: Callable[[Db, *Ts], T], *args: *Ts, within: float | None = None, lane: str = "") -> T:
        return await self._store.read(_read_unless_panic, fn, args, within=within, lane=lane)


def _read_unless_panic(db: Db, fn: Callable[[Db, *Ts], T], args: tuple[*Ts]) -> T:
    asked: object = fn
    if asked is not switches.get and switches.get(db, switches.PANIC) is not None:
        raise HttpRefusal(403, STOPPED)
    return fn(db, *args)


async def wait_for_panic(store: Store) -> None:
    """Returns when everything is to end."""
    while True:
        if await store.read(switches.get, switches.PANIC) is not None:
            return
        await asyncio.sleep(LOOK_S)  # another process turns it on: no bell of ours rings


@asynccontextmanager
async def open_standalone_egress(home: Home, config: Config) -> AsyncIterator[EgressDeps]:
    """Yield what an EgressSocket needs, until the block is left."""
    store, clock = open_store(home, config, readers=1), SystemClock()
    keys = SpenderSecrets(store, SecretReader(store, Keyring(home), clock))
    # No room is told of a budget: whoever runs the command reads it there.
    purse = StoreBudget(store, clock, ChannelInstances({}), EventBus())
    prices = PriceList(home, config)
    models = ModelProxy(config, purse, keys, prices, prices.tool)
    try:
        yield EgressDeps(store=PanicCheckingStore(store), clock=clock, models=models, keys=keys)
    finally:
        await models.close()
        store.close()
