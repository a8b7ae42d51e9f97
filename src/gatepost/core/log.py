"""The log: JSON lines in `logs/gatepost.log` (rotated), and on stderr, for people or for machines. Secrets are redacted
in one place, just before anything is written, at any depth.

`get(name)` costs nothing, so that every module may have one. `log_targets` writes the lines.
"""

import logging
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import IO, Any

from gatepost.core.home import Home
from gatepost.core.settings import setting

LEVEL = setting("log.level", "info", help="What is logged.", choices=("debug", "info", "warning", "error"))
FORMAT = setting(
    "log.format",
    "auto",
    help="How stderr is written; auto: pretty on a terminal, else json. The file is always JSON.",
    choices=("auto", "json", "pretty"),
)

HIDDEN = "[redacted]"
REWRITTEN = ".new"  # how the name of a file ends that is to take the place of another
LONGEST_FACT = 2000  # characters of one fact, however it is built
LONGEST_TRACEBACK = 20_000
MARGIN = 256  # characters behind the cut that are looked at: a secret across it is hidden whole
DEEPEST = 8
_SECRET_KEY = re.compile(
    r"(token|secret|password|passwd|authorization|api[_-]?key|cookie|private[_-]?key|credential)s?\Z", re.IGNORECASE
)
_SECRET_VALUE = re.compile(
    r"\bsk-[A-Za-z0-9_-]{8,}"  # model keys
    r"|\bxox[a-z]-[A-Za-z0-9-]{8,}|\bxapp-[A-Za-z0-9-]{8,}"  # Slack
    r"|\bgh[pousr]_[A-Za-z0-9]{16,}|\bgithub_pat_\w{16,}"
    r"|\b\d{6,12}:[A-Za-z0-9_-]{30,}"  # Telegram bots
    r"|\bAKIA[0-9A-Z]{16}\b"
    r"|(?<=\bbearer )\s*[A-Za-z0-9._~+/=-]{6,}"
    r"|(?<=#login=)[A-Za-z0-9_-]{6,}|(?<=[?&#]token=)[^\s&\"']+"
    r"|(?<=\bpostgresql://)[^\s\"']{1,300}@|(?<=\bpostgres://)[^\s\"']{1,300}@|(?<=[?&]password=)[^\s&\"']+"
    r"|(?<=[?&]sslpassword=)[^\s&\"']+",
    re.IGNORECASE,
)


class Logger:
    """A named source of log lines. Before the daemon has set up the log, only warnings are heard."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def debug(self, event: str, **facts: object) -> None:
        self._write(logging.DEBUG, event, facts)

    def info(self, event: str, **facts: object) -> None:
        self._write(logging.INFO, event, facts)

    def warning(self, event: str, **facts: object) -> None:
        self._write(logging.WARNING, event, facts)

    def error(self, event: str, **facts: object) -> None:
        self._write(logging.ERROR, event, facts)

    def exception(self, event: str, **facts: object) -> None:
        """An error, with the traceback of what is being handled."""
        self._write(logging.ERROR, event, {**facts, "exc_info": True})

    def _write(self, level: int, event: str, facts: dict[str, Any]) -> None:
        target = logging.getLogger(self._name)
        if target.isEnabledFor(level):
            exc_info = facts.pop("exc_info", None)
            target.log(level, event, exc_info=exc_info, extra={"facts": facts}, stacklevel=3)


def get(name: str) -> Logger:
    return Logger(name.removeprefix("gatepost."))


def hide_secrets(text: str) -> str:
    """A text without what looks like a secret."""
    return _SECRET_VALUE.sub(HIDDEN, text)


def redact(event: Mapping[str, Any]) -> dict[str, Any]:
    """The same facts without secrets: those named like one, and those that look like one. Each is cut before it is
    looked at, because the search costs as much as the text is long, and strangers choose what is logged."""
    return {name: _Fact(name).redact(value, name) for name, value in event.items()}


class _Fact:
    """One fact, within bounds. Once they are used up, nothing is added."""

    def __init__(self, name: str) -> None:
        self._left = LONGEST_TRACEBACK if name == "exception" else LONGEST_FACT

    def redact(self, value: Any, key: str, depth: int = 0) -> Any:
        if isinstance(value, Mapping | list | tuple | set | frozenset) and depth >= DEEPEST:
            return "…"
        if isinstance(value, Mapping):
            return {self._text(str(name)): self.redact(each, str(name), depth + 1) for name, each in self._some(value)}
        if isinstance(value, (list, tuple, set, frozenset)):
            return [self.redact(each, key, depth + 1) for each in self._some(value)]
        if isinstance(value, bool | float | None) or (isinstance(value, int) and value.bit_length() <= 64):
            return value  # a number of tokens is no token
        if key and _SECRET_KEY.search(key[-LONGEST_FACT:]):
            return HIDDEN
        if isinstance(value, int):
            return f"<a number of {value.bit_length()} bits>"
        if isinstance(value, bytes):
            return f"<{len(value)} bytes>"
        return self._text(value if isinstance(value, str) else str(value))

    def _some(self, value: Any) -> Iterator[Any]:
        """Its items, as long as there is room; each takes some of it, however small it is."""
        for each in value.items() if isinstance(value, Mapping) else value:
            if self._left <= 0:
                yield ("…", "…") if isinstance(value, Mapping) else "…"
                return
            self._left -= 10
            yield each

    def _text(self, text: str) -> str:
        most = max(self._left, 0)
        self._left -= len(text)
        if len(text) <= most:
            return _SECRET_VALUE.sub(HIDDEN, text)
        if most == LONGEST_TRACEBACK:  # its last line says what happened
            return f"{_hide(text, most // 2)}\n… [{len(text):,} characters in all] …\n{_hide_end(text, most // 2)}"
        return f"{_hide(text, most)}… [{len(text):,} characters in all]"


def _hide(text: str, most: int) -> str:
    """The first characters of a text without its secrets, also one that goes on behind them."""
    shown, at = [], 0
    for found in _SECRET_VALUE.finditer(text[: most + MARGIN]):
        if found.start() >= most:
            break
        shown += [text[at : found.start()], HIDDEN]
        at = found.end()
    return "".join([*shown, text[at:most]])


def _hide_end(text: str, most: int) -> str:
    """The last characters of a text without its secrets, also one that began before them."""
    start = len(text) - most
    shown, at = [], start
    for found in _SECRET_VALUE.finditer(text, max(start - LONGEST_FACT, 0)):
        if found.end() > start:
            shown += [text[at : found.start()], HIDDEN]
            at = found.end()
    return "".join([*shown, text[at:]])


def remove_lines(home: Home, is_removed: Callable[[str], bool]) -> int:
    """Write the log's files anew without some lines; how many there were. For a thread: what is logged meanwhile waits
    only while the last lines are looked at."""
    removed, waiting = 0, _list_files(home)
    while waiting:
        found = _rewrite(waiting.pop(), is_removed)
        if found is None:  # it was rotated: every file has another name now
            waiting = _list_files(home)
        removed += found or 0
    return removed


def _list_files(home: Home) -> list[Path]:
    return sorted(each for each in home.logs.glob("gatepost.log*") if not each.name.endswith(REWRITTEN))


def _rewrite(path: Path, is_removed: Callable[[str], bool]) -> int | None:
    """How many lines were removed; None: another file is there now."""
    draft = path.with_name(path.name + REWRITTEN)
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
    open_one = _find_handler(path)
    with path.open("rb") as file, os.fdopen(os.open(draft, flags, 0o600), "wb") as kept:
        removed = _copy_lines(file, kept, is_removed, whole=True)
        with open_one.lock if open_one is not None and open_one.lock is not None else nullcontext():
            if not path.exists() or os.fstat(file.fileno()).st_ino != path.stat().st_ino:
                draft.unlink()
                return None
            removed += _copy_lines(file, kept, is_removed)
            kept.flush()
            os.replace(draft, path)
            if open_one is not None and open_one.stream is not None:
                open_one.stream.close()
                open_one.stream = open_one._open()
    return removed


def _copy_lines(file: IO[bytes], kept: IO[bytes], is_removed: Callable[[str], bool], *, whole: bool = False) -> int:
    """`whole`: the last line only if it is complete."""
    removed = 0
    while line := file.readline():
        if whole and not line.endswith(b"\n"):
            file.seek(-len(line), os.SEEK_CUR)
            break
        if is_removed(line.decode(errors="replace")):
            removed += 1
        else:
            kept.write(line)
    return removed


def _find_handler(path: Path) -> logging.FileHandler | None:
    """Return the handler of this process that has that file open, if any."""
    files = (each for each in logging.getLogger().handlers if isinstance(each, logging.FileHandler))
    return next((each for each in files if Path(each.baseFilename) == path), None)
