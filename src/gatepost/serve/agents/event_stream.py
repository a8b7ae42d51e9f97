"""Streams of server-sent events, and what they have sent lately, for a client that comes back."""

import asyncio
from collections import deque
from collections.abc import Iterable
from itertools import count

from gatepost.core import ids

MOST_EVENTS, MOST_KEPT = 256, 1024 * 1024  # of one session, and their bytes; the newest is kept whatever its size
MOST_PENDING = 16  # events that a reader has not taken, beyond which progress waits
PING_S = 15.0  # proxies end a connection that is silent for longer
PING = b": ping\r\n\r\n"


def render_event(message: bytes, event: str = "") -> bytes:
    """A message as an event. An empty one only tells the client its place in the stream."""
    named = b"id: %b\r\n" % event.encode() if event else b""
    kind = b"event: message\r\n" if message else b""
    return b"%b%bdata: %b\r\n\r\n" % (named, kind, message)


class RecentEvents:
    """Events that the streams of one session have sent lately."""

    def __init__(self) -> None:
        self._name, self._numbers = ids.new("e"), count(1)
        self.kept: deque[tuple[str, str, bytes]] = deque()
        self.size = 0

    def keep(self, stream: str, message: bytes) -> str:
        """Keep a message, and return the id of its event."""
        event = f"{self._name}-{next(self._numbers)}"
        self.kept.append((event, stream, message))
        self.size += len(message)
        while len(self.kept) > MOST_EVENTS or (self.size > MOST_KEPT and len(self.kept) > 1):
            self.size -= len(self.kept.popleft()[-1])
        return event

    def find_after(self, last: str) -> tuple[str | None, list[bytes]]:
        """The stream of an event, and the events that it has sent since. None: it is not known any more."""
        kept = list(self.kept)
        at = next((number for number, each in enumerate(kept) if each[0] == last), None)
        if at is None:
            return None, []
        stream = kept[at][1]
        later = [each for each in kept[at + 1 :] if each[1] == stream and each[2]]
        return stream, [render_event(message, event) for event, _, message in later]


class EventStream:
    """Events for one reader at a time. A second reader takes the place of the first."""

    def __init__(self, name: str = "", recent: RecentEvents | None = None) -> None:
        """`recent`: it can be continued by a later reader."""
        self.name, self._recent = name, recent
        self.ended = False
        self._reader: object | None = None
        self._frames: deque[bytes] = deque()
        self._news, self._room = asyncio.Event(), asyncio.Event()

    @property
    def is_read(self) -> bool:
        return self._reader is not None

    @property
    def is_behind(self) -> bool:
        """Return True if its reader has not taken all of it yet."""
        return bool(self._frames)

    def attach(self, first: Iterable[bytes] = ()) -> object:
        """Make a reader, which finds these events before all others."""
        self._reader, self._frames = object(), deque(first)
        self._news.set()
        return self._reader

    def detach(self, reader: object) -> None:
        if self._reader is reader:
            self._reader = None
            self._frames.clear()
            self._news.set()
            self._room.set()

    def put(self, message: bytes) -> None:
        event = self._recent.keep(self.name, message) if self._recent is not None else ""
        if self._reader is not None:
            self._frames.append(render_event(message, event))
            self._news.set()

    @property
    def is_full(self) -> bool:
        return self._reader is not None and not self.ended and len(self._frames) > MOST_PENDING

    async def wait_for_room(self) -> None:
        """Return when the reader is not far behind, or there is none."""
        while self.is_full:
            self._room.clear()
            await self._room.wait()

    def end(self) -> None:
        self.ended = True
        self._news.set()
        self._room.set()

    async def read_next(self, reader: object) -> bytes | None:
        """The next events, or a sign of life. None: the stream has ended, or another reader has it."""
        while self._reader is reader:
            if self._frames:
                taken = b"".join(self._frames)
                self._frames.clear()
                self._room.set()
                return taken
            if self.ended:
                return None
            self._news.clear()
            try:
                async with asyncio.timeout(PING_S):
                    await self._news.wait()
            except TimeoutError:
                return PING
        return None
