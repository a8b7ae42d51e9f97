"""`gatepost budget`: how much may be spent on models."""

from typing import Any

import click

from gatepost.cli import output
from gatepost.cli.operation_runner import home_of, read_store, run_operation


@click.group()
def command() -> None:
    """How much may be spent on models: set, show. Works with the gateway up or down.

    A group's budget holds for all groups below it, too. Days and months begin at midnight UTC. Before each model call
    the most that it can cost is set aside, so that calls which come together cannot pass a budget together.
    """


@command.command("set")
@click.argument("folder", required=False, default="")
@click.option("--user", default="", metavar="ID", help="The budget of a person, like telegram:user/9.")
@click.option("--instance", is_flag=True, help="The budget of the whole gateway.")
@click.option("--daily", metavar="USD", help="Like 2.50; 0 allows nothing; `none` takes the limit away.")
@click.option("--monthly", metavar="USD", help="The same for a month.")
@click.option("--json", "as_json", is_flag=True, help="Print the budget as JSON.")
@click.pass_obj
def set_budget(
    home: str | None, folder: str, user: str, instance: bool, daily: str | None, monthly: str | None, as_json: bool
) -> None:
    """Limit what a group (with all below it), a person or the gateway may spend. What is left out stays as it is."""
    args = {"folder": folder, "user": user, "instance": instance, "daily": daily, "monthly": monthly}
    told = run_operation(home_of(home), "budget.set", args)
    if as_json:
        output.print_json(told)
    elif told["daily"] is None and told["monthly"] is None:
        output.print_line(f"{_name(told)}: no limit")
    else:
        _table([told])


@command.command("show")
@click.option("--json", "as_json", is_flag=True, help="A list of objects: kind, name, daily, monthly.")
@click.pass_obj
def show_budgets(home: str | None, as_json: bool) -> None:
    """All budgets, with what is spent and what is set aside for calls that run."""
    from gatepost.core.clock import SystemClock
    from gatepost.serve.control.operations.spending import list_budgets

    found = read_store(home_of(home), list_budgets, SystemClock().now())
    if as_json:
        output.print_json(found)
    else:
        _table(found)


def _table(found: list[dict[str, Any]]) -> None:
    output.print_table(
        ("budget", "per", "limit", "spent", "set aside", "left", "until (UTC)"),
        [
            (_name(each), per, *(_usd(now[key]) for key in _AMOUNTS), now["ends_at"][:10])
            for each in found
            for per, now in (("day", each["daily"]), ("month", each["monthly"]))
            if now is not None
        ],
        empty="no budgets: nothing limits what is spent; `gatepost budget set --instance --daily 5` would",
    )


_AMOUNTS = ("limit_usd", "spent_usd", "reserved_usd", "left_usd")


def _usd(amount: float) -> str:
    from gatepost.access.budgets import parse_usd, render_usd

    return render_usd(parse_usd(amount, "amount"))


def _name(told: dict[str, Any]) -> str:
    return str(told["name"]) or "the gateway"
