"""Input of a model that is not text: how many tokens at most, and which bytes of the body are these and nothing else.

A token of text has at least one byte, so bytes bound it. They do not bound a picture, a recording or a document; this
module gives an upper bound for these. Only parts that are certainly of such a kind are taken out of the bytes;
everything else stays counted as text.
"""

from typing import Any

from msgspec import Struct

# Tokens of one picture at most, by the beginning of a model's name; the first that fits holds. As vendors document it,
# at the largest size and finest detail, with a margin: Anthropic 1 600 to 4 800; OpenAI by tiles of 512 (8 at most;
# 85 + 170 each, and 2 833 + 5 667 each for gpt-4o-mini) or by patches of 32 (1 536 at most, and 10 000 from gpt-5.4 on,
# up to 2.46 tokens each).
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


class MediaTokens(Struct, frozen=True):
    tokens: int = 0  # at most
    opaque: int = 0  # bytes of the body that are counted by these tokens, not as text

    def __add__(self, other: "MediaTokens") -> "MediaTokens":
        return MediaTokens(self.tokens + other.tokens, self.opaque + other.opaque)


NONE = MediaTokens()


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
    return NONE


def _sound(part: dict[str, Any]) -> MediaTokens:
    holder = part.get("input_audio")
    size = _size(holder.get("data")) if isinstance(holder, dict) else 0
    seconds = -(-size * 3 // (4 * SLOWEST))  # base64: four signs for three bytes
    return MediaTokens(max(seconds * TOKENS_A_SECOND, LEAST_SOUND), size)


def _document(part: dict[str, Any]) -> MediaTokens:
    source, kind = part.get("source"), part.get("type")
    if kind == "document" and isinstance(source, dict) and source.get("type") in ("text", "content"):
        return NONE  # its text, and its parts, are counted as such
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
