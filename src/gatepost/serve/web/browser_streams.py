"""The streams that browsers hold open: how an event looks on one, and that a browser has one."""

from typing import Any

import msgspec

from gatepost.channels.local_channel import LocalChannel


class BrowserStreams:
    """At most one stream a browser: a new one ends the one before, because browsers open only six connections."""

    def __init__(self, hub: LocalChannel) -> None:
        self._hub = hub
        self._current: dict[str, object] = {}

    def claim(self, browser: str) -> object:
        mine = object()
        self._current[browser] = mine
        self._wake()  # the one before, which then sees that it is over
        return mine

    def is_current(self, browser: str, mine: object) -> bool:
        return self._current.get(browser) is mine

    def leave(self, browser: str, mine: object) -> None:
        if self.is_current(browser, mine):
            del self._current[browser]

    def end(self, browser: str) -> None:
        """The browser has signed out: it hears nothing more."""
        if self._current.pop(browser, None):
            self._wake()

    def _wake(self) -> None:
        self._hub.ring_all()


def render_sse(kind: str, data: dict[str, Any], cursor: int | None = None) -> bytes:
    number = f"id: {cursor}\n" if cursor is not None else ""
    return b"%sevent: %s\ndata: %s\n\n" % (number.encode(), kind.encode(), msgspec.json.encode(data))
