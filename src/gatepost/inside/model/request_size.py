"""How much of a model's context a request takes: by the endpoint's own figures, and by a careful guess before there are
any. And a conversation that is cut so that it fits. Pure.

Sizes are bytes of UTF-8: by those a careful guess holds for every script, because rare characters have more of them.
"""

from collections.abc import Collection, Iterator, Sequence
from typing import TypeVar

import msgspec

from gatepost.inside.mcp_client import McpTool
from gatepost.inside.media import IMAGES, MediaBlock, MediaKind
from gatepost.inside.model.conversation import (
    AssistantMessage,
    AssistantToolCall,
    ConversationMessage,
    SummaryMessage,
    ToolResultEntry,
    UserMessage,
)

BYTES_PER_TOKEN = 3.0  # careful: English has more than four
GROWTH = 0.25  # tokens a byte, at least, of what came since the last figure
FRAME = 16  # bytes that a message costs beside its words
FULL = 0.8  # of the window: what is left is for what a guess did not see
SHARE = 6  # of the window, an answer has one part in so many kept free
ROOM = 0.15  # of the window that messages have in any case, however large instructions and tools are
PICTURE = 4800  # bytes of words that cost as much as a picture
MOST_PER_BYTE, MOST_UNSEEN = 2, 20_000  # tokens of a byte, and of what an endpoint adds; more is a false figure
LEAST_CUT = 1000  # tokens; no endpoint cuts that short, but some count strangely
OMITTED = "\n[… {} characters are left out here: there is no room for them …]\n"
MOST_PICTURES = 6  # of tools, in one request
OLDER = "newer ones are shown"
NOT_TAKEN = "the model's endpoint did not take it"
NO_VISION = "this model takes no pictures"
NO_ROOM = "there is no room for it"
LEFT_OUT = "[Earlier messages are left out here: there is no room for them.]"

M = TypeVar("M", UserMessage, ToolResultEntry)

_encode = msgspec.json.Encoder().encode


class TokenFigure(msgspec.Struct, frozen=True):
    """A request's size in bytes, and in tokens as its endpoint counted them."""

    sent: int
    read: int


def can_be_true(sent: int, read: int) -> bool:
    """Return True if a request of so many bytes can have come to so many tokens. Words that an endpoint puts before it
    have tokens as well."""
    return sent > 0 and 0 < read <= MOST_PER_BYTE * sent + MOST_UNSEEN


def estimate_tokens(size: int, figure: TokenFigure | None) -> int:
    """Return the tokens of a request of this size."""
    if figure is None or not figure.sent:
        return round(size / BYTES_PER_TOKEN)
    each = figure.read / figure.sent
    if size >= figure.sent:
        return round(figure.read + (size - figure.sent) * max(each, GROWTH))
    return round(size * each * 1.05)


def is_cut_silently(size: int, read: int, first: TokenFigure | None, last: TokenFigure | None) -> bool:
    """Return True if an endpoint read far less than it was sent, and did not say so. `first` is the smallest request of
    the conversation, which was hardly cut; `last` is the one before: more is sent, and no more is read."""
    if read < LEAST_CUT:
        return False
    if last is not None and size > last.sent + LEAST_CUT and read <= last.read:
        return True
    return read < (size / 12 if first is None else estimate_tokens(size, first) / 2)


def guess_cut_window(read: int) -> int:
    """Return the window of an endpoint that cut a request to so many tokens: servers have powers of two."""
    return 1 << (read - 1).bit_length()


class ContextBudget(msgspec.Struct, frozen=True):
    """How the window is shared out, in tokens."""

    window: int
    fixed: int  # of the instructions and the tools
    longest: int  # that an answer may have

    @property
    def answer(self) -> int:
        """Tokens that are kept free for an answer."""
        return min(self.longest, max(self.window // SHARE, 256))

    @property
    def room(self) -> int:
        """Tokens that messages may have before they are made shorter."""
        return round(max(self.window * FULL - self.answer - self.fixed, self.window * ROOM))

    def get_answer_limit(self, asked: int) -> int:
        """Return the limit of the answer to a request of so many tokens."""
        return min(self.longest, max(self.window - asked - self.window // 50, self.answer // 2))


# Sizes.


def get_size(message: ConversationMessage) -> int:
    if isinstance(message, UserMessage):
        return _bytes(message.text) + FRAME + sum(get_block_size(block) for block in message.blocks)
    return _bytes(message.text) + FRAME + sum(_use_size(use, used) for use, used in message.uses)


def get_tools_size(tools: Sequence[McpTool]) -> int:
    return sum(
        _bytes(tool.name) + _bytes(tool.description) + len(_encode(tool.input_schema)) + 4 * FRAME for tool in tools
    )


def get_text_size(text: str) -> int:
    return _bytes(text)


def _use_size(use: AssistantToolCall, used: ToolResultEntry) -> int:
    blocks = sum(get_block_size(block) for block in used.blocks)
    return len(_encode(use.input)) + _bytes(use.tool) + _bytes(used.text) + blocks + 6 * FRAME


def get_block_size(block: MediaBlock) -> int:
    return PICTURE if block.kind is not MediaKind.PDF else 5 * PICTURE


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode(errors="replace"))


# Cuts.


def shorten(text: str, most: int) -> str:
    """Return a text of about so many bytes at most: its beginning and its end."""
    size = _bytes(text)
    if size <= most:
        return text
    kept = max(int(len(text) * most / size) - len(OMITTED), 0)
    head = kept * 2 // 3
    note = OMITTED.format(len(text) - kept)
    return f"{text[:head]}{note}{text[len(text) - (kept - head) :]}" if kept else note.strip()


def shorten_message(message: ConversationMessage, most: int) -> ConversationMessage:
    """Return a message of about so many bytes at most. It loses no call and no result, only words of them."""
    if get_size(message) <= most:
        return message
    if isinstance(message, UserMessage):
        return msgspec.structs.replace(message, text=shorten(message.text, most))
    each = most // (2 * len(message.uses) + 1)
    return AssistantMessage(
        shorten(message.text, each),
        tuple(
            (
                msgspec.structs.replace(use, input=_shorten_input(use, each)),
                _leave_out(msgspec.structs.replace(used, text=shorten(used.text, each)), NO_ROOM, used.blocks),
            )
            for use, used in message.uses
        ),
    )


def select_pictures(
    messages: Sequence[ConversationMessage], most: int, refused: Collection[str], *, takes_any: bool
) -> list[ConversationMessage]:
    """Return what is shown if the tools' pictures are the newest so many, without those that were refused. A model that
    takes none is shown no picture of people either. A note stands where one is left out."""
    return list(reversed([_select(message, left, refused, takes_any) for left, message in _count_back(messages, most)]))


def _count_back(messages: Sequence[ConversationMessage], most: int) -> Iterator[tuple[int, ConversationMessage]]:
    """Yield the messages, the newest first, with how many pictures of tools may still be shown."""
    for message in reversed(messages):
        yield most, message
        if isinstance(message, AssistantMessage):
            most = max(most - sum(len(used.blocks) for _, used in message.uses), 0)


def _select(message: ConversationMessage, most: int, refused: Collection[str], takes_any: bool) -> ConversationMessage:
    if isinstance(message, UserMessage):
        blind = [] if takes_any else [block for block in message.blocks if block.kind in IMAGES]
        return _leave_out(message, NO_VISION, blind)
    uses = []
    for use, used in reversed(message.uses):
        if not takes_any:
            shown = _leave_out(used, NO_VISION, used.blocks)
        else:
            shown = _leave_out(used, NOT_TAKEN, [block for block in used.blocks if block.file in refused])
            kept = max(len(shown.blocks) - most, 0)
            most = max(most - len(shown.blocks), 0)
            shown = _leave_out(shown, OLDER, shown.blocks[:kept])
        uses.append((use, shown))
    return msgspec.structs.replace(message, uses=tuple(reversed(uses)))


def _leave_out(holder: M, why: str, blocks: Collection[MediaBlock]) -> M:
    if not blocks:
        return holder
    notes = "".join(f"\n[picture {block.name}: left out here, because {why}]" for block in blocks)
    kept = tuple(block for block in holder.blocks if block not in blocks)
    return msgspec.structs.replace(holder, text=f"{holder.text}{notes}".strip(), blocks=kept)


def _shorten_input(use: AssistantToolCall, most: int) -> dict[str, object]:
    if len(_encode(use.input)) <= most:
        return use.input
    each = most // max(len(use.input), 1)
    texts = {name: value if isinstance(value, str) else _encode(value).decode() for name, value in use.input.items()}
    return {name: shorten(text, each) for name, text in list(texts.items())[:20]}


def fit_messages(messages: Sequence[ConversationMessage], most: int) -> list[ConversationMessage]:
    """Return what is shown of messages that must have so many bytes at most. Those that are longer than a share are
    shortened in their middle. If that is not enough, the oldest are left out, but never a summary and the newest."""
    if sum(get_size(each) for each in messages) <= most:
        return list(messages)
    first = [each for each in messages[:1] if isinstance(each, SummaryMessage)]
    rest = list(messages[len(first) :])
    room = max(most - sum(get_size(each) for each in first), most // 2)
    shares = [room // 4] * (len(rest) - 1) + [room // 2]
    short = [shorten_message(each, share) for each, share in zip(rest, shares, strict=True)]
    size, start = 0, len(short)
    while start and (size + get_size(short[start - 1]) <= room or start == len(short)):
        start -= 1
        size += get_size(short[start])
    kept = short[start:]
    if start and not first:
        return [UserMessage(LEFT_OUT), *kept]
    return [*(shorten_message(each, most // 2) for each in first), *kept]
