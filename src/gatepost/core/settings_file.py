"""One setting put into `gatepost.toml`, as a person would: everything else in the file stays as it is, comments too.

The new text is read again before it is written, and must say what the old one said plus the one thing. If it does not
(somebody writes TOML in a way that this does not know), the file is left alone and the operator is told the line.
"""

import json
import os
import re
import tomllib
from pathlib import Path
from typing import Any

from gatepost.core.errors import SetupError

_HEADER = re.compile(r"\s*\[")


def set_setting(path: Path, name: str, value: str) -> None:
    """Set a dotted name to a text; a file that is not there is made, closed to others."""
    try:
        old = path.read_text(encoding="utf-8") if path.exists() else ""
        before = tomllib.loads(old)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        raise SetupError(f"{path} cannot be read: {error}") from None
    new = _edit(old, name, json.dumps(value, ensure_ascii=False))
    if _parse(new) != _with(before, name.split("."), value):
        raise SetupError(f"{path} is left alone; write there yourself: {name} = {json.dumps(value)}")
    write_atomically(path, new)


def _edit(text: str, name: str, value: str) -> str:
    table, _, key = name.rpartition(".")
    lines = text.splitlines(keepends=True)
    headers = [at for at, line in enumerate(lines) if _HEADER.match(line)]
    wanted = re.compile(rf"\s*\[\s*{re.escape(table)}\s*\]\s*(#.*)?$")
    start = next((at for at in headers if table and wanted.match(lines[at].rstrip("\n"))), None)
    own = (
        (start + 1, next((at for at in headers if start is not None and at > start), len(lines)))
        if start is not None
        else (0, 0)
    )
    top = (0, headers[0] if headers else len(lines))
    for (first, end), called in ((own, key), (top, name)):
        for at in range(first, end):
            found = re.match(rf"(\s*{re.escape(called)}\s*=\s*)(?:\"[^\"\\]*\"|'[^']*')(.*)$", lines[at].rstrip("\n"))
            if found:
                lines[at] = f"{found[1]}{value}{found[2]}\n"
                return "".join(lines)
    if lines and not lines[-1].endswith("\n"):
        lines[-1] += "\n"
    if start is not None:
        lines.insert(start + 1, f"{key} = {value}\n")
    elif table:
        lines += ["\n"] * bool(lines) + [f"[{table}]\n", f"{key} = {value}\n"]
    else:
        lines.insert(top[1], f"{key} = {value}\n")
    return "".join(lines)


def _parse(text: str) -> dict[str, Any] | None:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return None


def _with(values: dict[str, Any], path: list[str], value: str) -> dict[str, Any]:
    head, *rest = path
    inner = values.get(head)
    return {**values, head: _with(inner if isinstance(inner, dict) else {}, rest, value) if rest else value}


def write_atomically(path: Path, text: str) -> None:
    """Whole or not at all. What a link leads to is written, and the link stays: the file may be kept elsewhere."""
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
