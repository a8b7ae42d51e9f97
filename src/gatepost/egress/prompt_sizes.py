"""How many tokens a prompt has at most, before its vendor has read it.

Its bytes are a bound that always holds, and three to five times too wide: a token has at least one byte. The other
bound is what the vendor itself counted for an earlier prompt that begins in the same way, and the bytes of what is new.
A conversation grows at its end, and all conversations of an agent begin with the same tools.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from gatepost.egress.media_tokens import NONE, WINDOW, MediaTokens

FRAME = 100  # tokens around a prompt that none of its parts shows
MOST_KEPT = 4000  # beginnings of prompts that are remembered


class PromptPart(Struct, frozen=True):
    """One piece of a prompt: its tools and settings, the words of the system, or a message."""

    size: int  # bytes of its JSON
    media: MediaTokens = NONE
    beginning: str = ""  # a digest of the prompt up to the end of this part


def make_parts(model: str, pieces: Iterable[tuple[bytes, MediaTokens]]) -> tuple[PromptPart, ...]:
    """Return the parts of a prompt, given their JSON and what of each is not text."""
    found, begun = [], hashlib.sha256(model.encode("utf-8", "replace"))
    for raw, media in pieces:
        begun.update(hashlib.sha256(raw).digest())
        found.append(PromptPart(len(raw), media, begun.hexdigest()[:32]))
    return tuple(found)


def bound_by_bytes(parts: Sequence[PromptPart]) -> int:
    """Return the tokens of a prompt at most, whatever is in it."""
    return bound_by_beginning(parts, {})


def bound_by_beginning(parts: Sequence[PromptPart], counted: Mapping[str, int]) -> int:
    """Return the tokens at most, given how many the vendor counted for prompts with some of these beginnings. In one
    pass from the end: an agent decides how many parts there are, and how many of them were counted."""
    bounds, size, opaque, media = [], FRAME, 0, 0
    for part in reversed(parts):
        if part.beginning in counted:
            bounds.append(counted[part.beginning] + size - opaque + min(media, WINDOW))
        size, opaque, media = size + part.size, opaque + part.media.opaque, media + part.media.tokens
    return min([*bounds, size - opaque + min(media, WINDOW)])


class CountedPrompts:
    """The token counts of vendors, by the beginning of the prompt. The oldest are forgotten."""

    def __init__(self) -> None:
        self._counted: OrderedDict[str, int] = OrderedDict()

    def find(self, parts: Sequence[PromptPart]) -> dict[str, int]:
        known = self._counted
        return {part.beginning: known[part.beginning] for part in parts if part.beginning in known}

    def learn(self, parts: Sequence[PromptPart], tokens: int) -> tuple[str, ...]:
        """Remember a counted prompt. Return those of its shared beginnings for which this is news.

        Each of its beginnings has no more tokens than the whole. Between the shared ones and the whole, nothing is
        looked for again.
        """
        shared = list_shared(parts)
        news = tuple(each for each in shared if tokens < self._counted.get(each, tokens + 1))
        for each in (*shared, *(part.beginning for part in parts[-1:])):
            self._counted[each] = min(tokens, self._counted.get(each, tokens))
            self._counted.move_to_end(each)
        while len(self._counted) > MOST_KEPT:
            self._counted.popitem(last=False)
        return news


def list_shared(parts: Sequence[PromptPart]) -> tuple[str, ...]:
    """Return the beginnings that other conversations have, too: with the tools, and with the words of the system."""
    return tuple(part.beginning for part in parts[:2])
