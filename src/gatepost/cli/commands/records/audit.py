"""`gatepost audit`: the audit log, and a check of its hash chain."""

from collections.abc import Sequence
from typing import Any

import click
import msgspec

from gatepost.cli import output
from gatepost.cli.operation_command import CommandRun, from_operation, with_arguments
from gatepost.cli.operation_runner import zone_of
from gatepost.core.home import Home
from gatepost.serve.control.arguments.logs import AuditEntry, ListAuditArgs, VerifyAuditArgs
from gatepost.store.engine.readonly import read_store

# The chain of commands that ran without a gateway, and of all rows from before there were several gateways.
NO_GATEWAY = "commands by themselves"


@click.group()
def command() -> None:
    """The audit log, and a check of its hash chain. Works with the gateway up or down."""


@command.command()
@with_arguments(VerifyAuditArgs)
def verify(home: Home, args: dict[str, Any], as_json: bool) -> int:
    from gatepost.serve.control.operations.logs import verify_chain

    found = read_store(home, verify_chain, args["head"])
    if as_json:
        output.print_json(found)
    elif found.trouble:
        output.print_line(output.colored(found.trouble, "fail"))
    elif not found.rows:
        output.print_line(output.colored("nothing is recorded yet", "ok"))
    else:
        counted = f" ({found.repeated:,} further events are only counted in them)" if found.repeated else ""
        heads = (found.head or "").split()
        held = render_chains(found.rows, len(found.chains), len(heads))
        output.print_line(output.colored(held, "ok"), f"{counted}, {render_heads(heads)}")
    return 0 if found.whole else 1


def render_chains(rows: int, gateways: int, heads: int) -> str:
    """`gateways`: those that have a chain. One more head is of the chain that is no gateway's."""
    counted = f"{rows} row{'' if rows == 1 else 's'}"
    if not gateways:
        return f"the chain of {counted} holds"
    named = f"{gateways} gateway{'' if gateways == 1 else 's'}"
    if heads > gateways:
        return f"the chains of {named} and of {NO_GATEWAY} hold, {counted}"
    return f"the chain{'' if gateways == 1 else 's'} of {named} hold{'s' if gateways == 1 else ''}, {counted}"


def render_heads(heads: Sequence[str]) -> str:
    if len(heads) == 1:
        return f"its head is {heads[0]}"
    return f"their heads are {', '.join(each if '/' in each else f'{each} ({NO_GATEWAY})' for each in heads)}"


@command.command("list")
@from_operation(ListAuditArgs)
def list_rows(run: CommandRun, rows: list[AuditEntry]) -> None:
    output.print_records(
        AuditEntry,
        rows,
        {"details": _render_details},
        empty="nothing was recorded yet",
        zone=zone_of(run.home),
        without=() if any(row.gateway for row in rows) else ("gateway",),
    )


def _render_details(row: AuditEntry) -> str:
    return "(erased)" if row.details is None else msgspec.json.encode(row.details).decode()
