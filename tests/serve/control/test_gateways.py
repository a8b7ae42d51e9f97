"""Operations on gateways that share a store."""

from pathlib import Path
from typing import Any

import pytest

from gatepost.core.errors import Invalid, NotFound
from gatepost.core.event_bus import EventBus
from gatepost.core.home import Home
from gatepost.core.records import replace
from gatepost.core.settings import Config
from gatepost.serve.control.contract import OPERATIONS, OperationDeps
from gatepost.store.engine.sqlite_store import SqliteStore
from gatepost.store.gateways import gateways, group_places
from gatepost.store.gateways.gateways import GatewayIdentity, GatewayState
from gatepost.store.port import Db
from gatepost.store.rights import audit
from gatepost.store.sessions import groups, sessions
from gatepost.store.sessions.sessions import SessionMode
from gatepost_testing.clock import FixedClock

LEASE = 6_000_000


@pytest.fixture
async def deps(store: SqliteStore, store_path: Path) -> OperationDeps:
    clock = FixedClock()
    await store.write(fill, clock.now())
    return OperationDeps(home=Home(store_path.parent), store=store, clock=clock, config=Config(), events=EventBus())


def fill(db: Db, now: int) -> None:
    """`a` runs a session and the schedule, `dead` has lost its lease, `gone` has left."""
    for name, at in (("a", now), ("dead", now - 2 * LEASE), ("gone", now)):
        new = GatewayIdentity(name=name, home=name, host="host", version="1", schema_number=49, capacity=8)
        epoch = gateways.register(db, new, LEASE, 1, at)
        if name == "gone":
            gateways.set_state(db, name, epoch, GatewayState.GONE)
    groups.add(db, "acme", "Acme", "", now)
    own = sessions.find_or_add(db, SessionMode.SHARED, "acme", "fake", "fake:room/1", "", now)
    assert gateways.claim_session(db, own.id, "a")
    gateways.claim_duties(db, ["schedule"], "a", now)


async def run(deps: OperationDeps, name: str, /, **args: Any) -> Any:
    return await OPERATIONS[name](deps, args)


async def test_gateways_are_listed_with_their_state_duties_and_sessions(deps: OperationDeps) -> None:
    found = await run(deps, "gateway.list")
    assert [(each["name"], each["alive"], each["state"], each["sessions"], each["duties"]) for each in found] == [
        ("a", True, "running", 1, ["schedule"]),
        ("dead", False, "running", 0, []),
        ("gone", False, "gone", 0, []),
    ]
    shown = await run(deps, "gateway.show", name="a")
    assert shown["capacity"] == 8 and len(shown["running_sessions"]) == 1
    with pytest.raises(NotFound, match="gatepost gateway list"):
        await run(deps, "gateway.show", name="b")


async def test_a_gateway_that_runs_is_drained_and_that_is_recorded(deps: OperationDeps) -> None:
    assert (await run(deps, "gateway.drain", name="a"))["state"] == "draining"
    row = await deps.store.read(gateways.get, "a")
    assert row is not None and row.state is GatewayState.DRAINING
    renewal = await deps.store.write(gateways.renew, "a", row.epoch, deps.clock.now() + LEASE)
    assert renewal is not None and renewal.state is GatewayState.DRAINING  # by which it hears of it
    [record] = await deps.store.read(audit.list_latest, 1)
    assert "gateway.drain" in record


@pytest.mark.parametrize("name", ["dead", "gone"])
async def test_what_does_not_run_is_not_drained(deps: OperationDeps, name: str) -> None:
    with pytest.raises(Invalid, match=f"gatepost gateway forget {name}"):
        await run(deps, "gateway.drain", name=name)


async def test_one_that_is_gone_is_forgotten_and_no_other(deps: OperationDeps) -> None:
    with pytest.raises(Invalid, match="gatepost gateway drain a"):
        await run(deps, "gateway.forget", name="a")
    with pytest.raises(Invalid, match="nobody has taken over from it yet"):
        await run(deps, "gateway.forget", name="dead")
    await run(deps, "gateway.forget", name="gone")
    assert [each["name"] for each in await run(deps, "gateway.list")] == ["a", "dead"]


async def test_one_on_which_groups_lie_is_not_forgotten_and_the_way_out_is_named(deps: OperationDeps) -> None:
    for each in ("acme", "beta"):
        await deps.store.write(group_places.claim, each, "gone", deps.clock.now())
    with pytest.raises(
        Invalid, match=r"groups lie on gone: acme, beta; .*`gatepost group move acme GATEWAY --without-f"
    ):
        await run(deps, "gateway.forget", name="gone")
    shared = replace(deps, config=Config({"groups.place": "shared"}))  # where it does not matter who made them
    assert (await run(shared, "gateway.forget", name="gone"))["name"] == "gone"
