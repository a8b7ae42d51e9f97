"""Which sends began, and when; kept in the store before each send.

It is for platforms that recognize a repeated key only for a while, or that find a message only by its place.

A send that is not here never reached the platform. One that is here may have. After too many sends at once, nothing is
certain about one that is not here.
"""

import hashlib
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from msgspec import Struct

from gatepost.channels.contract import ChannelCursor
from gatepost.core.clock import DAY, SECOND, Clock
from gatepost.core.errors import GatepostError, Refused, Unavailable

MOST = 1000
DONE_KEPT = 30 * SECOND  # until the ledger surely knows the outcome
OPEN_KEPT = 3 * DAY
DROPPED = "dropped"  # the row that says when an open send was dropped last; no key has such a digest


class SendAttempt(Struct):
    at: int  # when the first try began, microseconds UTC
    thread: str = ""
    note: str = ""  # what a look-up needs
    done_at: int = 0


class SendAttempts:
    def __init__(self, cursor: ChannelCursor, clock: Clock, *, name: str = "sends", most: int = MOST) -> None:
        self._cursor, self._clock, self._name, self._most = cursor, clock, name, most
        self._known: dict[str, SendAttempt] | None = None
        self._term = cursor.term

    @asynccontextmanager
    async def attempt(self, key: str, *, thread: str = "", note: str = "") -> AsyncIterator[None]:
        """Around a send. Every error but an uncertain one says that it did not happen."""
        await self.begin(key, thread=thread, note=note)
        try:
            yield
        except GatepostError as error:
            if not (isinstance(error, Unavailable) and error.uncertain):
                self.remove(key)
            raise
        self.end(key)

    async def begin(self, key: str, *, thread: str = "", note: str = "") -> None:
        """Durable when it returns. A second try keeps the moment of the first."""
        known = await self._load()
        attempt = known.setdefault(_digest(key), SendAttempt(self._clock.now()))
        attempt.thread, attempt.note, attempt.done_at = thread, note or attempt.note, 0
        self._expire(known)
        await self._save(known)

    def end(self, key: str) -> None:
        """It is there. It stays known for a moment: the gateway may be killed before it has written that down."""
        attempt = (self._known or {}).get(_digest(key))
        if attempt is not None:
            attempt.done_at = self._clock.now()

    def remove(self, key: str) -> None:
        """It surely did not happen."""
        (self._known or {}).pop(_digest(key), None)

    async def find(self, key: str) -> SendAttempt | None:
        """None: it certainly never began. Raises Refused if that cannot be known."""
        known = await self._load()
        found = known.get(_digest(key))
        if found is None and self._has_dropped(known):
            raise Refused("this channel", "say whether it was sent", why=f"over {self._most} sends were open at once")
        return found

    async def is_open(self, key: str) -> bool:
        """Return True if it may have begun, and its outcome is not known. Also where another gateway sends: nothing of
        what is loaded is kept for that, since it grows old."""
        known = self._get_kept() or _read(await self._cursor.load(self._name))
        found = known.get(_digest(key))
        return self._has_dropped(known) if found is None else not found.done_at

    def _has_dropped(self, known: dict[str, SendAttempt]) -> bool:
        return DROPPED in known and known[DROPPED].at >= self._clock.now() - OPEN_KEPT

    async def _load(self) -> dict[str, SendAttempt]:
        if (kept := self._get_kept()) is not None:
            return kept
        term = self._cursor.term
        loaded = _read(await self._cursor.load(self._name))
        if self._get_kept() is None:  # nobody else was faster
            self._known, self._term = loaded, term
        return self._known if self._known is not None else loaded

    def _get_kept(self) -> dict[str, SendAttempt] | None:
        """Return the attempts of this term, or None if nothing was loaded since this gateway has the channel.

        Attempts of an earlier term mislead: a send that another gateway began is missing in them.
        """
        return self._known if self._term == self._cursor.term else None

    async def _save(self, known: dict[str, SendAttempt]) -> None:
        rows = {key: [each.at, each.thread, each.note, each.done_at] for key, each in known.items()}
        await self._cursor.save(json.dumps(rows, separators=(",", ":")), self._name, durable=True)

    def _expire(self, known: dict[str, SendAttempt]) -> None:
        now = self._clock.now()
        for key, each in list(known.items()):
            if (each.done_at and each.done_at < now - DONE_KEPT) or each.at < now - OPEN_KEPT:
                del known[key]
        kept = [key for key in known if key != DROPPED]
        if len(kept) <= self._most:
            return
        by_use = sorted(kept, key=lambda key: not known[key].done_at)  # those that ended first, then the oldest
        for key in by_use[: len(kept) - self._most]:
            if not known.pop(key).done_at:
                known[DROPPED] = SendAttempt(now)


def _digest(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()[:24]


def _read(text: str) -> dict[str, SendAttempt]:
    rows: dict[str, Any] = json.loads(text) if text else {}
    return {key: SendAttempt(*row) for key, row in rows.items()}
