"""`gatepost ledger`: is every message accounted for, and what became of each."""

from dataclasses import asdict
from functools import partial

import click

from gatepost.cli import reasons, show
from gatepost.cli.operate import home_of, reading, zone_of
from gatepost.core import lock
from gatepost.core.clock import SystemClock, iso
from gatepost.core.errors import Invalid
from gatepost.core.visible import one_line
from gatepost.store import inbox, ledger, outbox

STATES = (*dict.fromkeys(("queued", "working", "held", "retry", *inbox.END, "pending", "sending", *outbox.END)),)

LONGEST_TEXT = 200  # characters where whoever reads it is no terminal
LONGEST_ROOM = 24  # where it is one


@click.group()
def command() -> None:
    """Is every message accounted for, and what became of each. Works with the gateway up or down."""


@command.command()
@click.option("--json", "as_json", is_flag=True, help="Print unaccounted, in_flight, overdue, oldest_s as JSON.")
@click.pass_obj
def check(home: str | None, as_json: bool) -> int:
    """Count what is not accounted for. Exit 1 unless that is 0."""
    place = home_of(home)
    running = lock.holder(place) is not None
    account = reading(place, partial(ledger.check, now=SystemClock().now(), running=running))
    if as_json:
        show.as_json(asdict(account))
    else:
        verdict = "ok" if account.unaccounted == 0 else "fail"
        show.say(show.colored(f"{account.unaccounted} unaccounted", verdict))
        show.say(f"{account.in_flight} in flight, {account.overdue} overdue, oldest {show.span(account.oldest_s)}")
        if account.in_flight and not running:
            show.say("the gateway is down; what is in flight goes on when it starts: gatepost up")
    return 0 if account.unaccounted == 0 else 1


@command.command("list")
@click.option("--state", help=f"Only rows in this state: {', '.join(STATES)}.")
@click.option("--limit", type=click.IntRange(1, 100_000), default=50, show_default=True, help="The newest N rows.")
@click.option("--json", "as_json", is_flag=True, help="A list of objects with all fields, times as RFC 3339.")
@click.pass_obj
def list_rows(home: str | None, state: str | None, limit: int, as_json: bool) -> None:
    """The newest rows, oldest first: direction, room, state, reason, text. Texts are cut; --json has them whole."""
    if state is not None and state not in STATES:
        raise Invalid("state", f"{state!r} is none of {', '.join(STATES)}")
    place = home_of(home)
    lines = reading(place, partial(ledger.lines, state=state, limit=limit))
    if as_json:
        show.as_json([{**asdict(line), "at": iso(line.at)} for line in lines])
        return
    zone, called = zone_of(place)
    width = show.room()
    share = LONGEST_TEXT if width is None else width // 3
    show.table(
        ("id", f"at ({called})", "", "room", "state", "reason", "text"),
        [
            (
                line.id,
                show.clock(line.at, zone),
                "→" if line.direction == "in" else "←",
                _room(line, width is not None),
                line.state,
                reasons.sentence(line.reason),
                show.cut(one_line(_text(line)), share),
            )
            for line in lines
        ],
        empty="the ledger holds no such rows",
        gives=("reason",),
    )


def _room(line: ledger.Line, narrow: bool) -> str:
    named = f"{line.address}#{line.thread}" if line.thread else line.address
    return show.cut(named, LONGEST_ROOM) if narrow else named


def _text(line: ledger.Line) -> str:
    return reasons.note_by_id(line.platform_id) if line.event == "system" and not line.text else line.text
