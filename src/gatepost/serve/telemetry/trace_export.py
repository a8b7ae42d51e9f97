"""Send the traces of messages to a receiver of OpenTelemetry.

The ledger is the queue. A loop reads the newest steps once a second, with the readers of the store; a thread makes
spans of them and sends them. Nothing waits for it. While the receiver is away the cursor stays where it is; a receiver
that is away for too long misses the oldest. The cursor is a file, so the store's writer has no part in this.

A message is sent when its life is over. A crash between sending and writing the cursor sends the same spans again,
with the same ids.
"""

import asyncio
import contextlib
import os
from collections.abc import Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from gatepost.core import log
from gatepost.core.errors import Unavailable
from gatepost.core.home import Home
from gatepost.core.process.thread_pools import BoundedThreadPool
from gatepost.core.settings import Config
from gatepost.serve.telemetry.spans import TraceSpan, make_trace
from gatepost.serve.telemetry.trace_receiver import (
    TIMEOUT_S,
    ExportOutcome,
    SendResult,
    check_endpoint,
    get_url,
    open_client,
)
from gatepost.store.port import Store
from gatepost.store.sessions.trace_facts import TracePage, find_newest_step, read_page

if TYPE_CHECKING:
    from gatepost.serve.telemetry.otlp import OtlpClient

LOOK_S = 1.0
PAGE_STEPS = 300
MOST_BEHIND = 100_000  # steps that wait for a receiver at most
PAGE_S = 10.0  # that reading a page may take
FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 60.0
THREAD_S = 4 * TIMEOUT_S  # a thread that takes longer is not waited for; no other is started before it ends
MOST_SPANS, LARGEST_PAGE = 1000, 10_000  # spans of one request, and of one page
REMEMBERED = 2 * LARGEST_PAGE  # spans that are not sent twice if something is added to their message later
LANE = "telemetry"

_log = log.get("telemetry")


class ExportCounts(Struct, frozen=True, kw_only=True):
    """`skipped`: steps of the ledger that nobody made spans of, because the receiver was away for too long."""

    sent: int
    dropped: int
    skipped: int


class TraceExporter:
    """`trouble`: why the last spans could not be sent; '' if they were."""

    def __init__(self, home: Home, store: Store, config: Config) -> None:
        self._store, self._config = store, config
        self._url = get_url(config)
        self._file = home.path / "telemetry.cursor"
        self._threads = BoundedThreadPool(1)
        self._client: OtlpClient | None = None
        self._page_steps = PAGE_STEPS
        self._remembered: dict[bytes, None] = {}
        self._sent = self._dropped = self._skipped = 0
        self.trouble = ""
        check_endpoint(home, config)

    @property
    def is_on(self) -> bool:
        return bool(self._url)

    def get_counts(self) -> ExportCounts | None:
        """None: it is off."""
        if not self.is_on:
            return None
        return ExportCounts(sent=self._sent, dropped=self._dropped, skipped=self._skipped)

    async def run(self) -> None:
        """Export until cancelled. Spans that are not sent by then are sent after the next start."""
        newest = await self._find_newest()
        cursor, pause = await self._threads.run(partial(self._find_cursor, newest)), 0.0
        while True:
            await asyncio.sleep(max(LOOK_S, pause))
            # Only what was there at the last look: a call that only reads has its audit row a moment after its effect.
            until, newest = newest, await self._find_newest()
            if until - cursor > MOST_BEHIND:
                self._skipped += until - cursor - MOST_BEHIND
                cursor = until - MOST_BEHIND
            cursor, pause = await self._export(cursor, until, pause)

    def _find_cursor(self, newest: int) -> int:
        """Return where the last run came to. The first one begins here, and so does the first one on an older store."""
        found = read_cursor(self._file)
        if found is None or found > newest:
            write_cursor(self._file, newest)
            return newest
        return found

    async def _find_newest(self) -> int:
        while True:
            try:
                return await self._store.read(find_newest_step, lane=LANE)
            except Unavailable:
                await asyncio.sleep(LOOK_S)

    async def _export(self, cursor: int, until: int, pause: float) -> tuple[int, float]:
        """Page by page, as long as they are taken. The new cursor, and how long to wait then."""
        while cursor < until:
            try:
                result, end = await self._export_page(cursor, until)
            except Exception:  # noqa: BLE001  a mistake of ours costs the traces of one page, and not the gateway
                _log.exception("traces could not be made", after=cursor)
                end = min(cursor + self._page_steps, until)
                self._skipped += end - cursor
                result = SendResult(ExportOutcome.REFUSED, "some could not be made; the log has the reason")
            self._set_trouble(result.reason)
            if result.outcome is ExportOutcome.LATER:
                return cursor, max(result.pause_s, _get_next_pause(pause))
            cursor, pause = end, 0.0
        return cursor, 0.0

    async def _export_page(self, cursor: int, until: int) -> tuple[SendResult, int]:
        """Return what became of it, and the cursor after it."""
        try:
            page = await self._store.read(read_page, cursor, until, self._page_steps, within=PAGE_S, lane=LANE)
        except Unavailable as error:
            self._page_steps = max(1, self._page_steps // 4)  # it may have been too much for the time
            return SendResult(ExportOutcome.LATER, f"the store cannot be read: {error}"), cursor
        self._page_steps = PAGE_STEPS
        try:
            async with asyncio.timeout(THREAD_S):
                return await self._threads.run(partial(self._send_page, page)), page.cursor
        except TimeoutError:
            return SendResult(ExportOutcome.LATER, f"it is not done after {THREAD_S:g} s"), cursor

    def _send_page(self, page: TracePage) -> SendResult:
        """Send a page, in the one thread. If it fails, its sent spans are remembered and not sent again with it."""
        made = (span for facts in page.facts for span in make_trace(facts))
        spans = [each for each in islice(made, LARGEST_PAGE) if each.span_id not in self._remembered]
        result = SendResult(ExportOutcome.SENT)
        for at in range(0, len(spans), MOST_SPANS):
            some = spans[at : at + MOST_SPANS]
            self._client = self._client or open_client(self._config)
            result = self._client.send(some)
            if result.outcome is ExportOutcome.LATER:
                return result
            refused = len(some) if result.outcome is ExportOutcome.REFUSED else min(result.rejected, len(some))
            self._dropped += refused
            self._sent += len(some) - refused
            self._remember(some)
        self._dropped += sum(1 for _ in made)
        write_cursor(self._file, page.cursor)
        return result

    def _remember(self, spans: Sequence[TraceSpan]) -> None:
        self._remembered.update(dict.fromkeys(each.span_id for each in spans))
        for each in list(self._remembered)[: max(0, len(self._remembered) - REMEMBERED)]:
            del self._remembered[each]

    def _set_trouble(self, reason: str) -> None:
        if reason and not self.trouble:
            _log.warning("traces cannot be sent", endpoint=self._url, why=reason)
        elif self.trouble and not reason:
            _log.info("traces are sent again", endpoint=self._url)
        self.trouble = reason


def _get_next_pause(pause: float) -> float:
    return min(max(FIRST_PAUSE_S, pause * 2), LONGEST_PAUSE_S)


def read_cursor(path: Path) -> int | None:
    """None: there is none, or none that can be read."""
    try:
        text = path.read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return None
    return int(text) if text.isdigit() and len(text) < 19 else None


def write_cursor(path: Path, cursor: int) -> None:
    """A disk that is full costs a few spans that are sent twice, after a crash."""
    part = path.with_suffix(".part")
    with contextlib.suppress(OSError):
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with open(descriptor, "w", encoding="ascii") as file:
            file.write(f"{cursor}\n")
        part.replace(path)
