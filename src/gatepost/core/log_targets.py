"""The targets of the log: its file, which is rotated, and stderr. Only a process that writes a log imports this, and
structlog with it.

Nobody can fill the log. Events that are equal in name and subject (session, group, channel, connector) are written one
by one at first. Further ones of that minute become a single line with their number, written with the next line after
it.
"""

import io
import logging
import os
import sys
import threading
from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from logging.handlers import RotatingFileHandler
from typing import IO, Any

from gatepost.core.clock import MINUTE, SECOND, iso
from gatepost.core.errors import SetupError
from gatepost.core.home import Home
from gatepost.core.log import FORMAT, LEVEL, LONGEST_FACT, redact
from gatepost.core.repeat_counter import RepeatCounter, RepeatSummary
from gatepost.core.settings import Config
from gatepost.core.terminal_text import make_visible


@contextmanager
def _without_rich() -> Iterator[None]:
    """structlog imports `rich` where that is installed, for tracebacks that we do not use: 80 ms of 110."""
    hidden = "rich" not in sys.modules
    if hidden:
        sys.modules["rich"] = None  # type: ignore[assignment]  # by which an import fails
    try:
        yield
    finally:
        if hidden:
            del sys.modules["rich"]


with _without_rich():
    import structlog

FILE_BYTES, FILES_KEPT = 10 * 1024 * 1024, 3
FIRST = 10  # lines of the same event about the same thing that are written in a window
WINDOW = MINUTE
_ABOUT = ("session", "folder", "channel", "connector", "instance")  # facts that tell events apart: the host names these
_NOISY = ("asyncio", "httpcore", "httpx", "httpx2", "urllib3", "uvicorn")


class _RepeatFilter(logging.Filter):
    """Lets the first lines of an event through, of libraries too, and counts the others. One for all targets."""

    def __init__(self) -> None:
        super().__init__()
        self._repeats = RepeatCounter[tuple[str, int, str, tuple[str, ...]]](WINDOW)
        self._lock = threading.Lock()

    def filter(self, record: logging.LogRecord) -> bool:
        known: bool | None = getattr(record, "spared", None)  # another target has asked
        if known is not None:
            return known
        facts: dict[str, Any] = getattr(record, "facts", {})
        about = tuple(str(facts.get(name, ""))[:LONGEST_FACT] for name in _ABOUT)
        now = int(record.created * SECOND)
        with self._lock:
            written = not self._repeats.add(
                (record.name, record.levelno, str(record.msg)[:LONGEST_FACT], about), now, FIRST
            )
            over = self._repeats.pop_closed(now)
        record.spared = written
        self._log_repeats(over)
        return written

    def flush(self) -> None:
        with self._lock:
            over = self._repeats.pop_closed()
        self._log_repeats(over)

    def _log_repeats(self, over: list[RepeatSummary[tuple[str, int, str, tuple[str, ...]]]]) -> None:
        for each in over:
            name, level, event, about = each.key
            facts = {key: value for key, value in zip(_ABOUT, about, strict=True) if value}
            message = f"{event} (repeated {each.count:,} times)"
            extra = {"facts": {**facts, "repeated": each.count, "since": iso(each.since)}, "spared": True}
            logging.getLogger(name).log(level, message, extra=extra)


_sparing: _RepeatFilter | None = None


def configure(home: Home, config: Config, stream: IO[str] | None = None) -> None:
    """Set up the log of this process. Libraries that use the standard one go the same way."""
    shown = stream if stream is not None else sys.stderr
    pretty = config[FORMAT] == "pretty" or (config[FORMAT] == "auto" and shown.isatty())
    as_json = structlog.processors.JSONRenderer(default=str, ensure_ascii=False)
    for_people = structlog.dev.ConsoleRenderer(
        colors=shown.isatty(), exception_formatter=structlog.dev.plain_traceback, pad_event_to=32
    )
    close()
    global _sparing
    _sparing = _RepeatFilter()
    root = logging.getLogger()
    for target, renderer in (
        (_open_file(home), as_json),
        (logging.StreamHandler(shown), for_people if pretty else as_json),
    ):
        target.setFormatter(_formatter(renderer, _escape_all if renderer is for_people else _redact_all))
        target.set_name("gatepost")
        target.addFilter(_sparing)
        root.addHandler(target)
    root.setLevel(config[LEVEL].upper())
    for name in _NOISY:
        logging.getLogger(name).setLevel(max(logging.WARNING, root.level))
    logging.captureWarnings(True)


def close() -> None:
    """Leave the standard log as it was found."""
    global _sparing
    if _sparing is not None:
        _sparing.flush()
        _sparing = None
    root = logging.getLogger()
    for each in [found for found in root.handlers if found.get_name() == "gatepost"]:
        root.removeHandler(each)
        each.close()
    root.setLevel(logging.WARNING)
    logging.captureWarnings(False)


def _formatter(renderer: Any, clean: Any) -> logging.Formatter:
    return structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=[
            structlog.stdlib.add_log_level,
            structlog.stdlib.add_logger_name,
            _add_facts,
        ],
        processors=[
            structlog.processors.format_exc_info,
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            clean,
            renderer,
        ],
    )


def _add_facts(_: Any, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    record: logging.LogRecord = event["_record"]
    event["timestamp"] = iso(int(record.created * 1_000_000))
    facts: dict[str, Any] = getattr(record, "facts", {})
    for name, value in facts.items():
        event.setdefault(name, value)
    return event


def _redact_all(_: Any, __: str, event: MutableMapping[str, Any]) -> Mapping[str, Any]:
    return redact(event)


def _escape_all(_: Any, __: str, event: MutableMapping[str, Any]) -> Mapping[str, Any]:
    """For a terminal, which would obey what stands in other people's text."""
    return {name: make_visible(value) if isinstance(value, str) else value for name, value in redact(event).items()}


class _OwnersFile(RotatingFileHandler):
    """Readable by its owner alone, also after a rotation."""

    def _open(self) -> io.TextIOWrapper:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        return os.fdopen(os.open(self.baseFilename, flags, 0o600), "a", encoding="utf-8", errors="replace")


def _open_file(home: Home) -> logging.Handler:
    try:
        home.logs.mkdir(mode=0o700, parents=True, exist_ok=True)
        return _OwnersFile(home.logs / "gatepost.log", maxBytes=FILE_BYTES, backupCount=FILES_KEPT)
    except OSError as error:
        raise SetupError(f"the log {home.logs / 'gatepost.log'} cannot be written: {error.strerror}") from None
