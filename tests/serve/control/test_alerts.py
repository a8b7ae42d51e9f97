"""Operations on alerts: what is listed, who may mute, and what a test says."""

from typing import Any

import pytest

from gatepost.core.clock import HOUR, MINUTE, iso
from gatepost.core.errors import Invalid, NotFound, Refused, Unavailable
from gatepost.core.event_bus import EventBus
from gatepost.core.home import Home
from gatepost.core.records import replace
from gatepost.core.settings import Config
from gatepost.serve.control.contract import OPERATIONS, OperationDeps
from gatepost.store.engine.sqlite_store import SqliteStore
from gatepost.store.gateways import alerts
from gatepost.store.gateways.alerts import AlertKey
from gatepost.store.people import users
from gatepost.store.port import Db
from gatepost.store.rights import audit
from gatepost_testing.clock import FixedClock

NOON = FixedClock().now()
ADA = "telegram:user/9"


@pytest.fixture
async def deps(store: SqliteStore, home: Home) -> OperationDeps:
    await store.write(fill)
    return OperationDeps(home=home, store=store, clock=FixedClock(), config=Config(), events=EventBus())


def fill(db: Db) -> None:
    """Three that are open and one that is over."""
    alerts.begin(db, AlertKey("agent", "acme"), "", NOON - HOUR)
    alerts.begin(db, AlertKey("channel_deaf", "tg"), "", NOON - 1)
    alerts.begin(db, AlertKey("disk_full"), "", NOON - 2 * HOUR)
    alerts.begin(db, AlertKey("uncertain"), "3", NOON - 3 * HOUR)
    rows = {each.condition: each.id for each in alerts.list_open(db)}
    alerts.record_message(db, [rows["disk_full"], rows["uncertain"]], "k", "telegram", NOON - HOUR)
    alerts.end(db, [rows["uncertain"]], "k2", NOON - MINUTE)


async def run(deps: OperationDeps, name: str, /, **args: Any) -> Any:
    return await OPERATIONS[name](deps, args)


async def find(deps: OperationDeps, condition: str) -> Any:
    return next(each for each in await run(deps, "alert.list", over=True) if each["condition"] == condition)


async def test_the_severe_one_stands_first_and_each_says_how_it_stands(deps: OperationDeps) -> None:
    found = await run(deps, "alert.list")
    assert [(each["condition"], each["state"], each["told"]) for each in found] == [
        ("disk_full", "told", "telegram"),
        ("channel_deaf", "new", ""),
        ("agent", "untold", ""),
    ]
    assert found[0]["text"] == "The disk is full."
    assert (await find(deps, "uncertain"))["state"] == "over"


async def test_a_mute_holds_for_its_hours_can_be_taken_back_and_is_recorded(deps: OperationDeps) -> None:
    alert = (await find(deps, "agent"))["id"]
    muted = await run(deps, "alert.mute", alert=alert, hours=2)
    assert (muted["state"], muted["muted_until"]) == ("muted", iso(NOON + 2 * HOUR))
    assert (await run(deps, "alert.mute", alert=alert, hours=0))["state"] == "untold"
    recorded = [each[3] for each in await deps.store.read(audit.list_latest, 10)]
    assert recorded.count("alert.mute") == 2


async def test_what_is_over_or_unknown_cannot_be_muted_nor_for_ever(deps: OperationDeps) -> None:
    for alert in ((await find(deps, "uncertain"))["id"], "al-nobody"):
        with pytest.raises(NotFound, match="gatepost alert list"):
            await run(deps, "alert.mute", alert=alert)
    with pytest.raises(Invalid):
        await run(deps, "alert.mute", alert="al-1", hours=100_000)


async def test_somebody_without_the_right_neither_sees_nor_mutes_nor_tests(deps: OperationDeps) -> None:
    await deps.store.write(users.add, ADA, "Ada", 1)
    for name, args in (("alert.list", {}), ("alert.mute", {"alert": "al-1"}), ("alert.test", {})):
        with pytest.raises(Refused):
            await run(replace(deps, caller=ADA), name, **args)


async def test_a_test_needs_a_running_gateway(deps: OperationDeps) -> None:
    with pytest.raises(Unavailable, match="running gateway"):
        await run(deps, "alert.test")
