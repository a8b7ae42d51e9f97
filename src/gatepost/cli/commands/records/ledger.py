"""`gatepost ledger`: is every message accounted for, and what became of each."""

from typing import Any

import click

from gatepost.cli import output, reasons
from gatepost.cli.operation_command import CommandRun, from_operation
from gatepost.cli.operation_runner import zone_of
from gatepost.core.home import Home
from gatepost.core.process import home_lock
from gatepost.core.terminal_text import one_line
from gatepost.messages.inbound import Direction
from gatepost.serve.control.arguments.ledger import CheckLedgerArgs, ListLedgerArgs, RetryMessageArgs, RetryResult
from gatepost.store.money.ledger import LedgerLine, LedgerStatus

LONGEST_TEXT = 200  # characters where whoever reads it is no terminal
LONGEST_ROOM = 24  # where it is one


@click.group()
def command() -> None:
    """Is every message accounted for, and what became of each. Works with the gateway up or down."""


def _find_gateway(home: Home, args: dict[str, Any]) -> dict[str, Any]:
    return {**args, "running": home_lock.find_holder(home) is not None}


@command.command()
@from_operation(CheckLedgerArgs, prepare=_find_gateway, exit_code=lambda account: 1 if account.unaccounted else 0)
def check(run: CommandRun, account: LedgerStatus) -> None:
    verdict = "fail" if account.unaccounted else "ok"
    output.print_line(output.colored(f"{account.unaccounted} unaccounted", verdict))
    output.print_line(
        f"{account.in_flight} in flight, {account.overdue} overdue, oldest {output.format_duration(account.oldest_s)}"
    )
    if account.in_flight and not run.args["running"]:
        output.print_line("the gateway is down; what is in flight goes on when it starts: gatepost up")


@command.command("list")
@from_operation(ListLedgerArgs)
def list_rows(run: CommandRun, lines: list[LedgerLine]) -> None:
    width = output.get_line_width()
    share = LONGEST_TEXT if width is None else width // 3
    own = {
        "direction": lambda line: "→" if line.direction == Direction.IN else "←",
        "address": lambda line: _room(line, width is not None),
        "text": lambda line: output.cut(one_line(_text(line)), share),
        "reason": lambda line: reasons.render_reason(line.reason),
    }
    output.print_records(
        LedgerLine,
        lines,
        own,
        empty="the ledger holds no such rows",
        gives=("reason",),
        zone=zone_of(run.home),
    )


def _room(line: LedgerLine, narrow: bool) -> str:
    named = f"{line.address}#{line.thread}" if line.thread else line.address
    return output.cut(named, LONGEST_ROOM) if narrow else named


def _text(line: LedgerLine) -> str:
    is_note = line.event == "system" and not line.text
    return reasons.render_note_by_id(line.platform_id) if is_note else line.text


@command.command()
@from_operation(RetryMessageArgs)
def retry(run: CommandRun, done: RetryResult) -> None:
    if done.sent:
        doubt = "; it may arrive twice" if done.doubtful else ""
        output.print_line(f"message {done.message} goes to {done.address} again{doubt}")
    for session in done.given:
        output.print_line(f"message {done.message} waits for its agent again, in session {session}")
