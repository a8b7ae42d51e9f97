"""Costs: booked once, added up."""

from datetime import UTC, datetime
from typing import Any

import pytest
from tests.store.conftest import Desk

from gatepost.core.clock import DAY, Period
from gatepost.store.money import budgets, costs
from gatepost.store.money.budgets import BudgetScope, BudgetScopeKind
from gatepost.store.money.costs import NewCost, TokenCounts
from gatepost.store.port import Db

NOON = int(datetime(2026, 11, 15, 12, tzinfo=UTC).timestamp()) * 1_000_000


def add(db: Db, key: str, micro: int, at: int = NOON, **facts: str) -> bool:
    facts: dict[str, Any] = {"folder": "acme", "model": "m", "user": "u", **facts}  # type: ignore[no-redef]
    return costs.add_external(db, NewCost(key=key, at=at, micro=micro, usage=TokenCounts(1, 2), **facts), NOON)


@pytest.mark.parametrize(
    ("by", "expected"),
    [
        ("group", [("acme/eng", 7), ("acme", 3)]),
        ("user", [("v", 6), ("u", 4)]),
        ("model", [("m", 5), ("n", 5)]),
        ("day", [("2026-11-15", 3), ("2026-11-16", 7)]),
    ],
)
def test_costs_add_up(db: Db, by: str, expected: list[tuple[str, int]]) -> None:
    add(db, "1", 1)
    add(db, "2", 2, user="v", model="n")
    add(db, "3", 3, NOON + DAY, folder="acme/eng", model="n")
    add(db, "4", 4, NOON + DAY, folder="acme/eng", user="v")
    add(db, "5", 0, NOON + DAY, folder="acme/eng", model="n", user="v")

    assert [(each.key, each.micro) for each in costs.list_sums(db, by)] == expected
    assert sum(each.calls for each in costs.list_sums(db, by)) == 5
    assert sum(each.micro for each in costs.list_sums(db, by, NOON + 1)) == 7


def test_what_is_told_twice_is_booked_once(db: Db) -> None:
    budgets.put(db, BudgetScope(BudgetScopeKind.GROUP, "acme"), Period.DAY, 10, "operator", NOON)

    assert add(db, "1", 4, folder="acme/eng")
    assert not add(db, "1", 4, folder="acme/eng")

    assert budgets.get_remaining(db, "acme", "", NOON) == 6


def test_the_first_who_wrote_pays_for_the_turn(desk: Desk) -> None:
    turn = desk.begun("hello", "and more")

    assert costs.find_payer(desk.db, turn.id) == "fake:user/1"
    assert costs.find_payer(desk.db, "t-nothing") == ""


def test_between_turns_the_last_who_asked_for_one_pays(desk: Desk) -> None:
    assert costs.find_last_payer(desk.db, desk.session.id) == ""
    desk.begun("hello")
    assert costs.find_last_payer(desk.db, desk.session.id) == "fake:user/1"
    assert costs.find_last_payer(desk.db, "s-other") == ""
