"""The way out of a sandbox that no gateway runs: the rules, secrets and budgets of its group, from the store itself.
Also beside a daemon: the store takes writers of several processes.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

from gatepost.core.bells import Bells
from gatepost.core.clock import SystemClock
from gatepost.core.home import Home
from gatepost.core.keyring import Keyring
from gatepost.core.settings import Config
from gatepost.egress.models import Models
from gatepost.egress.prices import own_prices, price
from gatepost.egress.socket import EgressAround
from gatepost.flow.delivery.outgoing import Reach
from gatepost.flow.spending import Keys, Purse
from gatepost.store.secrets import Secrets
from gatepost.store.writer import SqliteStore


@asynccontextmanager
async def way_out(home: Home, config: Config) -> AsyncIterator[EgressAround]:
    """What an EgressSocket needs, until the block is left."""
    store, clock = SqliteStore(home.store, readers=1), SystemClock()
    keys = Keys(store, Secrets(store, Keyring(home), clock))
    # No room is told of a budget: whoever runs the command reads it there.
    purse = Purse(store, clock, Reach({}), Bells())
    models = Models(config, purse, keys, partial(price, own=own_prices(home, config)))
    try:
        yield EgressAround(store=store, clock=clock, models=models, keys=keys)
    finally:
        await models.close()
        store.close()
