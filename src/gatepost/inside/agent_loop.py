"""A small agent loop: ask a model, use the tools that it wants, show it what came of them, until it only speaks.

Every line of the conversation is on the disk before it is acted on. So a turn that broke off is continued by another
process without its prompt being said twice. A tool call whose result was lost is made again only if that changes
nothing; else the model is told, and sees in the gateway's note what was done. An answer of the model is passed on when
it is complete. Until then a request may be made again, and drafts go to those who watch.
"""

import asyncio
import os
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Literal, Protocol, TypeVar

import msgspec

from gatepost.inside import http_client, local_tools, media
from gatepost.inside.conversation import (
    AssistantEntry,
    AssistantToolCall,
    ConversationMessage,
    ModelConversation,
    RejectedTurnEntry,
    ToolResultEntry,
    UserEntry,
    newest,
    order_messages,
)
from gatepost.inside.http_client import ClientEndpoint, IncompleteResponse, post_request
from gatepost.inside.mcp_client import McpClient, McpTool
from gatepost.inside.media import MediaBlock
from gatepost.inside.prompts import prompt
from gatepost.inside.prompts.system_prompt import system_prompt
from gatepost.inside.provider_errors import ProviderError, parse_provider_error
from gatepost.inside.providers.contract import (
    Batch,
    ConversationStarted,
    DraftText,
    Event,
    Item,
    Misconfigured,
    ProviderContext,
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

TRIES = 4  # of one request
PAUSE = 0.5  # seconds before the second one, doubled each time
LONGEST_PAUSE = 20.0  # an endpoint that asks for more ends the turn; the gateway continues it then
MOST_STEPS = 100  # requests of one turn
LARGEST_RESULT = 100_000  # characters of a tool's answer
LOST = (
    "This call was cut off, and its result was lost: it may have had its effect. The gateway's note lists what was"
    " sent. Look before you make it again."
)
UNANSWERED = (
    "What came before this was not answered to its end: it was stopped, or failed. Leave it, unless it is asked for"
    " again."
)

T = TypeVar("T")


class RequestedToolCall(msgspec.Struct, frozen=True):
    """A tool call that a model asks for, with its arguments as JSON."""

    tool: str
    arguments: str


class CompletionReply(msgspec.Struct, frozen=True):
    """A model's whole answer."""

    text: str
    wanted: tuple[RequestedToolCall, ...] = ()
    usage: dict[str, int] = {}
    refused: bool = False


class CompletionRequest(msgspec.Struct, frozen=True):
    """Everything that a model's answer depends on."""

    model: str
    max_tokens: int
    system: str
    messages: Sequence[ConversationMessage]
    tools: Sequence[McpTool]
    bytes_of: Mapping[str, bytes]  # of the blocks, by file


class ReplyStreamReader(Protocol):
    """Puts an answer together from the events of a stream."""

    def feed(self, data: bytes) -> None:
        """Raises Trouble for an event that reports one."""
        ...

    def reply(self) -> CompletionReply | None:
        """None: it has not ended yet."""
        ...

    def written(self) -> str:
        """Its text so far."""
        ...


class ModelApi(Protocol):
    """How one kind of endpoint is spoken to. Pure."""

    name: str  # of the provider
    model: str  # if the group names none
    variable: str  # that holds the base URL
    egress: str  # what the paths begin with on egress.sock
    path: str
    headers: Mapping[str, str]

    def render(self, asked: CompletionRequest) -> bytes: ...

    def read(self, body: bytes) -> CompletionReply: ...

    def stream(self) -> ReplyStreamReader: ...


class AgentLoopOptions(msgspec.Struct, frozen=True):
    """`gatepost group set FOLDER options.KEY=VALUE`"""

    base_url: str = ""
    model: str = ""
    max_tokens: int = 8192
    history: int = 400_000  # characters of the conversation that are shown
    silence: float = 300.0  # seconds for which an endpoint may say nothing
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
        self._conversation = ModelConversation(place.state)
        self._tools: McpClient | None = None
        self._running = False
        self._stop = asyncio.Event()
        self._written, self._grew = "", asyncio.Event()  # what the model is at
        self._usage: dict[str, int] = {}

    async def query(self, batch: Batch, resume: str) -> AsyncIterator[Event]:
        self._conversation = ModelConversation(self._place.state, resume)
        self._stop.clear()
        self._usage = {}
        self._running = True
        self._add_batch(batch, first=True)
        try:
            yield ConversationStarted(self._conversation.name)
            async with aclosing(self._work(batch.turn)) as events:
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
        for _ in range(MOST_STEPS):
            seen = len(self._conversation.entries)
            tools = await self._unless_stopped(self._listed(tools))
            asking = asyncio.create_task(self._unless_stopped(self._ask(tools)))
            async with aclosing(self._follow_drafts(asking)) as drafts:
                async for draft in drafts:
                    yield draft
            reply = await asking
            said = AssistantEntry(turn, seen, reply.text, tuple(_make_tool_call(wanted) for wanted in reply.wanted))
            more = len(self._conversation.entries) > seen  # somebody wrote meanwhile
            self._conversation.add(said)
            self._count(reply.usage)
            yield UsageReport({**self._usage, "model": self._model})
            if reply.refused and not said.text and not said.uses:
                raise ProviderError("the model declined to answer")
            if not said.uses and not more:
                self._running = False
                yield TurnResult(said.text)
                return
            if said.text:
                yield Text(said.text)
            for use in said.uses:
                async for event in self._use(turn, use):
                    yield event
        raise ProviderError(f"the agent did not come to an end in {MOST_STEPS} steps")

    async def _follow_drafts(self, asking: asyncio.Task[CompletionReply]) -> AsyncGenerator[Event, None]:
        """Yield what is written of the answer, until it is there."""
        grew = self._grew = asyncio.Event()
        asking.add_done_callback(lambda _: grew.set())
        try:
            while await grew.wait() and not asking.done():
                grew.clear()
                yield DraftText(self._written)
        finally:
            asking.cancel()  # whoever reads us has left; one that is done does not mind
            await asyncio.wait({asking})

    async def _use(self, turn: str, use: AssistantToolCall) -> AsyncIterator[Event]:
        yield ToolUse(use.id, use.tool, use.input, local_tools.find_patience(use.tool, use.input))
        used = await self._unless_stopped(self._call(turn, use))
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

    async def _listed(self, known: list[McpTool] | None = None) -> list[McpTool]:
        """Return the tools that the model is offered. `known`: those of before, which hold until they change."""
        if known is not None and (self._tools is None or not self._tools.tools_changed):
            return known
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

    async def _ask(self, tools: list[McpTool]) -> CompletionReply:
        body = self._wire.render(self._asked(tools))
        number = 0
        while True:
            number += 1
            try:
                return await self._once(body)
            except IncompleteResponse as cut:
                trouble = ProviderError(str(cut), TurnErrorClass.RETRYABLE)
            except ProviderError as error:
                trouble = error
            pause = PAUSE * 2 ** (number - 1) if trouble.retry_after is None else trouble.retry_after
            if trouble.kind != TurnErrorClass.RETRYABLE or number == TRIES or pause > LONGEST_PAUSE:
                raise trouble
            await asyncio.sleep(pause)

    def _asked(self, tools: list[McpTool]) -> CompletionRequest:
        messages = newest(order_messages(self._conversation.entries), self._options.history)
        blocks = [block for message in messages for block in getattr(message, "blocks", ())]
        return CompletionRequest(
            model=self._model,
            max_tokens=self._options.max_tokens,
            system=system_prompt(self._place),
            messages=messages,
            tools=tools,
            bytes_of={block.file: self._conversation.bytes_of(block) for block in blocks},
        )

    async def _once(self, body: bytes) -> CompletionReply:
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
                    if self._place.is_watched() and (text := stream.written()) != self._written:
                        self._written = text
                        self._grew.set()
            except (msgspec.MsgspecError, UnicodeDecodeError) as error:
                raise ProviderError(f"the model's endpoint said what is not understood: {error}") from None
        raise IncompleteResponse("the model's answer broke off")

    def _count(self, usage: dict[str, int]) -> None:
        for name, number in {**usage, "requests": 1}.items():
            self._usage[name] = self._usage.get(name, 0) + number


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
