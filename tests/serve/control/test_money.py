"""Operations on money."""

from pathlib import Path
from typing import Any

import pytest

from gatepost.core.clock import DAY
from gatepost.core.errors import Invalid, NotFound
from gatepost.core.event_bus import EventBus
from gatepost.core.home import Home
from gatepost.core.registry import load_package
from gatepost.core.settings import Config
from gatepost.serve.control.contract import OPERATIONS, OperationDeps
from gatepost.store.engine.sqlite_store import SqliteStore
from gatepost.store.money import costs, reservations
from gatepost.store.money.costs import NewCost
from gatepost.store.people import users
from gatepost.store.port import Db
from gatepost.store.rights import audit
from gatepost.store.sessions import groups
from gatepost_testing.clock import NOON, FixedClock

ADA = "telegram:user/9"


def settle_in(db: Db) -> None:
    groups.add(db, "acme", "Acme", "", NOON)
    users.add(db, ADA, "Ada", NOON)


@pytest.fixture
async def operation_deps(store: SqliteStore, tmp_path: Path) -> OperationDeps:
    load_package("gatepost.serve.control.operations")
    await store.write(settle_in)
    return OperationDeps(home=Home(tmp_path), store=store, clock=FixedClock(), config=Config(), events=EventBus())


async def do(operation_deps: OperationDeps, name: str, **args: Any) -> Any:
    return await OPERATIONS[name](operation_deps, args)


async def spend(operation_deps: OperationDeps, key: str, micro: int, at: int = NOON, **facts: str) -> None:
    new = NewCost(key=key, at=at, micro=micro, **{"folder": "acme", "model": "m", "user": ADA, **facts})
    await operation_deps.store.write(costs.add_external, new, NOON)


async def test_a_budget_is_set_shown_and_written_down(operation_deps: OperationDeps) -> None:
    await spend(operation_deps, "1", 250_000)
    told = await do(operation_deps, "budget.set", folder="acme", daily="1.00")

    daily = told["daily"]
    assert (told["kind"], told["name"], told["monthly"]) == ("group", "acme", None)
    assert (daily["limit_usd"], daily["spent_usd"], daily["reserved_usd"], daily["left_usd"]) == (1, 0.25, 0, 0.75)
    assert daily["ends_at"] == "2027-01-16T00:00:00.000Z"
    assert await do(operation_deps, "budget.show") == [told]
    assert [row[3] for row in await operation_deps.store.read(audit.list_latest, 10)] == ["budget.set"]


async def test_what_is_left_out_stays_and_none_takes_a_limit_away(operation_deps: OperationDeps) -> None:
    await do(operation_deps, "budget.set", folder="acme", daily="1", monthly="20")
    await do(operation_deps, "budget.set", folder="acme", daily="2")
    [both] = await do(operation_deps, "budget.show")
    await do(operation_deps, "budget.set", folder="acme", daily="none")
    [one] = await do(operation_deps, "budget.show")
    await do(operation_deps, "budget.set", folder="acme", monthly="None")

    assert (both["daily"]["limit_usd"], both["monthly"]["limit_usd"]) == (2, 20)
    assert (one["daily"], one["monthly"]["limit_usd"]) == (None, 20)
    assert await do(operation_deps, "budget.show") == []


async def test_people_and_the_gateway_have_budgets_too(operation_deps: OperationDeps) -> None:
    await do(operation_deps, "budget.set", user=ADA, monthly="3")
    await do(operation_deps, "budget.set", instance=True, daily="5")

    assert [(each["kind"], each["name"]) for each in await do(operation_deps, "budget.show")] == [
        ("instance", ""),
        ("user", ADA),
    ]


@pytest.mark.parametrize(
    ("args", "error", "text"),
    [
        ({"daily": "1"}, Invalid, "whose budget"),
        ({"folder": "acme", "instance": True, "daily": "1"}, Invalid, "only one of them"),
        ({"folder": "acme"}, Invalid, "how much"),
        ({"folder": "acme", "daily": "much"}, Invalid, "daily: 'much' is not an amount"),
        ({"folder": "acme", "monthly": "-1"}, Invalid, "monthly: -1 is negative"),
        ({"folder": "ghost", "daily": "1"}, NotFound, "ghost"),
        ({"user": "telegram:user/1", "daily": "1"}, NotFound, "gatepost user add"),
        ({"folder": "acme", "daily": 1}, Invalid, "daily"),
    ],
)
async def test_what_makes_no_budget_is_named_and_nothing_is_changed(
    operation_deps: OperationDeps, args: dict[str, Any], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        await do(operation_deps, "budget.set", **args)
    assert await do(operation_deps, "budget.show") == []


async def test_the_budget_of_a_group_that_is_gone_can_be_taken_away(operation_deps: OperationDeps) -> None:
    await do(operation_deps, "budget.set", folder="acme", daily="1")
    await operation_deps.store.write(groups.remove, "acme")

    assert len(await do(operation_deps, "budget.show")) == 1  # made again, it would not be free of it
    await do(operation_deps, "budget.set", folder="acme", daily="none")
    assert await do(operation_deps, "budget.show") == []


async def test_costs_are_told_with_their_total_and_what_is_in_flight(operation_deps: OperationDeps) -> None:
    await spend(operation_deps, "1", 250_000)
    await spend(operation_deps, "2", 500_000, NOON - DAY, folder="home", model="n")
    await operation_deps.store.write(reservations.reserve, "acme", ADA, "s", "t", "m", 40_000, NOON)

    told = await do(operation_deps, "cost.show")
    by_day = await do(operation_deps, "cost.show", by="day", days=1)

    assert (told["by"], told["total_usd"], told["reserved_usd"]) == ("group", 0.75, 0.04)
    assert [(row["group"], row["usd"], row["calls"]) for row in told["rows"]] == [("home", 0.5, 1), ("acme", 0.25, 1)]
    assert [(row["day"], row["usd"]) for row in by_day["rows"]] == [("2027-01-15", 0.25)]
    assert (by_day["total_usd"], by_day["since"]) == (0.25, "2027-01-15T00:00:00.000Z")


@pytest.mark.parametrize("args", [{"by": "moon"}, {"days": -1}])
async def test_a_question_that_makes_no_sense_is_refused(operation_deps: OperationDeps, args: dict[str, Any]) -> None:
    with pytest.raises(Invalid):
        await do(operation_deps, "cost.show", **args)
