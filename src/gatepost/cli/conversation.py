"""A conversation at a terminal: what is typed is sent, what is said in the room is printed above it.

From a pipe it is the same without a prompt, and it ends when everything that was sent has been answered.
"""

import contextlib
import shutil
import sys
import threading
import time
import unicodedata
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

from msgspec import Struct

from gatepost.cli import output, reasons
from gatepost.core.errors import GatepostError, Unavailable
from gatepost.core.terminal_text import make_visible
from gatepost.messages.card import Card, render_hint
from gatepost.messages.inbound import Direction, Receipt
from gatepost.serve.control.answers import read_sent
from gatepost.serve.control.chat_outcome import ChatOutcome
from gatepost.serve.control.client import ControlClient, get_result
from gatepost.store.messages.inbox import InboxState

# Rows of a terminal: how wide a text is on the screen, and its last rows.

_NO_WIDTH = ("Mn", "Me", "Cf")


def get_width(text: str) -> int:
    return len(text) if text.isascii() else sum(map(_get_sign_width, text))


def _get_sign_width(sign: str) -> int:
    if unicodedata.category(sign) in _NO_WIDTH:
        return 0
    return 2 if unicodedata.east_asian_width(sign) in ("W", "F") else 1


def count_rows_above(typed: str, columns: int) -> int:
    """How many rows lie between the first of a typed line and the one that the cursor is in, at its end."""
    return get_width(make_visible(typed)) // columns


def list_last_rows(text: str, columns: int, most: int) -> list[str]:
    """The last rows of a text, none of them as wide as the screen: so each is one row there."""
    rows: list[str] = []
    for line in reversed(make_visible(text).expandtabs(4).rstrip().split("\n")):
        rows[:0] = _wrap(line, columns - 1)
        if len(rows) >= most:
            return rows[-most:]
    return rows if text.strip() else []


def _wrap(line: str, room: int) -> list[str]:
    """At blanks, where there are any."""
    rows, row, width = [], "", 0
    for word in _split_words(line, room):
        wide = get_width(word)
        if width + get_width(word.rstrip()) > room:
            rows.append(row.rstrip())
            row, width = "", 0
        row, width = row + word, width + wide
    return [*rows, row.rstrip()]


def _split_words(line: str, room: int) -> list[str]:
    """Words with the blanks behind them; what is wider than a row is cut."""
    found: list[str] = []
    word, width = "", 0
    for sign in line:
        wide = _get_sign_width(sign)
        if (sign != " " and word.endswith(" ")) or (sign != " " and width + wide > room):
            found.append(word)
            word, width = "", 0
        word, width = word + sign, width + wide
    return [*found, word]


# A card on a terminal: its title, its fields in columns, and the answers with their numbers.

WIDEST = 20  # characters of the column of names


def render_card(card: Card) -> output.Line:
    """A card that waits, or what was decided about one: then its title and the decision are enough."""
    return tuple(_render_decided(card) if card.done else _render_open(card))


def _render_decided(card: Card) -> Iterator[output.Piece]:
    yield output.colored(card.title, "bold")
    yield f"\n  {card.done}"


def _render_open(card: Card) -> Iterator[output.Piece]:
    yield output.colored(card.title, "bold")
    if card.text:
        yield f"\n  {_indent(card.text)}"
    width = min(max((len(each.name) for each in card.fields), default=0), WIDEST)
    for each in card.fields:
        yield "\n  "
        yield output.colored(f"{each.name}: ".ljust(width + 2), "dim")
        yield _indent(each.value)
    for number, button in enumerate(card.buttons, start=1):
        yield "\n  "
        yield output.colored(f"{number}.", "bold")
        yield f" {button.label}"
        if button.about:
            yield output.colored(f"  {button.about}", "dim")
    if hint := render_hint(card):
        yield "\n  "
        yield output.colored(hint, "dim")


def _indent(text: str) -> str:
    return text.replace("\n", "\n  ")


ANSWERED = (InboxState.ANSWERED, InboxState.SILENT, InboxState.OBSERVED)
PROMPT = "> "
FIRST_WAIT_S = 1.0  # the first request of a wait: whoever waits for a person is told soon
WAIT_S = 30.0  # one request of a longer wait
RETRY_S = 1.0  # before a broken stream is taken up again
MOST_ROWS = 8  # of an answer that is being written


class StreamedMessage(Struct, frozen=True, kw_only=True, tag_field="type", tag="message"):
    """A message of the room, as far as a terminal shows it."""

    id: int
    direction: Direction
    thread: str
    verb: str
    text: str
    reaction: str = ""
    card: Card | None = None


class StreamedDraft(Struct, frozen=True, kw_only=True, tag_field="type", tag="draft"):
    """Words of an answer that is being written."""

    thread: str
    text: str


class StreamedCursor(Struct, frozen=True, kw_only=True, tag_field="type", tag="cursor"):
    """The place where a stream that broke off is taken up again."""

    cursor: int


class StreamedTyping(Struct, frozen=True, kw_only=True, tag_field="type", tag="typing"):
    """Somebody begins or ceases to write. A terminal does not show it."""


StreamedEvent = StreamedMessage | StreamedDraft | StreamedCursor | StreamedTyping


class ChatTarget(Struct, frozen=True, kw_only=True):
    """The room in which somebody talks, and as whom."""

    room: str
    thread: str
    sender: str

    def body(self, text: str, key: str = "") -> dict[str, Any]:
        return {"text": text, "room": self.room, "thread": self.thread, "as": self.sender, "id": key}


def send(control: ControlClient, place: ChatTarget, text: str, key: str = "") -> Receipt:
    """Hand a message to the gateway."""
    receipt: Receipt = read_sent(Receipt, get_result(control.post("/v1/chat", place.body(text, key))), "a message")
    return receipt


def poll_outcome(control: ControlClient, message: int, timeout: float) -> Iterator[ChatOutcome]:
    """Yield what became of a message so far, again and again until that is final, all is stopped or the time is
    over."""
    deadline, pause = time.monotonic() + timeout, FIRST_WAIT_S
    while True:
        left = max(0.0, deadline - time.monotonic())
        query = urlencode({"message": message, "timeout": min(left, pause)})
        pause = min(2 * pause, WAIT_S)
        answer: ChatOutcome = read_sent(ChatOutcome, get_result(control.get(f"/v1/chat/wait?{query}")), "a wait")
        yield answer
        if answer.done or answer.halted or left <= 0:
            return


def render_message(message: StreamedMessage, thread: str) -> output.Line:
    """Return what is printed of a message, or nothing: what the person wrote is on the screen already."""
    if message.direction is not Direction.OUT:
        return ()
    card = message.card
    decides = card and not message.thread and (card.buttons or card.done)  # that is for every thread
    if card and (message.thread == thread or decides):
        return render_card(card)
    if message.thread != thread:
        return ()
    if message.verb == "react":
        return (f"[{message.reaction}]",)
    mark = "[edited] " if message.verb == "edit" else ""
    text = mark + message.text if message.verb not in ("delete", "pin", "unpin") else ""
    return (text,) if text else ()


class Screen:
    """Two threads write to it: one asks for lines, one prints what comes. The prompt is drawn anew only while somebody
    is being asked, so it never stands there twice."""

    def __init__(self, *, plain: bool = False) -> None:
        """`plain`: a program reads what is printed, whoever types."""
        self.typed = sys.stdin is not None and sys.stdin.isatty() and sys.stdout.isatty() and not plain
        self._lock = threading.Lock()
        self._asking = False
        self._drawn = 0  # rows of a draft above the line that is typed
        self._readline: Any = None
        if self.typed:
            with contextlib.suppress(ImportError):
                import readline  # gives input() its line editing

                self._readline = readline
                readline.set_pre_input_hook(self._asked)

    def ask(self) -> str:
        """The next line; EOFError if there is none."""
        if not self.typed:
            line = sys.stdin.readline() if sys.stdin is not None else ""
            if not line:
                raise EOFError
            return line.rstrip("\n")
        if self._readline is None:
            self._asked()
        typed: str | None = None
        try:
            typed = input(PROMPT)
            return typed
        finally:
            with self._lock:
                self._asking = False
                self._remove_draft(typed)

    def _asked(self) -> None:
        with self._lock:
            self._asking = True

    def print(self, *pieces: output.Piece, error: bool = False) -> None:
        """In place of a draft, if there is one."""
        with self._lock:
            if self._asking or self._drawn:
                self._draw([pieces])
            else:
                output.print_line(*pieces, error=error, flush=True)

    def show_draft(self, text: str) -> None:
        """The last rows of what is being written, above the line that is typed."""
        if not self.typed:
            return
        with self._lock:
            columns, lines = shutil.get_terminal_size()
            rows = list_last_rows(text, columns, max(1, min(MOST_ROWS, lines - 3)))
            if rows or self._drawn:
                self._draw([(output.colored(row, "dim"),) for row in rows])
                self._drawn = len(rows)

    def _draw(self, lines: list[output.Line]) -> None:
        typed = self._read_typed()
        over = self._drawn + count_rows_above(typed, shutil.get_terminal_size().columns)
        self._drawn = 0
        output.print_above(lines, typed, over)

    def _read_typed(self) -> str:
        if not self._asking:
            return ""
        return PROMPT + (self._readline.get_line_buffer() if self._readline is not None else "")

    def _remove_draft(self, line: str | None) -> None:
        """From above a line that was typed to its end (None: it was left); what is still written comes below it."""
        if not self._drawn:
            return
        typed, drawn = PROMPT + (line or ""), self._drawn
        self._drawn = 0
        rows = drawn + count_rows_above(typed, shutil.get_terminal_size().columns)
        if line is None:
            output.print_above([], typed, rows)
        else:
            output.print_above([(typed,)], "", rows + 1)


class TerminalConversation:
    def __init__(self, control: ControlClient, place: ChatTarget, timeout: float) -> None:
        self._control, self._place, self._timeout = control, place, timeout
        self._screen = Screen()
        self._cursor = -1
        self._shown: set[int] = set()
        self._lock = threading.Lock()
        self._sent: list[int] = []
        self._well = True

    def run(self) -> bool:
        """Read lines and send them, until there are no more; print what comes meanwhile. False: from a pipe, something
        was not taken or not answered."""
        self._control.get("/v1/health")
        if self._screen.typed:
            output.print_line("Type a message; /quit or Ctrl-D ends the conversation.")
        else:
            self._read_stream(once=True)  # from here on: what is said now must not be missed
        threading.Thread(target=self._listen, daemon=True).start()
        try:
            while (line := self._screen.ask()).strip() != "/quit":
                if line.strip():
                    self._send(line)
        except (EOFError, KeyboardInterrupt):
            if self._screen.typed:
                output.print_line()
        return self._screen.typed or self._finish()

    def _send(self, line: str) -> None:
        try:
            receipt = send(self._control, self._place, line)
        except GatepostError as error:
            if isinstance(error, Unavailable) and not self._screen.typed:
                raise  # the other lines of a pipe would meet the same
            self._well = False
            self._screen.print(str(error), error=True)
            return
        self._sent.append(receipt.message_id)
        if receipt.state == InboxState.REFUSED:
            self._well = False
            self._screen.print(f"refused: {reasons.render_reason(receipt.reason)}", error=True)

    def _finish(self) -> bool:
        """Wait for the answer to each message of a pipe, then print the rest of the stream."""
        for message in self._sent:
            last = list(poll_outcome(self._control, message, self._timeout))[-1]
            self._well &= last.state in ANSWERED
            if not last.done:
                how = reasons.render_waiting(last.state, last.reason, last.asks)
                self._screen.print(f"message {message} {how}: `gatepost trace {message}`", error=True)
        if self._sent:
            self._read_stream(once=True)
        return self._well

    def _listen(self) -> None:
        """Print the messages of the room from now on; after a lost connection continue at its last one."""
        while True:
            try:
                self._read_stream()
            except GatepostError:
                self._screen.show_draft("")  # what became of it is not known
                time.sleep(RETRY_S)

    def _read_stream(self, once: bool = False) -> None:
        """Follow the room from the cursor on; `once`: as far as it is now."""
        drafts = {"drafts": "1"} if self._screen.typed else {}
        query = urlencode({"room": self._place.room, "after": self._cursor, **drafts})
        for each in self._control.stream(f"/v1/chat/stream?{query}"):
            event: StreamedEvent = read_sent(StreamedEvent, each, "a stream")
            if isinstance(event, StreamedCursor):
                self._cursor = event.cursor
                if once:
                    return
            elif isinstance(event, StreamedDraft):
                if event.thread == self._place.thread:
                    self._screen.show_draft(event.text)
            elif isinstance(event, StreamedMessage) and (line := render_message(event, self._place.thread)):
                self._print(event.id, line)

    def _print(self, message: int, line: output.Line) -> None:
        """Both threads may have seen it."""
        with self._lock:
            if message not in self._shown:
                self._shown.add(message)
                self._screen.print(*line)
