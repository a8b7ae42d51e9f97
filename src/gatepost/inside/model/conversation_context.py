"""The part of a conversation that a model is shown: as much as its window has room for. The older part is summed up
before the window is full. An endpoint's counts, refusals and cuts teach how much fits."""

from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec

from gatepost.inside.mcp_client import McpTool
from gatepost.inside.media import IMAGES
from gatepost.inside.model.api import CompletionRequest
from gatepost.inside.model.context_window import ModelWindow
from gatepost.inside.model.conversation import (
    AssistantEntry,
    AssistantMessage,
    ConversationEntry,
    ConversationMessage,
    ModelConversation,
    SummaryEntry,
    find_summary,
    list_blocks,
    order_messages,
    place_messages,
)
from gatepost.inside.model.conversation_summary import (
    KEPT_PART,
    AskModel,
    ConversationSummary,
    choose_summary_end,
    list_summed_up,
    sketch_summary,
    summarize,
)
from gatepost.inside.model.overflow_errors import ContextOverflow
from gatepost.inside.model.request_size import (
    BYTES_PER_TOKEN,
    MOST_PICTURES,
    ContextBudget,
    TokenFigure,
    can_be_true,
    estimate_tokens,
    fit_messages,
    get_block_size,
    get_size,
    get_text_size,
    get_tools_size,
    guess_cut_window,
    is_cut_silently,
    select_pictures,
)
from gatepost.inside.provider_errors import ProviderError
from gatepost.mailbox.runner_frames import TurnErrorClass

MOST_FITS = 6  # sizes in which one request is made
SHRINK = 0.8  # of the size before
MOST_LEFT = 100  # facts that wait for the gateway
_SKETCHED = frozenset({TurnErrorClass.FATAL, TurnErrorClass.OVERFLOW, TurnErrorClass.REFUSAL})


class ContextLimits(msgspec.Struct, frozen=True):
    """The sizes that the group sets. `learns`: it does not say how large the window is."""

    answer: int  # tokens
    history: int = 0  # bytes of messages; 0: as many as fit
    learns: bool = True


class ConversationContext:
    """A level is how often the endpoint has found the request under way too large: the higher, the less is shown."""

    def __init__(
        self, window: ModelWindow, model: str, limits: ContextLimits, ask: AskModel, summing_up: Callable[[], None]
    ) -> None:
        """`ask` asks the model beside the conversation; `summing_up` is called before it takes its time."""
        self._window, self._model, self._limits = window, model, limits
        self._ask, self._summing_up = ask, summing_up
        self._conversation: ModelConversation | None = None
        self._system, self._tools, self._fixed = "", list[McpTool](), 0
        self._figure: TokenFigure | None = None  # of a request that was refused
        self._longest = limits.answer  # that the endpoint gives
        self._seen = 0  # bytes that the pictures of the last request were taken for
        self._told = False  # that it takes its time, in the request under way
        self._was_cut = False  # the endpoint was found to cut silently
        self._refused: set[str] = set()  # pictures of tools that the endpoint did not take, by file

    async def open(self, conversation: ModelConversation, system: str, tools: Sequence[McpTool]) -> None:
        """Begin a request."""
        self._conversation, self._system, self._tools = conversation, system, list(tools)
        self._fixed, self._told = get_text_size(system) + get_tools_size(tools), False
        await self._window.wait()

    def render(self, level: int = 0) -> tuple[CompletionRequest, int]:
        """Return the request and its size."""
        conversation, budget, figure = self._get_conversation(), self._get_budget(level), self._get_figure()
        each = figure.read / figure.sent if figure is not None else 1 / (BYTES_PER_TOKEN + 1)
        room = budget.room if level else budget.window - budget.answer - budget.fixed
        messages = fit_messages(self._list_messages(level), round(max(room, budget.room) / each))
        size = self._fixed + sum(get_size(message) for message in messages)
        self._seen = sum(get_block_size(block) for message in messages for block in list_blocks(message))
        blocks = [block for message in messages for block in list_blocks(message)]
        request = CompletionRequest(
            model=self._model,
            max_tokens=budget.get_answer_limit(estimate_tokens(size, figure)),
            system=self._system,
            messages=messages,
            tools=self._tools,
            bytes_of={block.file: conversation.bytes_of(block) for block in blocks},
        )
        return request, size

    async def make_room(self, turn: str, level: int) -> None:
        """Sum up the older part of the conversation if there is not much room left, and in any case if the endpoint has
        found the request too large."""
        budget, entries = self._get_budget(level), self._get_conversation().entries
        size = sum(get_size(message) for message in self._list_messages(level))
        tokens = estimate_tokens(self._fixed + size, self._get_figure()) - budget.fixed
        most = self._limits.history
        if not level and tokens <= budget.room and not 0 < most < size:
            return
        room = min(round(budget.room * size / max(tokens, 1)), most or size)
        keep = round(room * KEPT_PART / 2**level)
        upto = choose_summary_end(place_messages(entries), turn, keep, 0 if level else keep // 4)
        if upto is not None:
            if not self._told:
                self._told = True
                self._summing_up()
            await self.sum_up(turn, upto, level)

    async def sum_up(self, turn: str, upto: float, level: int = 0, *, wish: str | None = None) -> None:
        """Put a summary in the place of everything before a position. It is on the disk when this returns. The model
        makes it, unless that has not helped. `wish`: somebody asks for it; then it is made by the model or not at all.
        """
        conversation, budget = self._get_conversation(), self._get_budget(level)
        before, placed = find_summary(conversation.entries), place_messages(conversation.entries)
        known, messages = before.text if before is not None else "", list_summed_up(placed, turn, upto)
        made = ConversationSummary(sketch_summary(known, messages, budget))
        if level < MOST_FITS // 2:
            try:
                made = await self._summarize(known, messages, level, wish or "")
            except ProviderError as error:
                if error.kind not in _SKETCHED or wish is not None:
                    raise
        left = conversation.find_unkept_facts()  # of a turn that broke off
        facts, read = (*(left.facts if left else ()), *made.facts), (*(left.read if left else ()), *made.read)
        conversation.add(SummaryEntry(turn, upto, made.text, facts[-MOST_LEFT:], read[-MOST_LEFT:]))

    async def _summarize(
        self, known: str, messages: Sequence[ConversationMessage], level: int, wish: str
    ) -> ConversationSummary:
        try:
            return await summarize(self._ask, known, messages, self._get_budget(level), wish)
        except ProviderError as error:
            if error.overflow is None or not error.overflow.answer:
                raise
            self.learn_limit(error.overflow, 0)
        return await summarize(self._ask, known, messages, self._get_budget(level), wish)

    def _list_messages(self, level: int) -> list[ConversationMessage]:
        """Return the conversation with the pictures that may be shown."""
        messages, takes_any = order_messages(self._get_conversation().entries), self._window.can_see
        return select_pictures(messages, MOST_PICTURES >> level, self._refused, takes_any=takes_any)

    # What the endpoint teaches.

    def learn_pictures(self, error: ProviderError, request: CompletionRequest) -> bool:
        """Keep what an error says about pictures. Return True if the next request has fewer of them."""
        blocks = [block for message in request.messages for block in list_blocks(message) if block.kind in IMAGES]
        if blocks and error.no_pictures and self._window.can_see:
            self._window.learn_no_pictures()
            return True
        tools = (each for each in request.messages if isinstance(each, AssistantMessage))
        shown = {block.file for message in tools for block in list_blocks(message)}
        if not shown or not error.about_input:
            return False
        self._refused |= shown
        return True

    def learn_limit(self, overflow: ContextOverflow, size: int) -> bool:
        """Keep what a refusal says about the window, or about what the request came to. Return True if less must be
        shown; else the model does not give answers as long as the group wants them."""
        if overflow.answer:
            self._longest = min(self._longest, overflow.answer)
            return False
        guess = estimate_tokens(size, self._get_figure())
        is_true = overflow.sent * 4 >= guess and can_be_true(size, overflow.sent)  # nobody is refused for a word
        asked = overflow.sent if is_true else guess
        if is_true:
            self._figure = TokenFigure(size, overflow.sent)
        self._window.learn(overflow.limit or round(min(self._window.tokens, asked) * 0.9))
        return True

    def check_read(self, size: int, read: int) -> tuple[int, bool]:
        """Return the tokens to keep with an answer, and True if it must be asked for again: the endpoint has cut what
        it was asked, for the first time."""
        if not can_be_true(size, read):
            self._figure = None
            return 0, False
        figures = list(self._list_figures(self._get_conversation().entries))
        first, last = min(figures, key=lambda each: each.sent, default=None), figures[-1] if figures else None
        # A small picture costs few tokens, and is no sign that words were cut.
        is_cut = self._limits.learns and is_cut_silently(size - self._seen, read, first, last)
        if is_cut and not self._was_cut:
            self._was_cut = True
            self._window.learn(guess_cut_window(read))
            return 0, True
        self._figure = None
        return 0 if is_cut else read, False

    def _get_figure(self) -> TokenFigure | None:
        """The last count of the endpoint, of this model in this conversation."""
        if self._figure is not None:
            return self._figure
        return next(self._list_figures(reversed(self._get_conversation().entries)), None)

    def _list_figures(self, entries: Iterable[ConversationEntry]) -> Iterator[TokenFigure]:
        for entry in entries:
            if isinstance(entry, AssistantEntry) and entry.model == self._model and can_be_true(entry.sent, entry.read):
                yield TokenFigure(entry.sent, entry.read)

    def _get_budget(self, level: int) -> ContextBudget:
        figure = self._get_figure()
        each = figure.read / figure.sent if figure is not None else 1 / BYTES_PER_TOKEN
        window = round(self._window.tokens * SHRINK**level)
        return ContextBudget(window, round(self._fixed * each), self._longest)

    def _get_conversation(self) -> ModelConversation:
        assert self._conversation is not None  # `open` came first
        return self._conversation
