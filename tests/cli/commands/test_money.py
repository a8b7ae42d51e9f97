"""`gatepost budget` and `gatepost cost` on a home whose gateway is down."""

import re
from collections.abc import Callable
from typing import Any

from gatepost.core.clock import SystemClock
from gatepost.core.home import Home
from gatepost.store.engine.sqlite_db import SqliteDb, connect
from gatepost.store.money import costs
from gatepost.store.money.costs import NewCost, TokenCounts

Run = Callable[..., Any]


def spend(home: Home, micro: int, **facts: str) -> None:
    connection, now = connect(home.store), SystemClock().now()
    facts: dict[str, Any] = {"folder": "home", "model": "openai:gpt-5", "user": "telegram:user/9", **facts}  # type: ignore[no-redef]
    costs.add_external(
        SqliteDb(connection), NewCost(key=str(now), at=now, micro=micro, usage=TokenCounts(7, 8), **facts), now
    )
    connection.close()


def test_a_budget_is_set_and_shown(run: Run, home: Home) -> None:
    assert run("budget", "set", "home", "--daily", "1.50", "--monthly", "20").code == 0
    assert run("budget", "set", "--instance", "--daily", "5").code == 0
    spend(home, 500_000)

    shown, [gateway, group] = run("budget", "show").out, run("budget", "show", "--json").json

    assert gateway["kind"] == "instance" and gateway["daily"]["left_usd"] == 4.5
    assert (group["name"], group["daily"]["left_usd"], group["monthly"]["left_usd"]) == ("home", 1, 19.5)
    assert "the gateway" in shown and "$1.50" in shown and "$19.50" in shown
    assert "home: no limit" in run("budget", "set", "home", "--daily", "none", "--monthly", "none").out


def test_a_persons_budget_needs_a_person(run: Run) -> None:
    refused = run("budget", "set", "--user", "telegram:user/9", "--daily", "1")
    assert refused.code == 1 and "gatepost user add telegram:user/9" in refused.err

    run("user", "add", "telegram:user/9")
    told = run("budget", "set", "--user", "telegram:user/9", "--daily", "1", "--json").json
    assert (told["kind"], told["name"], told["daily"]["limit_usd"]) == ("user", "telegram:user/9", 1)


def test_what_makes_no_budget_is_said_in_a_line(run: Run) -> None:
    for args in (("home",), ("--daily", "1"), ("home", "--instance", "--daily", "1"), ("home", "--daily", "much")):
        told = run("budget", "set", *args)
        assert told.code == 1 and told.out == "" and len(told.err.splitlines()) == 1


def test_without_a_budget_the_way_to_one_is_shown(run: Run) -> None:
    run("group", "list")
    run("budget", "set", "home", "--daily", "none")

    assert "gatepost budget set --instance" in run("budget", "show").out
    assert run("budget", "show", "--json").json == []


def test_costs_are_added_up(run: Run, home: Home) -> None:
    run("group", "add", "acme")
    assert run("cost").out == "nothing was spent\n"
    assert run("cost", "--json").json["total_usd"] == 0
    spend(home, 500_000)
    spend(home, 250_001, folder="acme", model="claude-opus-5")

    told, shown = run("cost", "--json").json, run("cost").out

    assert told["total_usd"] == 0.750001
    assert [(row["group"], row["usd"]) for row in told["rows"]] == [("home", 0.5), ("acme", 0.250001)]
    assert "$0.250001" in shown and "total $0.750001" in shown
    assert re.search(r"^total \$0\.750001 since \d{4}-\d\d-\d\d \(UTC\)$", run("cost", "--days", "1").out, re.M)
    assert {row["model"] for row in run("cost", "--by", "model", "--json").json["rows"]} == {
        "openai:gpt-5",
        "claude-opus-5",
    }
    [day] = run("cost", "--by", "day", "--days", "1", "--json").json["rows"]
    assert (day["calls"], day["input"], day["output"]) == (2, 14, 16)
    [user] = run("cost", "--by", "user", "--json").json["rows"]
    assert user["user"] == "telegram:user/9"
    assert run("cost", "--by", "moon").code == 2
