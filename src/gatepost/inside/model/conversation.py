"""A conversation with a model, on disk: JSON lines, each there before anybody acts on it. A later process goes on where
this one stopped, and a message that is in it is not put in twice.

A model is shown the order that it saw, not the one in which lines were written. An answer stands behind the words that
it answers and before those that came meanwhile. Results of its tool calls stand right behind it. A summary takes the
place of what came before it, for the model alone: the file keeps everything.
"""

import errno
import hashlib
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from gatepost.inside.media import MIMES, MediaBlock, MediaKind
from gatepost.inside.prompts import prompt

MISSING = "This call was cut off before its result was known."
DEEPEST = 100  # levels of the arguments of a call; the gateway takes no more either
SUMMARY = "Older messages of this conversation are summed up here, to make room. You have said and done what it says."


class UserEntry(msgspec.Struct, frozen=True, tag="heard", omit_defaults=True):
    """Words for the model. `rows` are the messages they were made of."""

    turn: str
    text: str
    rows: tuple[int, ...] = ()
    blocks: tuple[MediaBlock, ...] = ()


class AssistantToolCall(msgspec.Struct, frozen=True, omit_defaults=True):
    """A tool call. The id is ours: a model's own may come again, and ours is the identity of the effect. `bad`: what
    the model wrote in the place of arguments; `cut`: its answer ended before they did."""

    id: str
    tool: str
    input: dict[str, Any] = {}
    bad: str = ""
    cut: bool = False


class AssistantEntry(msgspec.Struct, frozen=True, tag="said", omit_defaults=True):
    """The model's answer; `seen` is how many lines it had seen. `sent` and `read` are the size of the request, in bytes
    and in the tokens of that model."""

    turn: str
    seen: int
    text: str = ""
    uses: tuple[AssistantToolCall, ...] = ()
    model: str = ""
    sent: int = 0
    read: int = 0


class ToolResultEntry(msgspec.Struct, frozen=True, tag="used", omit_defaults=True):
    """The outcome of a tool call."""

    turn: str
    id: str
    text: str
    error: bool = False
    blocks: tuple[MediaBlock, ...] = ()  # pictures


class RejectedTurnEntry(msgspec.Struct, frozen=True, tag="refused"):
    """The endpoint does not take what this turn brought: it is not shown again, or nothing would ever be taken."""

    turn: str


class CompactionEntry(msgspec.Struct, frozen=True, tag="compact", omit_defaults=True):
    """Somebody wants the conversation to be shorter. `wish`: what they want to be kept."""

    turn: str
    rows: tuple[int, ...] = ()
    wish: str = ""


class SummaryEntry(msgspec.Struct, frozen=True, tag="summary", omit_defaults=True):
    """A summary in the place of everything before the position `upto`, except for the words that its own turn is to
    answer. `facts` are to be kept beyond the conversation; `read` stood on pages and in files."""

    turn: str
    upto: float
    text: str
    facts: tuple[str, ...] = ()
    read: tuple[str, ...] = ()


class KeptFactsEntry(msgspec.Struct, frozen=True, tag="kept"):
    """The gateway was given the facts of every summary before this line."""

    turn: str


ConversationEntry = (
    UserEntry | AssistantEntry | ToolResultEntry | RejectedTurnEntry | CompactionEntry | SummaryEntry | KeptFactsEntry
)


class UserMessage(msgspec.Struct, frozen=True):
    """Words for the model, in their place."""

    text: str
    blocks: tuple[MediaBlock, ...] = ()


class AssistantMessage(msgspec.Struct, frozen=True):
    """The model's words and calls, each call with its result."""

    text: str
    uses: tuple[tuple[AssistantToolCall, ToolResultEntry], ...] = ()


class SummaryMessage(UserMessage, frozen=True):
    """The rest of the messages that a summary stands for."""


ConversationMessage = UserMessage | AssistantMessage


def list_blocks(message: ConversationMessage) -> list[MediaBlock]:
    """Return everything of a message that is shown as it is."""
    if isinstance(message, UserMessage):
        return list(message.blocks)
    return [block for _, used in message.uses for block in used.blocks]


DAMAGED = RejectedTurnEntry("")

_decode = msgspec.json.Decoder(ConversationEntry).decode
_encode = msgspec.json.Encoder().encode


class PlacedMessage(msgspec.Struct, frozen=True):
    """A message and where it stands in the whole conversation. `turn` is that of words for the model, else ''."""

    position: float
    message: ConversationMessage
    turn: str = ""


def find_summary(entries: Sequence[ConversationEntry]) -> SummaryEntry | None:
    """Return the one that holds: the newest."""
    return next((entry for entry in reversed(entries) if isinstance(entry, SummaryEntry)), None)


def place_messages(entries: Sequence[ConversationEntry]) -> list[PlacedMessage]:
    """Return the messages that the model still sees as they are, in their order."""
    refused = {entry.turn for entry in entries if isinstance(entry, RejectedTurnEntry)}
    results = {entry.id: entry for entry in entries if isinstance(entry, ToolResultEntry)}
    summary = find_summary(entries)
    placed: list[PlacedMessage] = []
    for index, entry in enumerate(entries):
        if not isinstance(entry, UserEntry | AssistantEntry) or entry.turn in refused:
            continue
        said = isinstance(entry, AssistantEntry)
        position = entry.seen - 0.5 if isinstance(entry, AssistantEntry) else index
        if summary is None or position >= summary.upto or (not said and entry.turn == summary.turn):
            placed.append(PlacedMessage(position, _message(entry, results), "" if said else entry.turn))
    return sorted(placed, key=lambda each: each.position)


def order_messages(entries: Sequence[ConversationEntry]) -> list[ConversationMessage]:
    """The conversation as a model is to see it."""
    summary = find_summary(entries)
    before: list[ConversationMessage] = [SummaryMessage(_render_summary(summary))] if summary is not None else []
    return [*before, *(each.message for each in place_messages(entries))]


def _render_summary(summary: SummaryEntry) -> str:
    return prompt.render_note("summary", f"{SUMMARY}\n\n{summary.text}")


def _message(entry: UserEntry | AssistantEntry, results: dict[str, ToolResultEntry]) -> ConversationMessage:
    if isinstance(entry, UserEntry):
        return UserMessage(entry.text, entry.blocks)
    missing = [ToolResultEntry(entry.turn, use.id, MISSING, True) for use in entry.uses]
    return AssistantMessage(
        entry.text, tuple((use, results.get(use.id, none)) for use, none in zip(entry.uses, missing, strict=True))
    )


class ModelConversation:
    """One conversation's file, and the bytes of what the model is shown beside it."""

    def __init__(self, state: Path, name: str = "") -> None:
        self.name = Path(name).name or f"c-{os.urandom(6).hex()}"
        self._path = state / f"{self.name}.jsonl"
        self._media = state / "media"
        self.entries: list[ConversationEntry] = self._load()

    def add(self, *entries: ConversationEntry) -> None:
        """On the disk when this returns."""
        lines = b"".join(_encode(entry) + b"\n" for entry in entries)
        handle = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            size = os.fstat(handle).st_size
            if os.write(handle, lines) < len(lines):  # a disk that became full: half a line would spoil the next one
                os.ftruncate(handle, size)
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self._path))
            os.fsync(handle)
        finally:
            os.close(handle)
        self.entries += entries

    def rows(self) -> set[int]:
        """The messages that it holds."""
        return {row for entry in self.entries if isinstance(entry, UserEntry | CompactionEntry) for row in entry.rows}

    def unfinished(self, turn: str) -> list[AssistantToolCall]:
        """Calls of this turn whose results are not known."""
        known = {entry.id for entry in self.entries if isinstance(entry, ToolResultEntry)}
        said = [entry for entry in self.entries if isinstance(entry, AssistantEntry) and entry.turn == turn]
        return [use for entry in said for use in entry.uses if use.id not in known]

    def find_unkept_facts(self) -> SummaryEntry | None:
        """Return the newest summary if the gateway was not given its facts; those before it were given, or are in it
        again."""
        last = next((each for each in reversed(self.entries) if isinstance(each, SummaryEntry | KeptFactsEntry)), None)
        return last if isinstance(last, SummaryEntry) and (last.facts or last.read) else None

    def is_open(self) -> bool:
        """Return True if its last words were never answered to their end."""
        last = next((each.message for each in reversed(place_messages(self.entries))), None)
        return isinstance(last, UserMessage) or (isinstance(last, AssistantMessage) and bool(last.uses))

    def keep(self, name: str, kind: MediaKind, data: bytes) -> MediaBlock:
        """Bytes that the model is shown with every request; the file that they came from goes when its message ends."""
        self._media.mkdir(exist_ok=True)
        file = hashlib.sha256(data).hexdigest()
        if not (self._media / file).exists():
            (self._media / f"{file}.new").write_bytes(data)
            (self._media / f"{file}.new").rename(self._media / file)
        return MediaBlock(kind, MIMES.get(kind, "application/octet-stream"), name, file)

    def bytes_of(self, block: MediaBlock) -> bytes:
        return (self._media / Path(block.file).name).read_bytes()

    def copy(self, state: Path) -> "ModelConversation":
        """The same under another name."""
        twin = ModelConversation(state)
        if self.entries:
            twin.add(*self.entries)
        return twin

    def _load(self) -> list[ConversationEntry]:
        try:
            data = self._path.read_bytes()
        except FileNotFoundError:
            return []
        whole = data[: data.rfind(b"\n") + 1]
        if len(whole) < len(data):  # the last line was being written when its process ended: nobody acted on it
            os.truncate(self._path, len(whole))
        return list(_entries(whole.split(b"\n")))


def _entries(lines: Iterable[bytes]) -> Iterable[ConversationEntry]:
    for line in lines:
        if line:
            yield _read_entry(line)


def is_too_deep(value: Any) -> bool:
    """Return True if a later process might not read it again: a line is read by recursion."""
    level = [value]
    for _ in range(DEEPEST):
        level = [
            held
            for each in level
            for held in (each.values() if isinstance(each, dict) else each)
            if isinstance(held, dict | list)
        ]
        if not level:
            return False
    return True


def _read_entry(line: bytes) -> ConversationEntry:
    """A line that is damaged stands for nothing, in its place: what comes behind it is counted by lines."""
    try:
        entry: ConversationEntry = _decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return DAMAGED
    return entry
