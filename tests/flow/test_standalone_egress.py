"""The way out of a sandbox that no gateway runs, while the operator has stopped everything."""

import pytest

from gatepost.egress.http import HttpRefusal
from gatepost.flow.standalone_egress import PanicCheckingStore, wait_for_panic
from gatepost.store.engine.sqlite_store import SqliteStore
from gatepost.store.rights import egress, switches


async def test_every_request_is_refused_from_the_moment_of_a_panic(store: SqliteStore) -> None:
    halting = PanicCheckingStore(store)
    before = await halting.read(egress.list_rules)
    await store.write(switches.turn_on, switches.PANIC, "", "operator", 1)

    with pytest.raises(HttpRefusal, match="stopped everything"):
        await halting.read(egress.list_rules)
    await wait_for_panic(halting)
    await store.write(switches.turn_off, switches.PANIC)
    assert await halting.read(egress.list_rules) == before
