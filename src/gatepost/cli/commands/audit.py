"""`gatepost audit`: who did what, and whether the record still holds."""

import json

import click

from gatepost.cli import output
from gatepost.cli.operation_runner import home_of, read_store, zone_of
from gatepost.core.clock import iso
from gatepost.store import audit
from gatepost.store.port import Db


@click.group()
def command() -> None:
    """Who did what, and whether the record still holds. Works with the gateway up or down."""


@command.command()
@click.option("--head", metavar="SEQ:HASH", help="A head that was told before: the chain must go on from it.")
@click.option("--json", "as_json", is_flag=True, help="Print rows, repeated, whole, first_bad, trouble, head as JSON.")
@click.pass_obj
def verify(home: str | None, head: str | None, as_json: bool) -> int:
    """Check the hash chain from its first row. Exit 1 if a row does not hold.

    It tells the head of the chain. Keep that where nobody who can write to the store can: with --head it shows whether
    the newest rows were cut off, or all of it was written anew, which the chain alone cannot show.
    """
    kept = _read_head(head) if head is not None else None
    rows, bad, trouble, newest, more = read_store(home_of(home), _verify, kept)
    if as_json:
        output.print_json(
            {
                "rows": rows,
                "repeated": more,
                "whole": not trouble,
                "first_bad": bad,
                "trouble": trouble,
                "head": newest or None,
            }
        )
    elif trouble:
        output.print_line(output.colored(trouble, "fail"))
    elif not rows:
        output.print_line(output.colored("nothing is recorded yet", "ok"))
    else:
        counted = f" ({more:,} further events are only counted in them)" if more else ""
        output.print_line(output.colored(f"the chain of {rows} rows holds", "ok"), f"{counted}, its head is {newest}")
    return 1 if trouble else 0


def _verify(db: Db, kept: tuple[int, str] | None) -> tuple[int, int | None, str, str, int]:
    """(rows checked, the first that does not hold, what is wrong, the head, events that are only counted)."""
    rows, bad = audit.verify(db)
    if bad is not None:
        return rows, bad, f"row {bad} does not hold: it was changed or removed", "", 0
    damaged = audit.find_damage(db)
    if damaged:
        text = f"every row holds, but the pages that keep them are damaged: {damaged}; restore a backup"
        return rows, None, text, "", 0
    more = audit.count_repeated(db)
    if kept is not None and 0 < kept[0] < audit.get_anchor(db)[0]:
        text = f"row {kept[0]} was removed because of its age (keep.audit_days); compare a newer head"
        return rows, kept[0], text, audit.get_head(db), more
    if kept is not None and not audit.continues_from(db, *kept):
        text = f"row {kept[0]} is not the one that was the head: rows were cut off, or all was written anew"
        return rows, kept[0], text, audit.get_head(db), more
    return rows, None, "", audit.get_head(db), more


def _read_head(text: str) -> tuple[int, str]:
    seq, colon, chained = text.strip().partition(":")
    if not colon or not seq.isdecimal():
        raise click.BadParameter("write it as it was told: SEQ:HASH", param_hint="--head")
    return int(seq), chained


@command.command("list")
@click.option("--limit", type=click.IntRange(1, 100_000), default=50, show_default=True, help="The newest N rows.")
@click.option("--json", "as_json", is_flag=True, help="A list of objects: seq, at, actor, action, verdict, details.")
@click.pass_obj
def list_rows(home: str | None, limit: int, as_json: bool) -> None:
    """The newest rows, oldest first."""
    place = home_of(home)
    rows = list(reversed(read_store(place, audit.list_latest, limit)))
    if as_json:
        names = ("seq", "at", "actor", "action", "verdict")
        output.print_json(
            [
                {**dict(zip(names, row, strict=False)), "at": iso(row[1]), "details": json.loads(row[5] or "null")}
                for row in rows
            ]
        )
        return
    zone, called = zone_of(place)
    output.print_table(
        ("seq", f"at ({called})", "actor", "action", "verdict", "details"),
        [
            (row[0], output.format_time(row[1], zone), *row[2:5], "(erased)" if row[5] is None else row[5])
            for row in rows
        ],
        empty="nothing was recorded yet",
    )
