"""One setting put into `gatepost.toml`, as a person would: everything else in the file stays as it is, comments too.

The new text is read again before it is written, and must say what the old one said, but for the one thing. If it does
not (somebody writes TOML in a way that this does not know), the file is left alone and the operator is told the line.
"""

import json
import os
import re
import threading
import tomllib
from pathlib import Path
from typing import Any

from gatepost.core.errors import SetupError

_HEADER = re.compile(r"\s*\[")


FileValue = bool | int | float | str | tuple[str, ...]
_VALUE = r"(?:\"[^\"\\]*\"|'[^']*'|\[[^\[\]]*\]|[^\s#\[{\"']+)"  # on one line, as people write it
_WRITING = threading.Lock()  # two changes of one file, one after the other


def set_setting(path: Path, name: str, value: FileValue) -> None:
    """Set a dotted name; a file that is not there is made, closed to others."""
    change_setting(path, name, value)


def change_setting(path: Path, name: str, value: FileValue | None, *, dry_run: bool = False) -> tuple[str, str]:
    """Set a dotted name, or remove it (None). The file's text before and after."""
    with _WRITING:
        try:
            old = path.read_text(encoding="utf-8") if path.exists() else ""
            before = tomllib.loads(old)
        except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
            raise SetupError(f"{path} cannot be read: {error}") from None
        new = _remove(old, name) if value is None else _edit(old, name, render_value(value))
        if _parse(new) != _with(before, name.split("."), value):
            what = f"remove there yourself: {name}" if value is None else f"write there yourself: {name} ="
            shown = "" if value is None else f" {render_value(value)}"
            raise SetupError(f"{path} is left alone; {what}{shown}")
        if new != old and not dry_run:
            write_atomically(path, new)
        return old, new


def render_value(value: FileValue) -> str:
    """As TOML has it; JSON writes these the same way."""
    return json.dumps(list(value) if isinstance(value, tuple) else value, ensure_ascii=False)


def _remove(text: str, name: str) -> str:
    lines = text.splitlines(keepends=True)
    found = _find_line(lines, name)
    if found is not None:
        del lines[found[0]]
    return "".join(lines)


def _edit(text: str, name: str, value: str) -> str:
    table, _, key = name.rpartition(".")
    lines = text.splitlines(keepends=True)
    found = _find_line(lines, name)
    if found is not None:
        at, before, after = found
        lines[at] = f"{before}{value}{after}\n"
        return "".join(lines)
    headers, start = _list_headers(lines), _find_table(lines, table)
    if lines and not lines[-1].endswith("\n"):
        lines[-1] += "\n"
    if start is not None:
        lines.insert(start + 1, f"{key} = {value}\n")
    elif table:
        lines += ["\n"] * bool(lines) + [f"[{table}]\n", f"{key} = {value}\n"]
    else:
        lines.insert(headers[0] if headers else len(lines), f"{key} = {value}\n")
    return "".join(lines)


def _list_headers(lines: list[str]) -> list[int]:
    return [at for at, line in enumerate(lines) if _HEADER.match(line)]


def _find_table(lines: list[str], table: str) -> int | None:
    wanted = re.compile(rf"\s*\[\s*{re.escape(table)}\s*\]\s*(#.*)?$")
    return next((at for at in _list_headers(lines) if table and wanted.match(lines[at].rstrip("\n"))), None)


def _find_line(lines: list[str], name: str) -> tuple[int, str, str] | None:
    """Return where a setting stands on one line: in its own table, or by its dotted name at the top; what is before and
    behind its value."""
    table, _, key = name.rpartition(".")
    headers, start = _list_headers(lines), _find_table(lines, table)
    end = next((at for at in headers if start is not None and at > start), len(lines))
    own = (start + 1, end) if start is not None else (0, 0)
    top = (0, headers[0] if headers else len(lines))
    for (first, last), called in ((own, key), (top, name)):
        for at in range(first, last):
            found = re.match(rf"(\s*{re.escape(called)}\s*=\s*){_VALUE}(\s*(?:#.*)?)$", lines[at].rstrip("\n"))
            if found:
                return at, found[1], found[2]
    return None


def _parse(text: str) -> dict[str, Any] | None:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return None


def _with(values: dict[str, Any], path: list[str], value: FileValue | None) -> dict[str, Any]:
    """The same values with one more, or without it."""
    head, *rest = path
    inner = values.get(head)
    if rest:
        if value is None and not isinstance(inner, dict):
            return values
        return {**values, head: _with(inner if isinstance(inner, dict) else {}, rest, value)}
    if value is None:
        return {key: each for key, each in values.items() if key != head}
    return {**values, head: list(value) if isinstance(value, tuple) else value}


def write_atomically(path: Path, text: str) -> None:
    """Write a file completely or not at all. If it is a link, its target is written and the link stays: the file may be
    kept elsewhere."""
    path = path.resolve()
    mode = path.stat().st_mode & 0o777 if path.exists() else 0o600
    temporary = path.with_name(f".{path.name}.new")
    try:
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, mode)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        raise SetupError(f"{path} cannot be written: {error.strerror}") from None
