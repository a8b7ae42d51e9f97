"""A small agent loop: ask a model, use the tools that it wants, show it what came of them, until it only speaks.

Every line of the conversation is on the disk before it is acted on. So a turn that broke off is continued by another
process without its prompt being said twice. A tool call whose result was lost is made again only if that changes
nothing; else the model is told, and sees in the gateway's note what was done. An answer of the model is passed on when
it is complete. Until then a request may be made again, and drafts go to those who watch.
"""

import asyncio
import os
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine, Iterable, Iterator
from contextlib import aclosing
from typing import Any, Literal, TypeVar

import msgspec

from gatepost.inside import http_client, local_tools, media
from gatepost.inside.context_window import ModelWindow
from gatepost.inside.conversation import (
    AssistantEntry,
    AssistantToolCall,
    CompactionEntry,
    ConversationEntry,
    ModelConversation,
    RejectedTurnEntry,
    SummaryEntry,
    ToolResultEntry,
    UserEntry,
    UserMessage,
    find_summary,
    order_messages,
    place_messages,
)
from gatepost.inside.conversation_summary import (
    KEPT_PART,
    choose_summary_end,
    list_summed_up,
    sketch_summary,
    summarize,
)
from gatepost.inside.http_client import ClientEndpoint, IncompleteResponse, post_request
from gatepost.inside.mcp_client import McpClient, McpTool
from gatepost.inside.media import MediaBlock
from gatepost.inside.model_api import CompletionReply, CompletionRequest, ModelApi, RequestedToolCall
from gatepost.inside.overflow_errors import ContextOverflow
from gatepost.inside.prompts import prompt
from gatepost.inside.prompts.system_prompt import system_prompt
from gatepost.inside.provider_errors import ProviderError, parse_provider_error
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
from gatepost.inside.request_size import (
    BYTES_PER_TOKEN,
    ContextBudget,
    TokenFigure,
    estimate_tokens,
    fit_messages,
    get_size,
    get_text_size,
    get_tools_size,
    guess_cut_window,
    is_cut_silently,
)
from gatepost.mailbox.inbound import InboundRow
from gatepost.mailbox.outbound import now
from gatepost.mailbox.runner_frames import TurnErrorClass

PAUSE = 0.5  # seconds before the second try of a request, doubled each time
LONGEST_PAUSE = 20.0  # unless the endpoint asks for more
TOLD_AFTER = 20.0  # seconds of trouble after which people are told that it is still tried
MOST_STEPS = 100  # requests of one turn
MOST_FITS = 6  # sizes in which one request is made
MOST_CUTS = 3  # answers of a turn that end at their length limit in the middle of a call
COMPACT = "/compact"
LARGEST_RESULT = 100_000  # characters of a tool's answer
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
        self._endpoint = find_endpoint(place, wire, self._options)
        self._model = place.model or self._options.model or wire.model
        self._window = ModelWindow(place.state, self._endpoint, wire, self._model, self._options.context)
        self._conversation = ModelConversation(place.state)
        self._tools: McpClient | None = None
        self._running = False
        self._stop = asyncio.Event()
        self._written, self._grew = "", asyncio.Event()  # what the model is at
        self._news: deque[Event] = deque()  # for people, from the request that is under way
        self._usage: dict[str, int] = {}
        self._figure: TokenFigure | None = None  # of a request that was refused
        self._cuts_silently = False  # the endpoint was found to do so
        self._system, self._fixed = "", 0  # of the request under way: instructions, and their size with the tools

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
            if (not said.uses and not more) or cuts > MOST_CUTS:
                self._running = False
                yield TurnResult(f"{said.text}\n\n{CUT_ANSWER}" if reply.cut else said.text)
                return
            if said.text:
                yield Text(said.text)
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
        return ToolResultEntry(turn, use.id, text, answer.is_error)

    async def _listed(self) -> list[McpTool]:
        return [*await (await self._connected()).list_tools(), *local_tools.list_local_tools(shell=self._has_shell)]

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
        await self._window.wait()
        self._measure(tools)
        for level in range(MOST_FITS):
            await self._make_room(turn, level)
            request, size = self._render(tools, level)
            seen = len(self._conversation.entries)
            try:
                reply = await self._send(request)
            except ProviderError as error:
                if error.overflow is None:
                    raise
                self._learn(error.overflow, size)
                continue
            cut = not self._options.context and self._is_cut(size, reply.tokens_read)
            if cut and not self._cuts_silently:
                self._cuts_silently = True
                self._window.learn(guess_cut_window(reply.tokens_read))
                continue
            self._figure = None
            return self._make_entry(turn, seen, reply, size, 0 if cut else reply.tokens_read), reply
        raise ProviderError(TOO_LARGE, TurnErrorClass.OVERFLOW, about_input=True)

    def _make_entry(self, turn: str, seen: int, reply: CompletionReply, size: int, read: int) -> AssistantEntry:
        uses = [_make_tool_call(wanted) for wanted in reply.wanted]
        if reply.cut and uses:  # what is whole of it may be a beginning
            uses[-1] = msgspec.structs.replace(uses[-1], cut=True)
        return AssistantEntry(turn, seen, reply.text, tuple(uses), self._model, size, read)

    def _render(self, tools: list[McpTool], level: int = 0) -> tuple[CompletionRequest, int]:
        """Return the request and its size."""
        budget, figure = self._get_budget(level), self._get_figure()
        each = figure.read / figure.sent if figure is not None else 1 / (BYTES_PER_TOKEN + 1)
        room = budget.room if level else budget.window - budget.answer - budget.fixed
        messages = fit_messages(order_messages(self._conversation.entries), round(max(room, budget.room) / each))
        size = self._fixed + sum(get_size(message) for message in messages)
        blocks = [block for message in messages for block in getattr(message, "blocks", ())]
        request = CompletionRequest(
            model=self._model,
            max_tokens=budget.get_answer_limit(estimate_tokens(size, figure)),
            system=self._system,
            messages=messages,
            tools=tools,
            bytes_of={block.file: self._conversation.bytes_of(block) for block in blocks},
        )
        return request, size

    async def _send(self, request: CompletionRequest, *, shown: bool = True) -> CompletionReply:
        """Make a request; trouble that passes is waited out. `shown`: people may see what is written of the answer."""
        body, clock = self._wire.render(request), asyncio.get_running_loop().time
        began, number, told = clock(), 0, False
        while True:
            number += 1
            try:
                reply = await self._once(body, shown)
                self._count(reply.usage)
                return reply
            except IncompleteResponse as cut:
                trouble = ProviderError(str(cut), TurnErrorClass.NETWORK)
            except ProviderError as error:
                trouble = error
            own = min(PAUSE * 2 ** min(number - 1, 10), LONGEST_PAUSE)
            pause = own if trouble.retry_after is None else trouble.retry_after
            waited = clock() - began + pause
            if not trouble.kind.is_passing or waited > self._options.patience:
                raise trouble
            if waited >= TOLD_AFTER and not told:
                told = True
                self._add_status(STILL_TRYING)
            await asyncio.sleep(pause)

    async def _once(self, body: bytes, shown: bool) -> CompletionReply:
        wire, silence = self._wire, self._options.silence
        async with post_request(self._endpoint, wire.path, wire.headers, body, silence) as response:
            if response.status != 200:
                raise parse_provider_error(response.status, await response.read(), response.retry_after)
            try:
                if not response.is_stream:
                    return wire.read(await response.read())
                stream = wire.stream()
                async for data in response.events():
                    stream.feed(data)
                    if (reply := stream.reply()) is not None:
                        return reply
                    if shown and self._place.is_watched() and (text := stream.written()) != self._written:
                        self._written = text
                        self._grew.set()
            except (msgspec.MsgspecError, UnicodeDecodeError) as error:
                raise ProviderError(f"the model's endpoint said what is not understood: {error}") from None
        raise IncompleteResponse("the model's answer broke off")

    def _count(self, usage: dict[str, int]) -> None:
        for name, number in {**usage, "requests": 1}.items():
            self._usage[name] = self._usage.get(name, 0) + number

    # The context.

    def _get_figure(self) -> TokenFigure | None:
        """What the endpoint counted last, of this model in this conversation."""
        if self._figure is not None:
            return self._figure
        return next(iter(self._list_figures(reversed(self._conversation.entries))), None)

    def _list_figures(self, entries: Iterable[ConversationEntry]) -> Iterator[TokenFigure]:
        for entry in entries:
            if isinstance(entry, AssistantEntry) and entry.read and entry.model == self._model:
                yield TokenFigure(entry.sent, entry.read)

    def _is_cut(self, size: int, read: int) -> bool:
        figures = list(self._list_figures(self._conversation.entries))
        first = min(figures, key=lambda each: each.sent, default=None)
        return is_cut_silently(size, read, first, figures[-1] if figures else None)

    def _measure(self, tools: list[McpTool]) -> None:
        self._system = system_prompt(self._place)
        self._fixed = get_text_size(self._system) + get_tools_size(tools)

    def _get_budget(self, level: int = 0) -> ContextBudget:
        """`level`: how often the endpoint has found this request too large."""
        figure = self._get_figure()
        each = figure.read / figure.sent if figure is not None else 1 / BYTES_PER_TOKEN
        window = round(self._window.tokens * 0.8**level)
        return ContextBudget(window, round(self._fixed * each), self._options.max_tokens)

    def _learn(self, overflow: ContextOverflow, size: int) -> None:
        """Keep what a refusal says about the window, or about what the request came to."""
        asked = overflow.sent or estimate_tokens(size, self._get_figure())
        if overflow.sent and size:
            self._figure = TokenFigure(size, overflow.sent)
        self._window.learn(overflow.limit or round(min(self._window.tokens, asked) * 0.9))

    async def _make_room(self, turn: str, level: int) -> None:
        """Sum up the older part of the conversation if there is not much room left, and in any case if the endpoint has
        found the request too large."""
        budget, entries = self._get_budget(level), self._conversation.entries
        size = sum(get_size(message) for message in order_messages(entries))
        tokens = estimate_tokens(self._fixed + size, self._get_figure()) - budget.fixed
        most = self._options.history
        if not level and tokens <= budget.room and not 0 < most < size:
            return
        room = min(round(budget.room * size / max(tokens, 1)), most or size)
        keep = round(room * KEPT_PART / 2**level)
        upto = choose_summary_end(place_messages(entries), turn, keep, 0 if level else keep // 4)
        if upto is not None:
            self._add_status(SUMMING_UP)
            await self._sum_up(turn, upto, budget, firm=level < MOST_FITS // 2)

    async def _sum_up(
        self, turn: str, upto: float, budget: ContextBudget, *, firm: bool = True, wish: str = ""
    ) -> None:
        """Put a summary in the place of everything before a position. It is on the disk when this returns. `firm`: the
        model makes it."""
        entries = self._conversation.entries
        before, messages = find_summary(entries), list_summed_up(place_messages(entries), turn, upto)
        known = before.text if before is not None else ""
        text = sketch_summary(known, messages, budget)
        if firm:
            try:
                text = await summarize(self._ask_aside, known, messages, budget, wish)
            except ProviderError as error:
                if error.kind not in (TurnErrorClass.FATAL, TurnErrorClass.OVERFLOW, TurnErrorClass.REFUSAL) or wish:
                    raise
        self._conversation.add(SummaryEntry(turn, upto, text))

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
            yield TurnResult(COMPACTED)  # it broke off behind that
            return
        await self._window.wait()
        self._measure([])
        budget, placed = self._get_budget(), place_messages(entries)
        if not placed:
            yield TurnResult(NOTHING_TO_COMPACT)
            return
        work = self._sum_up(asked.turn, len(entries), budget, wish=asked.wish)
        making = asyncio.create_task(self._unless_stopped(work))
        async with aclosing(self._follow(making)) as events:
            async for event in events:
                yield event
        await making
        yield UsageReport({**self._usage, "model": self._model})
        yield TurnResult(COMPACTED)


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


def _make_tool_call(wanted: RequestedToolCall) -> AssistantToolCall:
    name = f"u-{os.urandom(8).hex()}"
    try:
        return AssistantToolCall(name, wanted.tool, msgspec.json.decode(wanted.arguments or "{}", type=dict[str, Any]))
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return AssistantToolCall(name, wanted.tool, bad=wanted.arguments[:2000])


def render_items(items: list[Item], place: ProviderContext) -> str:
    """A prompt of some of a batch's messages; when they were written is not known any more."""
    moment = now()
    rows = [
        InboundRow(id=item.row, seq=item.seq, kind=item.kind, timestamp=moment, content=item.content) for item in items
    ]
    files = str(media.get_attachment_folder(place))
    return prompt.render(rows, prompt.PromptContext(now=moment, timezone=place.timezone, files=files))
