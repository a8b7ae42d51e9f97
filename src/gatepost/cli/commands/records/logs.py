"""`gatepost logs`: the gateway's log."""

import json
import time
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click

from gatepost.cli import output
from gatepost.cli.operation_runner import home_of
from gatepost.core.errors import SetupError
from gatepost.core.terminal_text import make_json_visible, one_line

LOOK_S = 0.25


@click.command()
@click.option("-f", "--follow", is_flag=True, help="Go on printing what is added.")
@click.option(
    "-n", "lines", type=click.IntRange(0), default=50, show_default=True, help="How many lines to begin with."
)
@click.option("--json", "raw", is_flag=True, help="The lines as they are: one JSON object each.")
@click.pass_obj
def command(home: str | None, follow: bool, lines: int, raw: bool) -> None:
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
    rest = " ".join(f"{key}={_short(value)}" for key, value in facts.items())
    text = one_line(f"{event} {rest}")
    text = f"{at[:23].replace('T', ' ')} {level:7} {logger:18} {text}".rstrip()
    return f"{text}\n{trace}" if trace else text


def _short(value: Any) -> str:
    return value if isinstance(value, str) and " " not in value else json.dumps(value, ensure_ascii=False)
