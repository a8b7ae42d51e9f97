"""The way out of a sandbox that no gateway runs, while the operator has stopped everything."""

import pytest

from gatepost.egress.http import Refusal
from gatepost.flow.way_out import Halting, stopped
from gatepost.store import egress, switches
from gatepost.store.writer import SqliteStore


async def test_every_request_is_refused_from_the_moment_of_a_panic(store: SqliteStore) -> None:
    halting = Halting(store)
    before = await halting.read(egress.rules)
    await store.write(switches.turn_on, switches.PANIC, "", "operator", 1)

    with pytest.raises(Refusal, match="stopped everything"):
        await halting.read(egress.rules)
    await stopped(halting)
    await store.write(switches.turn_off, switches.PANIC)
    assert await halting.read(egress.rules) == before
