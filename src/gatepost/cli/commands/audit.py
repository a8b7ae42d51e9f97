"""`gatepost audit`: who did what, and whether the record still holds."""

from typing import Any

import click
import msgspec

from gatepost.cli import output
from gatepost.cli.operation_command import CommandRun, from_operation, with_arguments
from gatepost.cli.operation_runner import zone_of
from gatepost.core.home import Home
from gatepost.serve.control.arguments.audit import ListAuditArgs, VerifyAuditArgs
from gatepost.store.readonly import read_store


@click.group()
def command() -> None:
    """Who did what, and whether the record still holds. Works with the gateway up or down."""


@command.command()
@with_arguments(VerifyAuditArgs)
def verify(home: Home, args: dict[str, Any], as_json: bool) -> int:
    from gatepost.serve.control.operations.audit import verify_chain

    found = read_store(home, verify_chain, args["head"])
    if as_json:
        output.print_json(found)
    elif found.trouble:
        output.print_line(output.colored(found.trouble, "fail"))
    elif not found.rows:
        output.print_line(output.colored("nothing is recorded yet", "ok"))
    else:
        counted = f" ({found.repeated:,} further events are only counted in them)" if found.repeated else ""
        one = f"the chain of {found.rows} rows holds"
        several = f"the chains of {len(found.chains)} gateways hold, {found.rows} rows"
        output.print_line(
            output.colored(several if found.chains else one, "ok"), f"{counted}, {_render_head(found.head)}"
        )
    return 0 if found.whole else 1


def _render_head(head: str | None) -> str:
    heads = (head or "").split()
    return f"its head is {head}" if len(heads) == 1 else f"their heads are {', '.join(heads)}"


@command.command("list")
@from_operation(ListAuditArgs)
def list_rows(run: CommandRun, rows: list[dict[str, Any]]) -> None:
    zone, called = zone_of(run.home)
    output.print_table(
        ("seq", f"at ({called})", "actor", "action", "verdict", "details"),
        [
            (
                row["seq"],
                output.format_iso(row["at"], zone),
                *(row["actor"], row["action"], row["verdict"]),
                "(erased)" if row["details"] is None else msgspec.json.encode(row["details"]).decode(),
            )
            for row in rows
        ],
        empty="nothing was recorded yet",
    )
