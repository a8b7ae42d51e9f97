"""How commands print: tables that fit 100 columns, JSON that stays the same, times and durations for people."""

import json
import shutil
import sys
from collections.abc import Sequence
from dataclasses import asdict, is_dataclass
from datetime import datetime
from typing import Any

WIDTH = 100
_COLORS = {"ok": "32", "warn": "33", "fail": "31", "dim": "2", "bold": "1"}


def as_json(value: Any) -> None:
    """One document, indented; what is no JSON is told by its text."""
    print(json.dumps(value, indent=2, ensure_ascii=False, default=_plain))


def _plain(value: Any) -> Any:
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else str(value)


def colored(text: str, color: str) -> str:
    return f"\x1b[{_COLORS[color]}m{text}\x1b[0m" if sys.stdout.isatty() else text


def table(head: Sequence[str], rows: Sequence[Sequence[object]], *, empty: str = "nothing") -> None:
    """Aligned columns; the last one is cut where the screen ends."""
    if not rows:
        print(empty)
        return
    cells = [[str(head[at]) for at in range(len(head))], *[[_one_line(cell) for cell in row] for row in rows]]
    widths = [max(len(row[at]) for row in cells) for at in range(len(head))]
    room = max(WIDTH, shutil.get_terminal_size((WIDTH, 24)).columns if sys.stdout.isatty() else WIDTH)
    _shrink(widths, room - 2 * (len(head) - 1))
    for number, row in enumerate(cells):
        line = "  ".join(cut(cell, width).ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        print(colored(line, "dim") if number == 0 else line)


def _shrink(widths: list[int], room: int) -> None:
    """Take from the widest column until the line fits."""
    while sum(widths) > room and max(widths) > 8:
        widths[widths.index(max(widths))] -= 1


def _one_line(cell: object) -> str:
    if cell is None:
        return "-"
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    return " ".join(str(cell).split()) or "-"


def cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: max(width - 1, 0)] + "…"


def clock(at: int | None) -> str:
    """A moment in the local time of whoever looks."""
    return "-" if at is None else datetime.fromtimestamp(at / 1_000_000).strftime("%m-%d %H:%M:%S")


def span(seconds: float) -> str:
    """A duration as people say it."""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms" if seconds else "0 s"
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"
