"""demo: answers without a model and without a key, so that a first contact works. It says what it is, echoes, keeps
notes in work.md and shows its tools; everything it does goes through the same doors as a real agent's doing.

It has no conversation of its own: what it was asked stands in the batch, and what it noted stands in work.md.
"""

import asyncio
import re
from collections import deque
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from gatepost.inside.mcp_client import McpClient, McpToolResult
from gatepost.inside.providers.contract import (
    Batch,
    Event,
    Item,
    ItemKind,
    ProviderContext,
    Text,
    ToolResult,
    ToolUse,
    TurnFailed,
    TurnResult,
    provider,
)

HELP = """\
**What you can say**

- `note buy milk`: I write it into my `work.md`
- `notes`: what I have noted, `forget 2` or `forget` (everything)
- `tools`: what I may do here, asked from the gateway just now
- `session`: which conversation this is
- `about`: what I am, and how to put a real agent here
- a file: I tell you what arrived
- anything else: I read it back to you"""

# One line a paragraph: where line breaks are shown as they are, a wrapped text looks torn.
ABOUT = "\n\n".join(
    (
        "I am the **built-in demo** of Gatepost. I am not an AI model: I know a few words and understand nothing.",
        "What happened with your message is real, though: it was written to the ledger, routed to the group `{folder}`"
        " and handed to a sandbox, and this answer takes the same way back. `gatepost ledger list` shows both.",
        "Gatepost brings these providers: {providers}. `gatepost connect` lists the agents among them. To put one here:"
        " `gatepost group set {folder} provider=NAME` (docs/providers.md). You can also write one of your"
        " own (docs/extend/provider.md).",
    )
)

HEADING = "## Notes"
# A gateway that is gone ends this process sooner, and the next one asks again: then an excuse would take the place of
# the answer.
GONE_S = 1.0
_GREETING = re.compile(r"(hi|hello|hey|hallo|moin|good (morning|day|evening)|/?start|/?help|\?)[\s!.?]*", re.IGNORECASE)
_ABOUT = re.compile(r"(about|who are you|what are you|what is this|what is gatepost)[\s!.?]*", re.IGNORECASE)
_NOTE = re.compile(r"note[:\s]\s*(.+)", re.IGNORECASE | re.DOTALL)
_FORGET = re.compile(r"forget(?:\s+(\d+))?[\s!.]*", re.IGNORECASE)
_NEXT_SENTENCE = re.compile(r"\. (?=[A-Z`])")
_WORD = re.compile(r"(notes|tools|session)[\s!.?]*", re.IGNORECASE)


def read_notes(work: str) -> list[str]:
    """The list under our heading."""
    _, _, rest = work.partition(HEADING + "\n")
    notes = []
    for line in rest.splitlines():
        if line.startswith("#"):
            break
        if line.startswith("- "):
            notes.append(line[2:])
    return notes


def write_notes(work: str, notes: list[str]) -> str:
    """The same text with another list; whatever else stands in it stays."""
    before, heading, rest = work.partition(HEADING + "\n")
    after = rest[rest.index("\n#") + 1 :] if heading and "\n#" in rest else ""
    section = HEADING + "\n\n" + "".join(f"- {note}\n" for note in notes) if notes else ""
    parts = [before.rstrip("\n"), section.rstrip("\n"), after.rstrip("\n")]
    return "\n\n".join(part for part in parts if part) + "\n"


def files_of(item: Item) -> str:
    """Return what came with a message, in words; '' if nothing did."""
    listed = item.content.get("attachments")
    files = [_file(one) for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []
    if len(files) < 2:
        return f"I got your file {files[0]}." if files else ""
    return f"I got your {len(files)} files:\n\n" + "\n".join(f"- {one}" for one in files)


def _file(one: dict[str, Any]) -> str:
    """Its name comes from a stranger: as code, it stays what it is."""
    name = " ".join(str(one.get("name") or "file").replace("`", "'").split())
    facts = [_size(size)] if isinstance(size := one.get("size"), int) else []
    facts += [str(one["mimeType"])] if one.get("mimeType") else []
    return f"`{name}`" + (f" ({', '.join(facts)})" if facts else "")


def _size(count: int) -> str:
    if count < 1024:
        return f"{count} bytes"
    return f"{count / 1024:.0f} KB" if count < 1024 * 1024 else f"{count / 1024 / 1024:.1f} MB"


@provider("demo")
class Demo:
    announces_calls = False  # a turn of it is told when it is over
    takes_pushes = True

    def __init__(self, place: ProviderContext) -> None:
        self._place = place
        self._tools: McpClient | None = None
        self._queue: deque[Item] = deque()
        self._events: list[Event] = []
        self._calls = 0
        self._running = self._stopped = False

    async def query(self, batch: Batch, resume: str) -> AsyncIterator[Event]:
        self._queue.clear()
        self._stopped, self._running = False, True
        self._add_batch(batch)
        while self._queue:
            item = self._queue.popleft()
            text = await self._respond(item)
            events, self._events = self._events, []
            for event in events:
                yield event
            if self._stopped:
                self._running = False
                yield TurnFailed("interrupted")
                return
            yield Text(text, item.seq)
        self._running = False
        yield TurnResult()

    async def push(self, batch: Batch) -> None:
        if not self._running:
            raise NotImplementedError("no turn is running")
        self._add_batch(batch)

    async def interrupt(self) -> None:
        self._stopped = True

    async def answer(self, request: str, verdict: str, input: dict[str, Any]) -> None:
        raise LookupError("the demo asks nobody for permission")

    async def set_mode(self, mode: str) -> None:
        raise NotImplementedError("the demo has no modes")

    async def fork(self, conversation: str) -> str:
        raise NotImplementedError("the demo has no conversations")

    async def close(self) -> None:
        if self._tools is not None:
            await self._tools.close()

    def _add_batch(self, batch: Batch) -> None:
        """Everything but notes of the gateway, and but what was answered before the turn broke off."""
        answered = {
            entry.get("inReplyTo")
            for item in batch.items
            if item.kind == ItemKind.SYSTEM and item.content.get("event") == "continued"
            for entry in item.content.get("done") or []
        }
        self._queue.extend(item for item in batch.items if item.kind != ItemKind.SYSTEM and item.seq not in answered)

    async def _respond(self, item: Item) -> str:
        files, text = files_of(item), item.text.strip()
        if files and not text:
            return f"{files}\n\nThat is all I can do with files; I am only the demo. A real agent could read them."
        answer = await self._answer(text)
        return f"{files}\n\n{answer}" if files else answer

    async def _answer(self, text: str) -> str:
        try:
            if _GREETING.fullmatch(text):
                return self._greet()
            if _ABOUT.fullmatch(text):
                return ABOUT.format(folder=self._place.folder, providers=", ".join(list_providers()))
            if found := _NOTE.fullmatch(text):
                return await self._note(" ".join(found.group(1).split()))
            if found := _FORGET.fullmatch(text):
                return await self._forget(int(found.group(1)) if found.group(1) else None)
            if found := _WORD.fullmatch(text):
                word = found.group(1).lower()
                return await {"notes": self._notes, "tools": self._list, "session": self._session}[word]()
        except OSError as error:
            await asyncio.sleep(GONE_S)
            return f"I cannot reach my tools just now ({error})."
        return self._echo(text)

    def _greet(self) -> str:
        return (
            f"Hello! I am **{self._place.name or 'the demo'}**, the built-in demo of Gatepost: no AI model, but"
            f" everything around one.\n\n{HELP}"
        )

    def _echo(self, text: str) -> str:
        quoted = "\n".join(f"> {line}" for line in text.splitlines()) or "> (no text)"
        return f"You wrote:\n\n{quoted}\n\nThat is all I can do with it; I am only the demo. Say **help** for more."

    async def _note(self, note: str) -> str:
        work = await self._work()
        if isinstance(work, McpToolResult):
            return _sorry("read my notes", work)
        notes = read_notes(work)
        if note in notes:
            return f"I have that already, it is number {notes.index(note) + 1}."
        return await self._keep(work, [*notes, note], f"Noted. That makes {len(notes) + 1}; say `notes` to see them.")

    async def _forget(self, number: int | None) -> str:
        work = await self._work()
        if isinstance(work, McpToolResult):
            return _sorry("read my notes", work)
        notes = read_notes(work)
        if not notes:
            return "There is nothing to forget."
        if number is None:
            return await self._keep(work, [], "Everything forgotten.")
        if not 1 <= number <= len(notes):
            return f"There is no note {number}; I have {len(notes)}."
        gone = notes.pop(number - 1)
        return await self._keep(work, notes, f"Forgotten: {gone}")

    async def _keep(self, work: str, notes: list[str], answer: str) -> str:
        kept = await self._use("set_work", {"content": write_notes(work, notes)})
        return _sorry("write my notes", kept) if kept.is_error else answer

    async def _notes(self) -> str:
        work = await self._work()
        if isinstance(work, McpToolResult):
            return _sorry("read my notes", work)
        notes = read_notes(work)
        if not notes:
            return "I have no notes. Say `note buy milk`, and I will."
        return "**Notes**\n\n" + "\n".join(f"{number}. {note}" for number, note in enumerate(notes, 1))

    async def _list(self) -> str:
        found = await (await self._connected()).list_tools()
        lines = [f"- `{tool.name}`: {_first_sentence(tool.description)}" for tool in found]
        return f"The gateway lets me use {len(found)} tools here:\n\n" + "\n".join(lines)

    async def _session(self) -> str:
        answer = await self._use("inspect_session", {})
        if answer.is_error or answer.structured is None:
            return _sorry("look at my session", answer)
        shown = ("session_id", "folder", "tier", "provider", "mode", "seq", "turn", "created")
        facts = [(name, answer.structured[name]) for name in shown if name in answer.structured]
        return "**This session**\n\n" + "\n".join(f"- {name.replace('_', ' ')}: `{value}`" for name, value in facts)

    async def _work(self) -> str | McpToolResult:
        """The text of work.md; an answer, if it could not be had."""
        answer = await self._use("get_work", {})
        if answer.is_error:
            return answer
        return str((answer.structured or {}).get("content", answer.text))

    async def _connected(self) -> McpClient:
        if self._tools is None or self._tools.closed:
            self._tools = await McpClient.connect(self._place.router)
        return self._tools

    async def _use(self, name: str, args: dict[str, Any]) -> McpToolResult:
        tools = await self._connected()
        self._calls += 1
        key = f"demo-{self._calls}"
        self._events.append(ToolUse(key, name, args))
        answer = await tools.call(name, args)
        self._events.append(ToolResult(key, answer.text, answer.is_error))
        return answer


def _first_sentence(text: str) -> str:
    """Return the first sentence of a wrapped text. The next one is known by its capital letter."""
    paragraph = " ".join(text.strip().partition("\n\n")[0].split())
    return _NEXT_SENTENCE.split(paragraph, maxsplit=1)[0].rstrip(".") + "."


def _sorry(what: str, answer: McpToolResult) -> str:
    return f"I may not {what}: {answer.text}"


def list_providers() -> list[str]:
    """As Markdown, by the files and folders beside this one."""
    found = (
        path for path in Path(__file__).parent.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()
    )
    return [f"`{name}`" for name in sorted({path.stem for path in found} - {"__init__", "contract"})]
