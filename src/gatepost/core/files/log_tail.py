"""The last lines of the log, from its end: whoever asks for a few does not read ten megabytes."""

import json
import os
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

from msgspec import Struct

from gatepost.core.record_fields import ShownAs, shown

BLOCK = 64 * 1024
MOST_BYTES = 4 * 1024 * 1024  # that are read for one answer
LONGEST_TEXT = 4000  # characters of a line's facts, and of its traceback


class LogLevel(StrEnum):
    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class LogLine(Struct, frozen=True, kw_only=True):
    """`facts`: what it says besides, as `name=value`."""

    at: Annotated[str, shown("When", ShownAs.MOMENT)]
    level: Annotated[str, shown("Level", ShownAs.BADGE)]
    logger: Annotated[str, shown("Part", ShownAs.CODE)]
    event: Annotated[str, shown("What")]
    facts: Annotated[str, shown("Facts")]
    exception: str


ORDER = {level: place for place, level in enumerate(LogLevel)}


def read_last_lines(path: Path, most: int, least: LogLevel = LogLevel.DEBUG, words: str = "") -> list[LogLine]:
    """The newest first: at most so many lines of this level and above that have all of these words."""
    wanted, found = words.casefold().split(), []
    for raw in _list_backwards(path):
        if not all(word in raw.casefold() for word in wanted):
            continue
        line = parse_line(raw)
        if line is not None and _is_level(line.level, least):
            found.append(line)
            if len(found) >= most:
                break
    return found


def _is_level(level: str, least: LogLevel) -> bool:
    """A level that we do not know is shown with every other."""
    return level not in set(LogLevel) or ORDER[LogLevel(level)] >= ORDER[least]


def _list_backwards(path: Path) -> Iterator[str]:
    """Complete lines, the last one first, as far as is read for one answer."""
    try:
        file = path.open("rb")
    except FileNotFoundError:
        return
    with file:
        at, rest, left = file.seek(0, os.SEEK_END), b"", MOST_BYTES
        while at > 0 and left > 0:
            size = min(BLOCK, at, left)
            at, left = at - size, left - size
            file.seek(at)
            first, *lines = (file.read(size) + rest).split(b"\n")
            yield from (line.decode(errors="replace") for line in reversed(lines) if line)
            rest = first
        if rest and at == 0:
            yield rest.decode(errors="replace")


def parse_line(raw: str) -> LogLine | None:
    """None: it is none of ours, or half of one."""
    try:
        facts: Any = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    if not isinstance(facts, dict):
        return None
    at, level, event, logger, trace = (
        str(facts.pop(key, "")) for key in ("timestamp", "level", "event", "logger", "exception")
    )
    rest = " ".join(f"{key}={_render_fact(value)}" for key, value in facts.items())
    return LogLine(
        at=at,
        level=level,
        logger=logger,
        event=event,
        facts=rest[:LONGEST_TEXT],
        exception=trace[-LONGEST_TEXT:],
    )


def _render_fact(value: Any) -> str:
    return value if isinstance(value, str) and " " not in value else json.dumps(value, ensure_ascii=False)
