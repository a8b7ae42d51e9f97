"""scripted: a provider that does what a JSON file says. The test instrument of the whole project, in a real process.

It answers every message of a batch separately and in order. Its conversation is written to disk before it answers, so a
later process goes on exactly where this one stopped. The format is described in docs/extend/scripted.md.
"""

import asyncio
import os
import re
import signal
import time
from collections import deque
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec

from gatepost.inside.mcp_client import McpClient
from gatepost.inside.providers.contract import (
    Batch,
    ConversationStarted,
    DraftText,
    Event,
    Item,
    ItemKind,
    PermissionRequest,
    PermissionRequestKind,
    ProviderContext,
    Question,
    StatusLine,
    Text,
    ToolResult,
    ToolUse,
    TurnFailed,
    TurnResult,
    UsageReport,
    provider,
)
from gatepost.inside.script_format import CompletedEffect, CompletedEffects, ScriptStep, ScriptTurn, read_script

LOOK_S = 0.01  # between two looks for a file that is waited for


class ScriptedMessage(msgspec.Struct, tag="Took"):
    """A message became part of the conversation."""

    turn: str
    seq: int
    kind: ItemKind
    sender: str
    text: str
    heard: str = ""  # the words of the recordings that came with it


class ScriptedToolCall(msgspec.Struct, tag="Called"):
    """A tool was used, with this answer."""

    turn: str
    seq: int
    step: int
    text: str


class ScriptedChoice(msgspec.Struct, tag="Chose"):
    """A turn of the script that is used once was used for this message."""

    turn: str
    seq: int
    index: int


_read_line = msgspec.json.Decoder(ScriptedMessage | ScriptedToolCall | ScriptedChoice).decode


class Journal:
    """A conversation, or the counters of crashes: JSON lines, appended."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def lines(self) -> list[bytes]:
        try:
            return [line for line in self.path.read_bytes().split(b"\n") if line]
        except FileNotFoundError:
            return []

    def append(self, *values: object, durable: bool = False) -> None:
        if not values:
            return
        handle = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.write(handle, b"".join(msgspec.json.encode(value) + b"\n" for value in values))
            if durable:
                os.fsync(handle)
        finally:
            os.close(handle)


def crash_process() -> None:
    """As a crash does: without a word."""
    os.kill(os.getpid(), signal.SIGKILL)
    os._exit(137)  # the first process of a pid namespace does not hear its own SIGKILL


@provider("scripted", edits_input=True)
class Scripted:
    takes_pushes = True

    def __init__(self, place: ProviderContext) -> None:
        self._place = place
        self._script = read_script(place.options.get("script"), place.agent / "script.json")
        self._counters = Journal(place.state / "counters.jsonl")
        self._queue: deque[ScriptedMessage] = deque()
        self._running = False
        self._stop = asyncio.Event()
        self._answers: dict[str, asyncio.Future[str]] = {}
        self._tools: McpClient | None = None
        self._said = 0
        if self._count("start", self._script.crash_on_start):
            crash_process()

    async def query(self, batch: Batch, resume: str) -> AsyncIterator[Event]:
        name = resume or f"c-{os.urandom(6).hex()}"
        self._conversation = Journal(self._place.state / f"{Path(name).name}.jsonl")
        self._stop.clear()
        self._turn, self._final = batch.turn, ""
        self._spoken = CompletedEffects(read_completed_effects(batch), continued=batch.continued)
        self._queue.clear()
        if batch.continued:
            self._queue.extend(self._held())
        self._running = True
        self._add_batch(batch)
        yield ConversationStarted(name)
        while self._queue:
            async for event in self._answer(self._queue.popleft()):
                if isinstance(event, TurnFailed):
                    self._running = False
                yield event
                if isinstance(event, TurnFailed):
                    return
        self._running = False
        yield TurnResult(self._final)

    async def push(self, batch: Batch) -> None:
        if not self._running:
            raise NotImplementedError("no turn is running")
        self._spoken.add(read_completed_effects(batch))
        self._add_batch(batch)

    async def interrupt(self) -> None:
        self._stop.set()

    async def answer(self, request: str, verdict: str, input: dict[str, Any]) -> None:
        future = self._answers[request]
        if not future.done():
            future.set_result(_render_answer(verdict, input))

    async def set_mode(self, mode: str) -> None:
        self._counters.append({"mode": mode})

    async def fork(self, conversation: str) -> str:
        old = self._place.state / f"{Path(conversation).name}.jsonl"
        if not old.exists():
            raise NotImplementedError(f"there is no conversation {conversation}")
        name = f"c-{os.urandom(6).hex()}"
        (self._place.state / f"{name}.jsonl").write_bytes(old.read_bytes())
        return name

    async def close(self) -> None:
        if self._tools is not None:
            await self._tools.close()

    # The conversation.

    def _held(self) -> list[ScriptedMessage]:
        """Return what the conversation has of this turn already."""
        return [line for line in self._history() if isinstance(line, ScriptedMessage) and line.turn == self._turn]

    def _history(self) -> list[ScriptedMessage | ScriptedToolCall | ScriptedChoice]:
        return [_read_line(line) for line in self._conversation.lines()]

    def _add_batch(self, batch: Batch) -> None:
        """Into the conversation first, then into the queue; what it holds already is not taken twice."""
        known = {took.seq for took in self._held()} if batch.continued else set()
        new = [
            ScriptedMessage(
                turn=batch.turn,
                seq=item.seq,
                kind=item.kind,
                sender=item.sender,
                text=item.text,
                heard=_read_transcripts(item),
            )
            for item in batch.items
            if item.seq not in known and not _is_continuation(item)
        ]
        self._conversation.append(*new)
        self._queue.extend(new)

    # The script.

    async def _answer(self, item: ScriptedMessage) -> AsyncIterator[Event]:
        index, turn, groups = self._choose(item)
        words = {"text": item.text, "heard": item.heard, "seq": str(item.seq), "sender": item.sender}
        words |= {"turn": item.turn, **groups}
        steps = turn.do if turn is not None else self._script.default_for(item.kind)
        for number, step in enumerate(steps):
            async for event in self._step(item, f"{index}.{number}:{item.seq}", number, step, words):
                yield event
                if isinstance(event, TurnFailed):
                    return
            if self._stop.is_set():
                yield TurnFailed("interrupted")
                return

    def _choose(self, item: ScriptedMessage) -> tuple[int, ScriptTurn | None, dict[str, str]]:
        """The script's turn for a message; in a continued one the same as before."""
        used = self._used()
        for line in self._history() if self._spoken.continued else []:
            if isinstance(line, ScriptedChoice) and (line.turn, line.seq) == (item.turn, item.seq):
                used.discard(line.index)
        index, turn, groups = self._script.choose(item.kind, item.text, used)
        if turn is not None and turn.once:
            self._counters.append({"count": f"once:{index}"})
            self._conversation.append(ScriptedChoice(turn=item.turn, seq=item.seq, index=index))
        return index, turn, groups

    async def _step(
        self, item: ScriptedMessage, key: str, number: int, step: ScriptStep, words: dict[str, str]
    ) -> AsyncIterator[Event]:
        if step.status:
            yield StatusLine(_fill(step.status, words))
        if step.draft is not None:
            yield DraftText(_fill(step.draft, {**words, "now": str(time.time_ns() // 1000)}))
        if step.usage:
            yield UsageReport(step.usage)
        if step.write_file is not None:
            self._write(step.write_file.path, _fill(step.write_file.text, words))
        if step.wait:
            await self._wait(step.wait)
        while self._waits_for(step) and not self._stop.is_set():
            await self._wait(LOOK_S)
        if step.say is not None:
            text = _fill(step.say, words)
            if not self._spoken.claim_text(text, item.seq):
                yield Text(text, item.seq or None)
            self._said += 1
            if self._said == self._script.crash_after and self._count("after", 1):
                crash_process()
        if step.call:
            async for event in self._call(item, number, step, words):
                yield event
        if step.ask is not None:
            async for event in self._ask(key, step, words):
                yield event
        if step.final is not None:
            self._final = _fill(step.final, words)
        if step.crash and self._count(f"crash:{key}", step.crashes()):
            crash_process()
        if step.hang:
            await asyncio.Event().wait()
        if step.error is not None and self._count(f"error:{key}", step.error.times):
            yield TurnFailed(step.error.message, step.error.kind, step.error.retry_after)

    async def _call(
        self, item: ScriptedMessage, number: int, step: ScriptStep, words: dict[str, str]
    ) -> AsyncIterator[Event]:
        given = _fill_all(step.arguments, words)
        key = f"{item.turn}:{item.seq}:{number}"
        before = self._called(item, number)
        if before is None and self._spoken.claim_call(given):
            before = ScriptedToolCall(turn=item.turn, seq=item.seq, step=number, text="")
        if before is not None:
            words["result"] = before.text
            return
        yield ToolUse(key, step.call, given)
        if self._tools is None or self._tools.closed:
            self._tools = await McpClient.connect(self._place.router)
        answer = await self._tools.call(step.call, given, key)
        self._conversation.append(ScriptedToolCall(turn=item.turn, seq=item.seq, step=number, text=answer.text))
        words["result"] = answer.text
        yield ToolResult(key, answer.text, answer.is_error)

    def _called(self, item: ScriptedMessage, number: int) -> ScriptedToolCall | None:
        if not self._spoken.continued:
            return None
        for line in self._history():
            if isinstance(line, ScriptedToolCall) and (line.turn, line.seq, line.step) == (item.turn, item.seq, number):
                return line
        return None

    async def _ask(self, key: str, step: ScriptStep, words: dict[str, str]) -> AsyncIterator[Event]:
        assert step.ask is not None
        future: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._answers[key] = future
        if step.ask.question:
            yield Question(key, _fill(step.ask.question, words), tuple(step.ask.options))
        elif step.ask.plan:
            about, follow_up = {"plan": _fill(step.ask.plan, words)}, _fill(step.ask.follow_up, words)
            yield PermissionRequest(
                key, step.ask.permission or "plan", about, PermissionRequestKind.PLAN, follow_up, step.ask.next_mode
            )
        else:
            yield PermissionRequest(key, step.ask.permission, step.ask.input)
        stopping = asyncio.create_task(self._stop.wait())
        waiting: list[asyncio.Future[Any]] = [future, stopping]
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        words["answer"] = future.result() if future.done() else ""
        del self._answers[key]

    def _waits_for(self, step: ScriptStep) -> bool:
        """A file, or one more message; a turn that is continued may have had it already, and waits for none."""
        if step.wait_for and not (self._place.agent / step.wait_for).exists():
            return True
        return step.wait_for_message and not self._queue and not self._spoken.continued

    async def _wait(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._stop.wait()
        except TimeoutError:
            pass

    def _write(self, path: str, text: str) -> None:
        target = self._place.start / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)

    # Counters, which outlive a crash.

    def _used(self) -> set[int]:
        if not any(turn.once for turn in self._script.turns):
            return set()
        return {int(name[5:]) for name in self._counted() if name.startswith("once:")}

    def _counted(self) -> list[str]:
        values = (msgspec.json.decode(line) for line in self._counters.lines())
        return [value["count"] for value in values if "count" in value]

    def _count(self, name: str, most: int) -> bool:
        """Return True if this may happen once more; if so, it is on disk that it did. Negative: always."""
        if most == 0:
            return False
        if 0 < most <= self._counted().count(name):
            return False
        self._counters.append({"count": name}, durable=True)
        return True


def read_completed_effects(batch: Batch) -> list[CompletedEffect]:
    """Return what the gateway says was said and done before the turn broke off."""
    done = [each for item in batch.items if _is_continuation(item) for each in item.content.get("done") or []]
    return msgspec.convert(done, list[CompletedEffect])


def _render_answer(verdict: str, given: dict[str, Any]) -> str:
    """To a question, what was answered; to all else, the verdict and what is to be used instead."""
    answers = given.get("answers")
    if verdict == "allow" and isinstance(answers, dict) and answers:
        return ", ".join(str(each) for each in answers.values())
    return f"{verdict} {msgspec.json.encode(given).decode()}" if verdict == "allow" and given else verdict


def _read_transcripts(item: Item) -> str:
    attachments = item.content.get("attachments")
    listed = attachments if isinstance(attachments, list) else []
    said = (each.get("transcript") for each in listed if isinstance(each, dict))
    return " ".join(each for each in said if isinstance(each, str) and each)


def _is_continuation(item: Item) -> bool:
    return item.kind == ItemKind.SYSTEM and item.content.get("event") == "continued"


def _fill(text: str, words: dict[str, str]) -> str:
    return re.sub(r"\{(\w+)\}", lambda found: words.get(found.group(1), found.group(0)), text)


def _fill_all(value: Any, words: dict[str, str]) -> Any:
    if isinstance(value, str):
        return int(words["seq"]) if value == "{seq}" else _fill(value, words)
    if isinstance(value, dict):
        return {key: _fill_all(inner, words) for key, inner in value.items()}
    return [_fill_all(inner, words) for inner in value] if isinstance(value, list) else value
