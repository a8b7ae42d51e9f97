"""Prompts that are held by an agent that keeps its conversations to itself: as it repeats them when it loads one, else
by what it was seen to take up. Beside that, which system prompt a conversation was told."""

import hashlib
import os
from collections import deque
from collections.abc import Iterable
from pathlib import Path

import msgspec

from gatepost.inside.prompts.sent_prompts import SentPrompt, SentPromptLog

MOST_REPLAYED = 4_000_000  # characters of a conversation's end
MOST_TAKEN = 50


class AcpConversationState(msgspec.Struct, frozen=True):
    conversation: str = ""
    system: str = ""  # the digest of what it was told
    taken: tuple[str, ...] = ()  # ids of what it was seen to take up


class AcpSentPromptLog(SentPromptLog):
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
