"""What was spent elsewhere, as an agent reports it."""

import json
from pathlib import Path
from typing import Any

import pytest

from gatepost.core.clock import Period
from gatepost.core.registry import load_package
from gatepost.store.engine.sqlite_store import SqliteStore
from gatepost.store.money import budgets, costs
from gatepost.store.money.budgets import BudgetScope, BudgetScopeKind
from gatepost_testing.gate_agent import GateAgent, is_invalid

load_package("gatepost.tools")


@pytest.fixture
async def agent(tmp_path: Path, store: SqliteStore) -> GateAgent:
    return await GateAgent.create(tmp_path, store, "acme/eng/sre")


async def test_a_cost_is_booked_for_the_group_and_for_who_asked(agent: GateAgent) -> None:
    answer = await agent.call(
        "log_external_cost", provider="openai", model="gpt-5", cost_usd=0.0251, input_tokens=10, output_tokens=20
    )

    assert json.loads(answer.text) == {"ok": True, "cents": 3, "left_usd": None}
    [row] = await agent.store.read(costs.list_sums, "model")
    assert (row.key, row.micro, row.input, row.output) == ("openai:gpt-5", 25_100, 10, 20)
    assert [each.key for each in await agent.store.read(costs.list_sums, "group")] == ["acme/eng/sre"]
    assert [each.key for each in await agent.store.read(costs.list_sums, "user")] == ["fake:user/1"]
    assert await agent.audited() == [("log_external_cost", "allowed")]


async def test_it_counts_up_the_tree_and_tells_what_is_left(agent: GateAgent) -> None:
    now = agent.deps.clock.now()
    await agent.store.write(
        budgets.put, BudgetScope(BudgetScopeKind.GROUP, "acme"), Period.MONTH, 1_000_000, "operator", now
    )

    first = await agent.call("log_external_cost", provider="x", model="y", cost_usd=0.4)
    second = await agent.call("log_external_cost", provider="x", model="y", cost_usd=2)

    assert json.loads(first.text)["left_usd"] == 0.6
    assert json.loads(second.text)["left_usd"] == 0


async def test_what_was_spent_is_booked_when_the_budget_is_spent(agent: GateAgent) -> None:
    """Else the books would say less than was spent."""
    await agent.store.write(
        budgets.put, BudgetScope(BudgetScopeKind.GROUP, "acme"), Period.MONTH, 1_000_000, "operator", 1
    )
    answers = [await agent.call("log_external_cost", provider="x", model="y", cost_usd=2) for _ in range(2)]

    assert not any(each.failed for each in answers)
    assert [each.micro for each in await agent.store.read(costs.list_sums, "group")] == [4_000_000]


async def test_the_same_call_is_booked_once(agent: GateAgent) -> None:
    for _ in range(2):
        await agent.call("log_external_cost", "call-7", provider="x", model="y", cost_usd=0.4)

    assert [each.micro for each in await agent.store.read(costs.list_sums, "group")] == [400_000]


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"provider": "x", "model": "y", "cost_usd": -1}, "cost_usd"),
        ({"provider": "x", "model": "y", "cost_usd": "much"}, "cost_usd"),
        ({"provider": "x", "model": "y"}, "cost_usd"),
        ({"provider": "", "model": "y", "cost_usd": 1}, "provider"),
        ({"provider": "x", "model": "y" * 201, "cost_usd": 1}, "model"),
        ({"provider": "x", "model": "y", "cost_usd": 1, "input_tokens": -1}, "input_tokens"),
    ],
)
async def test_bad_input_is_named(agent: GateAgent, arguments: dict[str, Any], field: str) -> None:
    answer = await agent.call("log_external_cost", **arguments)

    assert is_invalid(answer)
    assert field in answer.text
    assert await agent.store.read(costs.list_sums, "group") == []


async def test_a_slip_of_the_pen_uses_up_nobodys_budget(agent: GateAgent) -> None:
    answer = await agent.call("log_external_cost", provider="x", model="y", cost_usd=100.01)

    assert answer.failed and answer.text.startswith("cost_usd: $100.01 is more than 100.0 USD")
    assert await agent.store.read(costs.list_sums, "group") == []


async def test_reports_alone_do_not_use_up_the_budget_of_all(agent: GateAgent) -> None:
    await agent.store.write(budgets.put, BudgetScope(BudgetScopeKind.INSTANCE), Period.DAY, 500_000_000, "operator", 1)
    answers = [await agent.call("log_external_cost", provider="x", model="y", cost_usd=4) for _ in range(5)]

    assert [each.failed for each in answers] == [False, False, True, True, True]
    assert "$8.00 of at most $10.00 were reported today for acme" in answers[2].text
    assert [each.micro for each in await agent.store.read(costs.list_sums, "group")] == [8_000_000]


async def test_a_daily_budget_of_the_group_is_the_bound_of_its_reports(agent: GateAgent) -> None:
    await agent.store.write(
        budgets.put, BudgetScope(BudgetScopeKind.GROUP, "acme/eng"), Period.DAY, 60_000_000, "operator", 1
    )
    first = await agent.call("log_external_cost", "told", provider="x", model="y", cost_usd=50)
    again = await agent.call("log_external_cost", "told", provider="x", model="y", cost_usd=50)
    more = await agent.call("log_external_cost", provider="x", model="y", cost_usd=11)

    assert (first.failed, again.failed, more.failed) == (False, False, True)
    assert "for acme/eng" in more.text
