"""`gatepost dropped`: which messages were refused, and why."""

import time
from datetime import tzinfo
from typing import Any

import click

from gatepost.cli import output, reasons
from gatepost.cli.operation_command import call_operation, with_arguments
from gatepost.cli.operation_runner import zone_of
from gatepost.core.home import Home
from gatepost.serve.control.answers import to_json
from gatepost.serve.control.arguments.ledger import DroppedReport, ListDroppedArgs
from gatepost.store.messages.dropped import ONLY_COUNTED, DroppedCount

LOOK_S = 0.5
MOST_AT_ONCE = 10_000  # that a look of --follow shows
NOT_WRITTEN_DOWN = "only counted: the sender had written much in that hour"


@click.command()
@with_arguments(ListDroppedArgs)
@click.option("-f", "--follow", is_flag=True, help="Go on with those that are refused from now on.")
def command(home: Home, args: dict[str, Any], as_json: bool, follow: bool) -> None:
    found = call_operation(home, ListDroppedArgs, args)
    zone = zone_of(home)
    if as_json and follow:
        _print_lines(found, zone[0], as_json)
    elif as_json:
        output.print_json(to_json(found))
    else:
        _print_counts(found, zone)
        _print_lines(found, zone[0], as_json)
    while follow:
        time.sleep(LOOK_S)
        seen = {"after": found.last, "after_audit": found.last_audit, "limit": MOST_AT_ONCE}
        found = call_operation(home, ListDroppedArgs, {**args, "since": "", **seen})
        _print_lines(found, zone[0], as_json)


def _print_counts(found: DroppedReport, zone: output.Zone) -> None:
    counted = f", {found.only_counted:,} of them only counted" if found.only_counted else ""
    output.print_line(f"{found.total:,} refused{counted}")
    if not found.counts:
        return
    unknown = [name for name in ("reason", "room", "sender") if not any(getattr(each, name) for each in found.counts)]
    own = {"reason": lambda each: _render_reason(each.reason), "times": lambda each: f"{each.times:,}"}
    output.print_records(DroppedCount, found.counts, own, zone=zone, without=unknown)


def _print_lines(found: DroppedReport, zone: tzinfo | None, as_json: bool) -> None:
    for each in found.newest:
        if as_json:
            output.print_json_line(to_json(each))
            continue
        many = f" ({each.times:,} times)" if each.times > 1 else ""
        where = f"{output.format_time(each.at, zone)}  {each.sender} in {each.room}"
        output.print_line(f"{where}: {_render_reason(each.reason)}{many}", flush=True)


def _render_reason(reason: str) -> str:
    return NOT_WRITTEN_DOWN if reason == ONLY_COUNTED else reasons.render_reason(reason)
