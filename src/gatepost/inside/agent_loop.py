"""A small agent loop: ask a model, use the tools that it wants, show it what came of them, until it only speaks.

Every line of the conversation is on the disk before it is acted on. So a turn that broke off is continued by another
process without its prompt being said twice. A tool call whose result was lost is made again only if that changes
nothing; else the model is told, and sees in the gateway's note what was done. An answer of the model is passed on when
it is complete. Until then a request may be made again, and drafts go to those who watch.
"""

import asyncio
import os
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine
from contextlib import aclosing
from functools import partial
from typing import Any, Literal, TypeVar

import msgspec

from gatepost.inside import http_client, local_tools, media
from gatepost.inside.http_client import ClientEndpoint
from gatepost.inside.mcp_client import McpClient, McpTool, McpToolResult
from gatepost.inside.media import MediaBlock
from gatepost.inside.model.api import (
    CompletionReply,
    CompletionRequest,
    ModelApi,
    ReplyStreamReader,
    RequestedToolCall,
)
from gatepost.inside.model.client import ModelClient
from gatepost.inside.model.context_window import ModelWindow
from gatepost.inside.model.conversation import (
    AssistantEntry,
    AssistantToolCall,
    CompactionEntry,
    KeptFactsEntry,
    ModelConversation,
    RejectedTurnEntry,
    SummaryEntry,
    ToolResultEntry,
    UserEntry,
    UserMessage,
    is_too_deep,
    place_messages,
)
from gatepost.inside.model.conversation_context import MOST_FITS, ContextLimits, ConversationContext
from gatepost.inside.prompts import prompt
from gatepost.inside.prompts.system_prompt import system_prompt
from gatepost.inside.provider_errors import ProviderError
from gatepost.inside.providers.contract import (
    Batch,
    ConversationStarted,
    DraftText,
    Event,
    Item,
    ItemKind,
    Misconfigured,
    ProviderContext,
    StatusLine,
    Text,
    ToolResult,
    ToolUse,
    TurnFailed,
    TurnResult,
    UsageReport,
)
from gatepost.mailbox.inbound import InboundRow
from gatepost.mailbox.outbound import now
from gatepost.mailbox.runner_frames import TurnErrorClass

MOST_STEPS = 100  # requests of one turn
MOST_CUTS = 3  # answers of a turn that end at their length limit in the middle of a call
COMPACT = "/compact"
KEEP_FACTS, FACTS_AT_ONCE = "keep_facts", 20
LARGEST_RESULT = 100_000  # characters of a tool's answer
MOST_PICTURES = 4  # of a tool's answer
LOST = (
    "This call was cut off, and its result was lost: it may have had its effect. The gateway's note lists what was"
    " sent. Look before you make it again."
)
CUT_CALL = (
    "This call was not made: your answer reached its length limit in the middle of it. Make it again with less in it,"
    " or in several calls."
)
CUT_ANSWER = (
    "*(My answer was cut off here, because it reached its length limit. Say \u201cgo on\u201d, and I continue.)*"
)
SUMMING_UP = "This conversation has become long. I sum up its older part and go on."
STILL_TRYING = "The model cannot be reached just now. I am still trying."
COMPACTED = "Compacted. Our older messages are a summary now, and I go on from there."
NOTHING_TO_COMPACT = "There is nothing to compact: the conversation is short."
TOO_LARGE = "the conversation does not fit the model's context, however short it is made"
UNANSWERED = (
    "What came before this was not answered to its end: it was stopped, or failed. Leave it, unless it is asked for"
    " again."
)

T = TypeVar("T")


class AgentLoopOptions(msgspec.Struct, frozen=True):
    """`gatepost group set FOLDER options.KEY=VALUE`"""

    base_url: str = ""
    model: str = ""
    context: int = 0  # tokens that the model can have before it; 0: as the endpoint says, or is known of the model
    max_tokens: int = 8192
    history: int = 0  # bytes of the conversation that are shown at most; 0: as many as fit the context
    silence: float = 300.0  # seconds for which an endpoint may say nothing
    patience: float = 300.0  # seconds for which trouble of an endpoint is waited out
    shell: Literal["on", "off"] = "on"  # off: it runs no commands


class TurnStopped(Exception):
    """Somebody ended the turn."""


class AgentLoop:
    """The parts of a provider of this kind; a class of its own adds the name and the wire."""

    takes_pushes = True

    def __init__(self, place: ProviderContext, wire: ModelApi) -> None:
        self._place, self._wire = place, wire
        self._options = read_options(place.options)
        endpoint = find_endpoint(place, wire, self._options)
        self._client = ModelClient(endpoint, wire, self._options.silence, self._options.patience)
        self._model = place.model or self._options.model or wire.model
        self._window = ModelWindow(place.state, endpoint, wire, self._model, self._options.context)
        limits = ContextLimits(self._options.max_tokens, self._options.history, learns=not self._options.context)
        told = partial(self._add_status, SUMMING_UP)
        self._context = ConversationContext(self._window, self._model, limits, self._ask_aside, told)
        self._conversation = ModelConversation(place.state)
        self._tools: McpClient | None = None
        self._running = False
        self._stop = asyncio.Event()
        self._written, self._grew = "", asyncio.Event()  # what the model is at
        self._news: deque[Event] = deque()  # for people, from the request that is under way
        self._usage: dict[str, int] = {}

    async def query(self, batch: Batch, resume: str) -> AsyncIterator[Event]:
        self._conversation = ModelConversation(self._place.state, resume)
        self._stop.clear()
        self._usage = {}
        self._window.ask()
        compaction = self._find_compaction(batch)
        if compaction is None:
            self._running = True
            self._add_batch(batch, first=True)
        try:
            yield ConversationStarted(self._conversation.name)
            work = self._work(batch.turn) if compaction is None else self._compact(compaction)
            async with aclosing(work) as events:
                async for event in events:
                    yield event
        except TurnStopped:
            yield TurnFailed("interrupted")
        except ProviderError as trouble:
            if trouble.about_input:
                self._conversation.add(RejectedTurnEntry(batch.turn))
            yield TurnFailed(trouble.message, trouble.kind, trouble.retry_after)
        except OSError as error:
            yield TurnFailed(f"the agent cannot reach its tools ({error.strerror or error})", TurnErrorClass.RETRYABLE)
        finally:
            self._running = False

    async def push(self, batch: Batch) -> None:
        if not self._running:
            raise NotImplementedError("no turn is running")
        self._add_batch(batch)

    async def interrupt(self) -> None:
        self._stop.set()

    async def answer(self, request: str, verdict: str, input: dict[str, Any]) -> None:
        raise LookupError(f"{self._wire.name} asks nobody for permission")

    async def set_mode(self, mode: str) -> None:
        raise NotImplementedError(f"{self._wire.name} has no modes")

    async def fork(self, conversation: str) -> str:
        return ModelConversation(self._place.state, conversation).copy(self._place.state).name

    async def close(self) -> None:
        await self._window.close()
        if self._tools is not None:
            await self._tools.close()

    # Words in.

    def _add_batch(self, batch: Batch, *, first: bool = False) -> None:
        """Into the conversation, except for what it holds already. `first`: a turn begins with it."""
        known = self._conversation.rows()
        new = [item for item in batch.items if item.row not in known]
        if batch.items and not new:
            return
        text = batch.prompt if len(new) == len(batch.items) else render_items(new, self._place)
        if first and not batch.continued and self._conversation.is_open():
            text = f"{prompt.render_note('unanswered', UNANSWERED)}\n{text}"
        blocks = tuple(block for item in new for block in self._blocks(item))
        rows = tuple(item.row for item in new if item.row)
        self._conversation.add(UserEntry(batch.turn, text, rows, blocks))

    def _blocks(self, item: Item) -> list[MediaBlock]:
        name, native = self._wire.name, media.is_native(self._place.options)
        return [
            self._conversation.keep(path.name, *read)
            for path in media.list_attachments(self._place, item)
            if (read := media.read_block(name, path, native=native)) is not None
        ]

    # The turn.

    async def _work(self, turn: str) -> AsyncGenerator[Event, None]:
        tools = await self._unless_stopped(self._listed())
        harmless = {tool.name for tool in tools if is_harmless(tool)}
        for use in self._conversation.unfinished(turn):  # by an attempt that broke off
            if use.tool not in harmless:
                self._conversation.add(ToolResultEntry(turn, use.id, LOST, True))
                continue
            async for event in self._use(turn, use):
                yield event
        cuts = 0
        for _ in range(MOST_STEPS):
            tools = await self._unless_stopped(self._listed(tools))
            asking = asyncio.create_task(self._unless_stopped(self._ask(turn, tools)))
            async with aclosing(self._follow(asking)) as events:
                async for event in events:
                    yield event
            said, reply = await asking
            more = any(isinstance(entry, UserEntry) for entry in self._conversation.entries[said.seen :])
            self._conversation.add(said)
            yield UsageReport({**self._usage, "model": self._model})
            cuts += reply.cut and bool(said.uses)
            if not said.text and (not said.uses or cuts > MOST_CUTS):
                check_answered(reply)
            ends = not said.uses or cuts > MOST_CUTS
            text = f"{said.text}\n\n{CUT_ANSWER}" if reply.cut and ends else said.text
            if ends and (not more or cuts > MOST_CUTS):
                self._running = False
                yield TurnResult(text)
                return
            if text:
                yield Text(text)
            for use in said.uses:
                async for event in self._use(turn, use):
                    yield event
        raise ProviderError(f"the agent did not come to an end in {MOST_STEPS} steps")

    async def _follow(self, asking: "asyncio.Task[Any]") -> AsyncGenerator[Event, None]:
        """Yield what is written of the answer, and what people are told meanwhile, until the answer is there."""
        grew = self._grew = asyncio.Event()
        asking.add_done_callback(lambda _: grew.set())
        written = self._written = ""
        try:
            while await grew.wait():
                grew.clear()
                while self._news:
                    yield self._news.popleft()
                if asking.done():
                    break
                if self._written != written:
                    written = self._written
                    yield DraftText(written)
        finally:
            asking.cancel()  # whoever reads us has left; one that is done does not mind
            await asyncio.wait({asking})

    def _add_status(self, text: str) -> None:
        self._news.append(StatusLine(text))
        self._grew.set()

    async def _use(self, turn: str, use: AssistantToolCall) -> AsyncIterator[Event]:
        yield ToolUse(use.id, use.tool, use.input, local_tools.find_patience(use.tool, use.input))
        cut = ToolResultEntry(turn, use.id, CUT_CALL, True)
        used = cut if use.cut else await self._unless_stopped(self._call(turn, use))
        self._conversation.add(used)
        yield ToolResult(use.id, used.text, used.error)

    async def _call(self, turn: str, use: AssistantToolCall) -> ToolResultEntry:
        if use.bad:
            return ToolResultEntry(
                turn, use.id, "The arguments are no JSON object. Make the call again with one.", True
            )
        if (own := local_tools.find_local_tool(use.tool, shell=self._has_shell)) is not None:
            answer = await local_tools.call_local_tool(own, self._place, use.input)
        else:
            answer = await (await self._connected()).call(use.tool, use.input, use.id)
        text = answer.text
        if not text and answer.structured is not None:
            text = msgspec.json.encode(answer.structured).decode()
        if len(text) > LARGEST_RESULT:
            text = f"{text[:LARGEST_RESULT]}\n[cut: {len(text)} characters in all]"
        blocks, notes = self._keep_pictures(use.tool, answer)
        return ToolResultEntry(turn, use.id, "\n".join(filter(None, (text, *notes))), answer.is_error, blocks)

    def _keep_pictures(self, tool: str, answer: McpToolResult) -> tuple[tuple[MediaBlock, ...], list[str]]:
        """Return the pictures of a tool's answer, and what is said in the place of those that are not shown. An
        endpoint takes none in an answer that is an error."""
        blocks, notes = list[MediaBlock](), list[str]()
        given = () if answer.is_error else answer.pictures
        for number, data in enumerate(given[:MOST_PICTURES], 1):
            kind = media.kind_of(data)
            if kind not in media.IMAGES:
                notes.append(f"[picture {number}: left out, because it is no JPEG, PNG, GIF or WebP]")
            elif len(data) > media.LARGEST[kind]:
                notes.append(f"[picture {number}: left out, because it has {len(data)} bytes of {media.LARGEST[kind]}]")
            else:
                blocks.append(self._conversation.keep(f"{tool} {number}", kind, data))
        if len(given) > MOST_PICTURES:
            notes.append(f"[{len(given) - MOST_PICTURES} more pictures: left out]")
        return tuple(blocks), notes

    async def _listed(self, known: list[McpTool] | None = None) -> list[McpTool]:
        """Return the tools that the model is offered. `known`: those of before, which hold until they change."""
        if known is not None and (self._tools is None or not self._tools.tools_changed):
            return known
        return [*await (await self._connected()).list_tools(), *local_tools.list_local_tools(shell=self._has_shell)]

    def _render_system_prompt(self) -> str:
        return system_prompt(self._place, tools=local_tools.describe_tools(shell=self._has_shell))

    @property
    def _has_shell(self) -> bool:
        return self._options.shell == "on"

    async def _connected(self) -> McpClient:
        if self._tools is None or self._tools.closed:
            self._tools = await McpClient.connect(self._place.router)
        return self._tools

    async def _unless_stopped(self, work: Coroutine[Any, Any, T]) -> T:
        """Return what it comes to; an interrupt ends it."""
        task, stop = asyncio.create_task(work), asyncio.create_task(self._stop.wait())
        try:
            await asyncio.wait({task, stop}, return_when=asyncio.FIRST_COMPLETED)
            if self._stop.is_set():
                raise TurnStopped
            return task.result()
        finally:
            task.cancel()
            stop.cancel()
            await asyncio.gather(task, stop, return_exceptions=True)

    # The model.

    async def _ask(self, turn: str, tools: list[McpTool]) -> tuple[AssistantEntry, CompletionReply]:
        """Ask for the next step, in a size that the model's window has room for."""
        context = self._context
        await context.open(self._conversation, self._render_system_prompt(), tools)
        level = 0
        for _ in range(MOST_FITS):
            await context.make_room(turn, level)
            await self._keep_facts(turn)
            request, size = context.render(level)
            seen = len(self._conversation.entries)
            try:
                reply = await self._send(request)
            except ProviderError as error:
                if context.learn_pictures(error, request):
                    continue
                if error.overflow is None:
                    raise
                level += context.learn_limit(error.overflow, size)
                continue
            read, cut = context.check_read(size, reply.tokens_read)
            if cut:
                level += 1
                continue
            return self._make_entry(turn, seen, reply, size, read), reply
        raise ProviderError(TOO_LARGE, TurnErrorClass.OVERFLOW, about_input=True)

    async def _keep_facts(self, turn: str) -> None:
        """Give the gateway the facts of the newest summary, part by part. It keeps each once, however often it gets it;
        what it refuses it is not asked again."""
        conversation = self._conversation
        if (summary := conversation.find_unkept_facts()) is None:
            return
        parts = [{"facts": summary.facts[at : at + FACTS_AT_ONCE], "read": ()} for at in _steps(summary.facts)]
        parts += [{"facts": (), "read": summary.read[at : at + FACTS_AT_ONCE]} for at in _steps(summary.read)]
        try:
            tools = await self._connected()
            for part in parts:
                await tools.call(KEEP_FACTS, part)
        except OSError:  # a later turn gives them
            return
        conversation.add(KeptFactsEntry(turn))

    def _make_entry(self, turn: str, seen: int, reply: CompletionReply, size: int, read: int) -> AssistantEntry:
        uses = [make_tool_call(wanted) for wanted in reply.wanted]
        if reply.cut and uses:  # what is whole of it may be a beginning
            uses[-1] = msgspec.structs.replace(uses[-1], cut=True)
        return AssistantEntry(turn, seen, reply.text, tuple(uses), self._model, size, read)

    async def _send(self, request: CompletionRequest, *, shown: bool = True) -> CompletionReply:
        """`shown`: people may see what is written of the answer."""
        watch = self._watch if shown else None
        reply = await self._client.send(request, lambda: self._add_status(STILL_TRYING), watch)
        self._count(reply.usage)
        return reply

    def _watch(self, stream: ReplyStreamReader) -> None:
        if self._place.is_watched() and (text := stream.written()) != self._written:
            self._written = text
            self._grew.set()

    def _count(self, usage: dict[str, int]) -> None:
        for name, number in {**usage, "requests": 1}.items():
            self._usage[name] = self._usage.get(name, 0) + number

    async def _ask_aside(self, system: str, text: str, max_tokens: int) -> str:
        """Ask the model beside the conversation."""
        request = CompletionRequest(
            model=self._model,
            max_tokens=max_tokens,
            system=system,
            messages=[UserMessage(text)],
            tools=(),
            bytes_of={},
        )
        return (await self._send(request, shown=False)).text

    def _find_compaction(self, batch: Batch) -> CompactionEntry | None:
        """Return the wish that the conversation be shorter, if this turn comes from one; also if the turn broke off."""
        if batch.continued and all(item.kind == ItemKind.SYSTEM for item in batch.items):
            found = [entry for entry in self._conversation.entries if isinstance(entry, CompactionEntry)]
            return found[-1] if found and found[-1].turn == batch.turn else None
        command, _, wish = batch.prompt.partition(" ")
        if command != COMPACT or not any(item.content.get("command") for item in batch.items):
            return None
        asked = CompactionEntry(batch.turn, tuple(item.row for item in batch.items if item.row), wish.strip())
        self._conversation.add(asked)
        return asked

    async def _compact(self, asked: CompactionEntry) -> AsyncGenerator[Event, None]:
        """Make the conversation shorter now, and say how that ended."""
        entries = self._conversation.entries
        if any(isinstance(entry, SummaryEntry) and entry.turn == asked.turn for entry in entries):
            await self._unless_stopped(self._keep_facts(asked.turn))
            yield TurnResult(COMPACTED)  # it broke off behind that
            return
        await self._context.open(self._conversation, self._render_system_prompt(), ())
        if not place_messages(entries):
            yield TurnResult(NOTHING_TO_COMPACT)
            return
        work = self._context.sum_up(asked.turn, len(entries), wish=asked.wish)
        making = asyncio.create_task(self._unless_stopped(work))
        async with aclosing(self._follow(making)) as events:
            async for event in events:
                yield event
        await making
        await self._unless_stopped(self._keep_facts(asked.turn))
        yield UsageReport({**self._usage, "model": self._model})
        yield TurnResult(COMPACTED)


def _steps(facts: tuple[str, ...]) -> range:
    return range(0, len(facts), FACTS_AT_ONCE)


def check_answered(reply: CompletionReply) -> None:
    """Raise ProviderError for an answer without a word that is none."""
    if reply.refused:
        raise ProviderError("the model declined to answer", TurnErrorClass.REFUSAL)
    if reply.cut:
        raise ProviderError("the answer reached its length limit before its first word")


def is_harmless(tool: McpTool) -> bool:
    """Return True if a second call changes nothing that the first has not."""
    return tool.annotations.read_only_hint or tool.annotations.idempotent_hint


def read_options(given: dict[str, Any]) -> AgentLoopOptions:
    """Return what an operator set for the group; values come as text or as what they are."""
    try:
        return msgspec.convert(given, AgentLoopOptions, strict=False)
    except msgspec.ValidationError as error:
        raise Misconfigured(f"the group's options are not as they should be: {error}") from None


def find_endpoint(place: ProviderContext, wire: ModelApi, options: AgentLoopOptions) -> ClientEndpoint:
    """The group's option, else the variable, else the way out that every sandbox has."""
    base = options.base_url or os.environ.get(wire.variable, "")
    if base:
        try:
            return http_client.parse_endpoint(base)
        except ValueError as error:
            raise Misconfigured(str(error)) from None
    socket = place.router.parent / "egress.sock"
    if socket.exists():
        return ClientEndpoint(prefix=wire.egress, socket=socket)
    raise Misconfigured(
        f"{wire.name} has no endpoint: neither the group's option base_url nor {wire.variable} is set, and this"
        " sandbox has no way out"
    )


def make_tool_call(wanted: RequestedToolCall) -> AssistantToolCall:
    name = f"u-{os.urandom(8).hex()}"
    try:
        arguments = msgspec.json.decode(wanted.arguments or "{}", type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return AssistantToolCall(name, wanted.tool, bad=wanted.arguments[:2000])
    if is_too_deep(arguments):
        return AssistantToolCall(name, wanted.tool, bad=wanted.arguments[:2000])
    return AssistantToolCall(name, wanted.tool, arguments)


def render_items(items: list[Item], place: ProviderContext) -> str:
    """A prompt of some of a batch's messages; when they were written is not known any more."""
    moment = now()
    rows = [
        InboundRow(id=item.row, seq=item.seq, kind=item.kind, timestamp=moment, content=item.content) for item in items
    ]
    files = str(media.get_attachment_folder(place))
    return prompt.render(rows, prompt.PromptContext(now=moment, timezone=place.timezone, files=files))
