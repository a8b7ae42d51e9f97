"""Prompts that were handed to a coding agent in the running turn, beside those that the agent's own transcript holds.

A line is on the disk before the agent has the words. The agent keeps the line's id with them: what is in no
transcript did not reach the conversation, and is handed over again when the turn is continued.
"""

import hashlib
import os
from collections import deque
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from uuid import uuid4

import msgspec

from gatepost.inside import media
from gatepost.inside.agent_loop import render_items
from gatepost.inside.prompts import prompt
from gatepost.inside.providers.contract import Batch, Item, ProviderContext

UNSEEN = "[the model could not be shown this file]"
MOST_REPLAYED = 4_000_000  # characters of a conversation's end
MOST_TAKEN = 50


class SentPrompt(msgspec.Struct, frozen=True):
    id: str
    turn: str
    rows: tuple[int, ...]
    text: str
    files: tuple[str, ...] = ()  # what came with it, by name: the agent may get more of it than that


def _files(items: Iterable[Item]) -> tuple[str, ...]:
    return tuple(name for item in items for name in media.list_attachment_paths(item))


def _is_one_of(line: bytes, ids: Collection[str]) -> bool:
    return any(each.encode() in line for each in ids)


def _without_media(line: bytes) -> bytes:
    try:
        entry = msgspec.json.decode(line)
        parts = entry["message"]["content"]
    except (msgspec.MsgspecError, KeyError, TypeError):
        return line
    if not isinstance(parts, list):
        return line
    unseen = {"type": "text", "text": UNSEEN}
    entry["message"]["content"] = [unseen if part.get("type") in ("image", "document") else part for part in parts]
    return msgspec.json.encode(entry)


def _new_id() -> str:
    return str(uuid4())


class SentPromptLog:
    """`transcripts`: where the agent keeps them; `pattern`: what one is called there, by its conversation; `new_id`:
    how the agent wants words to be named."""

    def __init__(
        self, file: Path, transcripts: Path, pattern: str = "*/{}.jsonl", new_id: Callable[[], str] = _new_id
    ) -> None:
        self._file, self._transcripts, self._pattern, self._new_id = file, transcripts, pattern, new_id

    def path(self, conversation: str) -> Path | None:
        """Return where the agent keeps that conversation; None: it has none of that name."""
        return next(self._transcripts.glob(self._pattern.format(conversation)), None) if conversation else None

    def held(self, conversation: str, ids: Iterable[str]) -> set[str]:
        """Those of them that are in the conversation."""
        path = self.path(conversation)
        data = path.read_bytes() if path is not None else b""
        return {each for each in ids if each.encode() in data}

    def begin(self, batch: Batch, conversation: str, place: ProviderContext) -> SentPrompt:
        """Return what a turn begins with, or goes on with: only what the conversation does not hold."""
        before = [each for each in self._read() if each.turn == batch.turn]
        held = self.held(conversation, (each.id for each in before))
        lost = [each for each in before if each.id not in held] if batch.continued else []
        known = {row for each in before for row in each.rows if row}
        new = [item for item in batch.items if item.row not in known]
        text = batch.prompt if len(new) == len(batch.items) else render_items(new, place)
        if batch.items and not new:
            text = prompt.render_note("continued", prompt.CONTINUED_RULE)
        rows = (*(row for each in lost for row in each.rows), *(item.row for item in new if item.row))
        files = (*(name for each in lost for name in each.files), *_files(new))
        sent = SentPrompt(self._new_id(), batch.turn, rows, "\n".join([*(each.text for each in lost), text]), files)
        self._write([*(each for each in before if each not in lost), sent])
        return sent

    def follow(self, batch: Batch) -> SentPrompt:
        rows = tuple(item.row for item in batch.items if item.row)
        sent = SentPrompt(self._new_id(), batch.turn, rows, batch.prompt, _files(batch.items))
        self._write([*(each for each in self._read() if each.turn == batch.turn), sent])
        return sent

    def remove_prompt(self, sent: SentPrompt) -> None:
        """The agent did not take it: it is handed over another time."""
        self._write([each for each in self._read() if each.id != sent.id])

    def remove_media(self, conversation: str, turn: str) -> None:
        """The endpoint does not take what came with this turn: without its pictures and documents the words stay, and
        the conversation can go on. Only while the agent does not run; for agents that keep Messages in JSON lines."""
        path = self.path(conversation)
        ids = {each.id for each in self._read() if each.turn == turn and each.files}
        if path is None or not ids:
            return
        lines = [_without_media(line) if _is_one_of(line, ids) else line for line in path.read_bytes().split(b"\n")]
        fresh = path.with_suffix(".new")
        fresh.write_bytes(b"\n".join(lines))
        os.replace(fresh, path)

    def _read(self) -> list[SentPrompt]:
        try:
            return msgspec.json.decode(self._file.read_bytes(), type=list[SentPrompt])
        except (OSError, msgspec.MsgspecError):
            return []

    def _write(self, lines: list[SentPrompt]) -> None:
        fresh = self._file.with_suffix(".new")
        fresh.write_bytes(msgspec.json.encode(lines))
        os.replace(fresh, self._file)


class AcpConversationState(msgspec.Struct, frozen=True):
    conversation: str = ""
    system: str = ""  # the digest of what it was told
    taken: tuple[str, ...] = ()  # ids of what it was seen to take up


class AcpSentPromptLog(SentPromptLog):
    """Prompts that are held by an agent that keeps its conversations to itself.

    They are known as it repeats them when it loads a conversation, else by what it was seen to take up. Beside that,
    the log knows which system prompt a conversation was told.
    """

    def __init__(self, state: Path) -> None:
        super().__init__(state / "handed.json", state)
        self._state_file = state / "told.json"
        self._replayed: deque[str] | None = None
        self._size = 0

    def start_replay(self) -> None:
        """The agent is about to repeat a conversation, or begins one that holds nothing."""
        self._replayed, self._size = deque(), 0

    def skip_replay(self) -> None:
        """It goes on with a conversation without repeating it."""
        self._replayed = None

    def add_replayed(self, text: str) -> None:
        """A piece of what people said in it. The end counts: that is where the running turn is."""
        if self._replayed is None:
            return
        self._replayed.append(text[-MOST_REPLAYED:])
        self._size += len(self._replayed[-1])
        while self._size > MOST_REPLAYED:
            self._size -= len(self._replayed.popleft())

    def held(self, conversation: str, ids: Iterable[str]) -> set[str]:
        wanted = set(ids)
        if self._replayed is None:
            memory = self._memory()
            return wanted & set(memory.taken) if memory.conversation == conversation else set()
        replayed = _plain("".join(self._replayed))
        return {each.id for each in self._read() if each.id in wanted and _plain(each.text) in replayed}

    def has_system_prompt(self, conversation: str, system: str) -> bool:
        memory = self._memory()
        return (memory.conversation, memory.system) == (conversation, _digest(system))

    def had_system_prompt(self, conversation: str) -> bool:
        """Another system prompt, earlier."""
        memory = self._memory()
        return memory.conversation == conversation and bool(memory.system)

    def record_sent(self, conversation: str, sent: SentPrompt, system: str | None) -> None:
        """The agent answers to it, so it has it; with it came this system prompt, if any."""
        self.add_replayed(sent.text)
        memory = self._memory()
        if memory.conversation != conversation:
            memory = AcpConversationState(conversation)
        digest = memory.system if system is None else _digest(system)
        fresh = self._state_file.with_suffix(".new")
        fresh.write_bytes(
            msgspec.json.encode(AcpConversationState(conversation, digest, (*memory.taken, sent.id)[-MOST_TAKEN:]))
        )
        os.replace(fresh, self._state_file)

    def _memory(self) -> AcpConversationState:
        try:
            return msgspec.json.decode(self._state_file.read_bytes(), type=AcpConversationState)
        except (OSError, msgspec.MsgspecError):
            return AcpConversationState()


def _plain(text: str) -> str:
    """Agents keep words, but not always the blanks between them."""
    return "".join(text.split())


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()
