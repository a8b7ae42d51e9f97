"""An answer while it is written: sent to the host as long as somebody watches, at intervals, and never kept.

A draft is a courtesy; only the message that takes its place counts.
"""

import asyncio
from collections.abc import Callable, Sequence
from itertools import takewhile

from gatepost.inside.prompts.output_parser import parse_draft
from gatepost.mailbox.runner_frames import LONGEST_DRAFT, DraftFrame

APART_S = 0.04  # between two drafts
LONGEST_WRITTEN = 100_000  # characters of a message beyond which its draft does not grow: thoughts are among them


def add_piece(written: str, piece: str) -> str:
    """A text that has grown, as far as a draft shows it."""
    return written if len(written) >= LONGEST_WRITTEN else written + piece


class GrowingText:
    """Pieces of a message, joined when somebody wants to see it: what is joined already is not joined again."""

    def __init__(self) -> None:
        self._joined, self._count = "", 0

    def join(self, pieces: Sequence[str]) -> str:
        self._joined = add_piece(self._joined, "".join(pieces[self._count :]))
        self._count = len(pieces)
        return self._joined


class DraftSender:
    """One for a runner. The first words of a message go out at once, what follows at intervals."""

    def __init__(self, send: Callable[[DraftFrame], None]) -> None:
        self._send = send
        self.is_watched = False
        self._turn, self._epoch = "", 0
        self._written = self._sent = ""
        self._next = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, turn: str, epoch: int) -> None:
        self.end(sent=True)
        self._turn, self._epoch = turn, epoch

    def watch(self, on: bool) -> None:
        """Turn watching on or off. A new watcher gets the text that is written already."""
        self.is_watched, self._sent = on, ""
        self._stop_timer()
        if on and self._written:
            self._send_later()

    def write(self, text: str) -> None:
        """Set the text of the next message as far as it is written."""
        self._written = text[:LONGEST_WRITTEN]
        if self.is_watched and self._timer is None:
            self._send_later()

    def end(self, *, sent: bool) -> None:
        """The message is whole, or does not come. `sent`: it is handed over, and takes the draft's place."""
        self._stop_timer()
        self._written = ""
        if self._sent and not sent:
            self._send(DraftFrame(turn=self._turn, epoch=self._epoch, text=""))
        self._sent = ""

    def _send_later(self) -> None:
        loop = asyncio.get_running_loop()
        if (now := loop.time()) >= self._next:
            self._send_written()
        else:
            self._timer = loop.call_later(self._next - now, self._send_written)

    def _send_written(self) -> None:
        self._timer = None
        shown = parse_draft(_join_halves(self._written))[:LONGEST_DRAFT]
        if shown == self._sent:
            return
        kept = count_common(self._sent, shown)
        self._send(DraftFrame(turn=self._turn, epoch=self._epoch, text=shown[kept:], kept=kept))
        self._sent, self._next = shown, asyncio.get_running_loop().time() + APART_S

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def count_common(before: str, after: str) -> int:
    """How many characters both begin with."""
    if after.startswith(before):
        return len(before)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(before, after, strict=False)))


def _join_halves(text: str) -> str:
    """A stream may cut a character in two, which no frame can hold."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "ignore")
    return text
