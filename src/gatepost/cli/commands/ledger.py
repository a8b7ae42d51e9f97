"""`gatepost ledger`: is every message accounted for, and what became of each."""

from functools import partial

import click

from gatepost.cli import output, reasons
from gatepost.cli.operation_runner import home_of, read_store, zone_of
from gatepost.core import home_lock
from gatepost.core.clock import SystemClock, iso
from gatepost.core.errors import Invalid
from gatepost.core.records import asdict
from gatepost.core.terminal_text import one_line
from gatepost.messages.inbound import Direction
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
    running = home_lock.find_holder(place) is not None
    account = read_store(place, partial(ledger.check, now=SystemClock().now(), running=running))
    if as_json:
        output.print_json(asdict(account))
    else:
        verdict = "ok" if account.unaccounted == 0 else "fail"
        output.print_line(output.colored(f"{account.unaccounted} unaccounted", verdict))
        output.print_line(
            f"{account.in_flight} in flight, {account.overdue} overdue,"
            f" oldest {output.format_duration(account.oldest_s)}"
        )
        if account.in_flight and not running:
            output.print_line("the gateway is down; what is in flight goes on when it starts: gatepost up")
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
    lines = read_store(place, partial(ledger.list_lines, state=state, limit=limit))
    if as_json:
        output.print_json([{**asdict(line), "at": iso(line.at)} for line in lines])
        return
    zone, called = zone_of(place)
    width = output.get_line_width()
    share = LONGEST_TEXT if width is None else width // 3
    output.print_table(
        ("id", f"at ({called})", "", "room", "state", "reason", "text"),
        [
            (
                line.id,
                output.format_time(line.at, zone),
                "→" if line.direction == Direction.IN else "←",
                _room(line, width is not None),
                line.state,
                reasons.render_reason(line.reason),
                output.cut(one_line(_text(line)), share),
            )
            for line in lines
        ],
        empty="the ledger holds no such rows",
        gives=("reason",),
    )


def _room(line: ledger.LedgerLine, narrow: bool) -> str:
    named = f"{line.address}#{line.thread}" if line.thread else line.address
    return output.cut(named, LONGEST_ROOM) if narrow else named


def _text(line: ledger.LedgerLine) -> str:
    return reasons.render_note_by_id(line.platform_id) if line.event == "system" and not line.text else line.text
