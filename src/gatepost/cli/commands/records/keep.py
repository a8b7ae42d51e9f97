"""`gatepost keep`: how long things are kept, how much there is of each, and removing what is over age now."""

from typing import Any

import click

from gatepost.cli import output
from gatepost.cli.operation_command import call_operation, with_arguments
from gatepost.cli.operation_runner import zone_of
from gatepost.core import settings
from gatepost.core.clock import SystemClock
from gatepost.core.home import Home
from gatepost.serve.control.answers import to_json
from gatepost.serve.control.arguments.ledger import (
    KeptRows,
    RetentionOverview,
    RunRetentionArgs,
    ShowRetentionArgs,
    render_days,
    render_size,
)
from gatepost.store.engine.readonly import read_store

PATIENCE_S = 3600.0  # a first sweep of an old home takes its time, so that nobody waits for it


@click.group()
def command() -> None:
    """How long things are kept, how much there is of each, and removing what is over age now."""


@command.command("show")
@with_arguments(ShowRetentionArgs)
def show_retention(home: Home, args: dict[str, Any], as_json: bool) -> None:
    found = _read_overview(home)
    if as_json:
        output.print_json(to_json(found))
        return
    output.print_records(KeptRows, found.rows, empty="nothing is kept", zone=zone_of(home))
    for each in found.files:
        output.print_line(f"{each.what}: {render_size(each.bytes)}, kept for {render_days(each.days)} ({each.setting})")
    output.print_line(f"store: {render_size(found.store.bytes)}")
    if not found.store.shrinks:
        output.print_line(
            "the store was made by an older gatepost: it uses freed space again, but its file does not shrink"
        )


@command.command("run")
@with_arguments(RunRetentionArgs)
@click.option("--dry-run", is_flag=True, help="Only tell how much is over age.")
def run_sweep(home: Home, args: dict[str, Any], as_json: bool, dry_run: bool) -> None:
    if dry_run:
        done = {each.what: each.over_age for each in _read_overview(home).rows}
    else:
        done = to_json(call_operation(home, RunRetentionArgs, args, PATIENCE_S))
    if as_json:
        output.print_json(done)
        return
    told = ", ".join(f"{count} {what}" for what, count in done.items() if count)
    output.print_line(f"{'over age' if dry_run else 'removed'}: {told or 'nothing'}")


def _read_overview(home: Home) -> RetentionOverview:
    from gatepost.flow.upkeep.retention import MEDIA, ROWS, SESSIONS
    from gatepost.serve.control.operations.ledger import get_retention_overview

    config = settings.load_declared(home.path, *ROWS.values(), MEDIA, SESSIONS)
    return read_store(home, get_retention_overview, home, config, SystemClock().now())
