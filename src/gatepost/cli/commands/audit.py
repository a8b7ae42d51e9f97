"""`gatepost audit`: who did what, and whether the record still holds."""

import json

import click

from gatepost.cli import show
from gatepost.cli.operate import home_of, reading, zone_of
from gatepost.core.clock import iso
from gatepost.store import audit


@click.group()
def command() -> None:
    """Who did what, and whether the record still holds. Works with the gateway up or down."""


@command.command()
@click.option("--json", "as_json", is_flag=True, help="Print rows, whole, first_bad as JSON.")
@click.pass_obj
def verify(home: str | None, as_json: bool) -> int:
    """Check the hash chain from its first row. Exit 1 if a row does not hold."""
    rows, bad = reading(home_of(home), audit.verify)
    if as_json:
        show.as_json({"rows": rows, "whole": bad is None, "first_bad": bad})
    elif bad is None:
        show.say(show.colored(f"the chain of {rows} rows holds", "ok"))
    else:
        show.say(show.colored(f"row {bad} does not hold: it, or one before it, was changed or removed", "fail"))
    return 0 if bad is None else 1


@command.command("list")
@click.option("--limit", type=click.IntRange(1, 100_000), default=50, show_default=True, help="The newest N rows.")
@click.option("--json", "as_json", is_flag=True, help="A list of objects: seq, at, actor, action, verdict, details.")
@click.pass_obj
def list_rows(home: str | None, limit: int, as_json: bool) -> None:
    """The newest rows, oldest first."""
    place = home_of(home)
    rows = list(reversed(reading(place, audit.latest, limit)))
    if as_json:
        names = ("seq", "at", "actor", "action", "verdict")
        show.as_json(
            [
                {**dict(zip(names, row, strict=False)), "at": iso(row[1]), "details": json.loads(row[5] or "null")}
                for row in rows
            ]
        )
        return
    zone, called = zone_of(place)
    show.table(
        ("seq", f"at ({called})", "actor", "action", "verdict", "details"),
        [(row[0], show.clock(row[1], zone), *row[2:5], "(erased)" if row[5] is None else row[5]) for row in rows],
        empty="nothing was recorded yet",
    )
