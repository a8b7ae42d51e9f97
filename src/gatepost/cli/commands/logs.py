"""`gatepost logs` and `audit`: the gateway's log; the audit log, and a check of its hash chain."""

import json
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import click
import msgspec

from gatepost.cli import output
from gatepost.cli.operation_command import CommandRun, NumberRange, from_operation, with_arguments
from gatepost.cli.operation_runner import home_of, zone_of
from gatepost.core.errors import SetupError
from gatepost.core.home import Home
from gatepost.core.terminal_text import make_json_visible, one_line
from gatepost.serve.control.arguments.logs import AuditEntry, ListAuditArgs, VerifyAuditArgs
from gatepost.store.engine.readonly import read_store

LOOK_S = 0.25
# The chain of commands that ran without a gateway, and of all rows from before there were several gateways.
NO_GATEWAY = "commands by themselves"


@click.command()
@click.option("-f", "--follow", is_flag=True, help="Go on printing what is added.")
@click.option("-n", "lines", type=NumberRange(0), default=50, show_default=True, help="How many lines to begin with.")
@click.option("--json", "raw", is_flag=True, help="The lines as they are: one JSON object each.")
@click.pass_obj
def logs_command(home: str | None, follow: bool, lines: int, raw: bool) -> None:
    """Print the gateway's log, oldest first. Times are UTC."""
    path = home_of(home).logs / "gatepost.log"
    if not path.is_file() and not follow:
        raise SetupError(f"there is no log at {path}; `gatepost up` begins one")
    for line in read_lines(path, lines, follow):
        output.print_line(make_json_visible(line) if raw else readable(line), flush=follow)


def read_lines(
    path: Path, lines: int, follow: bool, wanted: Callable[[str], bool] = lambda line: True
) -> Iterator[str]:
    where, inode = 0, 0
    if path.is_file():
        with path.open(encoding="utf-8", errors="replace") as file:
            inode = path.stat().st_ino
            yield from deque(filter(wanted, (line.rstrip("\n") for line in file)), maxlen=lines)
            where = file.tell()
    while follow:
        time.sleep(LOOK_S)
        if not path.is_file():
            continue
        now = path.stat()
        if now.st_ino != inode or now.st_size < where:
            where, inode = 0, now.st_ino  # rotated: a new file began
        with path.open(encoding="utf-8", errors="replace") as file:
            file.seek(where)
            for line in file:
                if not line.endswith("\n"):
                    break  # half a line: it comes whole the next time
                if wanted(line):
                    yield line.rstrip("\n")
                where += len(line.encode())


def readable(line: str) -> str:
    """A JSON line as people read it; anything else as it is."""
    try:
        facts: Any = json.loads(line)
    except ValueError:
        return line
    if not isinstance(facts, dict):
        return line
    at, level, event = (str(facts.pop(key, "")) for key in ("timestamp", "level", "event"))
    logger, trace = str(facts.pop("logger", "")), str(facts.pop("exception", ""))
    rest = " ".join(f"{key}={_shorten(value)}" for key, value in facts.items())
    text = one_line(f"{event} {rest}")
    text = f"{at[:23].replace('T', ' ')} {level:7} {logger:18} {text}".rstrip()
    return f"{text}\n{trace}" if trace else text


def _shorten(value: Any) -> str:
    return value if isinstance(value, str) and " " not in value else json.dumps(value, ensure_ascii=False)


@click.group()
def audit_command() -> None:
    """The audit log, and a check of its hash chain. Works with the gateway up or down."""


@audit_command.command("verify")
@with_arguments(VerifyAuditArgs)
def verify_audit(home: Home, args: dict[str, Any], as_json: bool) -> int:
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


@audit_command.command("list")
@from_operation(ListAuditArgs)
def list_audit(run: CommandRun, rows: list[AuditEntry]) -> None:
    output.print_records(
        AuditEntry,
        rows,
        {"details": _render_audit_details},
        empty="nothing was recorded yet",
        zone=zone_of(run.home),
        without=() if any(row.gateway for row in rows) else ("gateway",),
    )


def _render_audit_details(row: AuditEntry) -> str:
    return "(erased)" if row.details is None else msgspec.json.encode(row.details).decode()
