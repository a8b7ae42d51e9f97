"""How many tokens a prompt has at most, before its vendor has read it.

Its bytes are a bound that always holds, and three to five times too wide: a token has at least one byte. The other
bound is what the vendor itself counted for an earlier prompt that begins in the same way, and the bytes of what is new.
A conversation grows at its end, and all conversations of an agent begin with the same tools.

Bytes do not bound a picture, a recording or a document, which have bounds of their own. Only parts that are certainly
of such a kind are taken out of the bytes; everything else stays counted as text.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct

# Tokens of one picture at most, by the beginning of a model's name; the first that fits holds. As vendors document it,
# at the largest size and finest detail, with a margin: Anthropic 1 600 to 4 800; OpenAI by tiles of 512 (8 at most;
# 85 + 170 each, and 2 833 + 5 667 each for gpt-4o-mini) or by patches of 32 (1 536 at most, and 10 000 from gpt-5.4 on,
# up to 2.46 tokens each); Google by tiles of 768 (258 each), or up to 2 240 at the finest
# resolution.
PICTURES = (
    ("claude-", 8_000),
    ("gpt-4o-mini", 50_000),
    ("gpt-4o", 8_000),
    ("gpt-4.1", 8_000),
    ("gpt-5-", 8_000),
    ("gpt-5.1", 8_000),
    ("gpt-5.2", 8_000),
    ("gpt-5.3", 8_000),
    ("gpt-5.", 25_000),
    ("gpt-6", 25_000),
    ("o3", 8_000),
    ("o4-mini", 8_000),
    ("gemini-", 8_000),
)
LARGEST_PICTURE = 50_000  # of a model that nobody knows
# A recording is as long as so many bytes can be: 125 a second is less than any codec needs for speech. A second is 10
# tokens at OpenAI's, up to 32 elsewhere.
SLOWEST, TOKENS_A_SECOND = 125, 32
LEAST_SOUND = 1_000
# A document may be small and have any number of pages, since it is packed. What bounds it is what a model takes at all:
# no call reads more than that, its vendor refuses it.
WINDOW = 1_100_000

_PICTURES = frozenset(("image", "image_url", "input_image", "computer_screenshot"))
_PDF = "application/pdf"
_PAGED = frozenset(("document", "file", "input_file"))
FRAME = 100  # tokens around a prompt that none of its parts shows
MOST_KEPT = 4000  # beginnings of prompts that are remembered


class MediaTokens(Struct, frozen=True):
    tokens: int = 0  # at most
    opaque: int = 0  # bytes of the body that are counted by these tokens, not as text

    def __add__(self, other: "MediaTokens") -> "MediaTokens":
        return MediaTokens(self.tokens + other.tokens, self.opaque + other.opaque)


NO_MEDIA = MediaTokens()


def get_picture_tokens(model: str) -> int:
    """Tokens of one picture at most."""
    return next((most for name, most in PICTURES if f"{model}-".startswith(name)), LARGEST_PICTURE)


def measure_part(part: dict[str, Any], picture: int) -> MediaTokens:
    """Return what this part itself is, not what is in it."""
    kind = part.get("type")
    if kind in _PICTURES or part.get("image_url") is not None:
        return MediaTokens(picture, _source(part, "image/") or _url(part, "image_url", "data:image/"))
    if kind == "input_audio":
        return _sound(part)
    if kind in _PAGED:
        return _document(part)
    return NO_MEDIA


def _sound(part: dict[str, Any]) -> MediaTokens:
    holder = part.get("input_audio")
    size = _size(holder.get("data")) if isinstance(holder, dict) else 0
    return MediaTokens(bound_sound(size), size)


def bound_sound(size: int) -> int:
    """Return the tokens at most of a recording that is so many bytes of base64."""
    seconds = -(-size * 3 // (4 * SLOWEST))  # base64: four signs for three bytes
    return max(seconds * TOKENS_A_SECOND, LEAST_SOUND)


def _document(part: dict[str, Any]) -> MediaTokens:
    source, kind = part.get("source"), part.get("type")
    if kind == "document" and isinstance(source, dict) and source.get("type") in ("text", "content"):
        return NO_MEDIA  # its text, and its parts, are counted as such
    file = part.get("file") if kind == "file" else part
    packed = _url(file, "file_data", f"data:{_PDF};base64,") if isinstance(file, dict) else 0
    return MediaTokens(WINDOW, _source(part, _PDF) if kind == "document" else packed)


def _source(part: dict[str, Any], kind: str) -> int:
    source = part.get("source")
    if not isinstance(source, dict) or source.get("type") != "base64":
        return 0
    return _size(source.get("data")) if str(source.get("media_type", "")).startswith(kind) else 0


def _url(part: dict[str, Any], name: str, begin: str) -> int:
    value = part.get(name)
    url = value.get("url") if isinstance(value, dict) else value
    return _size(url) if isinstance(url, str) and url.startswith(begin) else 0


def _size(data: object) -> int:
    return len(data) if isinstance(data, str) else 0


class PromptPart(Struct, frozen=True):
    """One piece of a prompt: its tools and settings, the words of the system, or a message."""

    size: int  # bytes of its JSON
    media: MediaTokens = NO_MEDIA
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
