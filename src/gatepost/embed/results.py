"""Values that a function may give back, and how they travel: as the result of an MCP call, whose parts arrive as they
are.

A plain value becomes text; a dict, or what is like one, is structured content as well.
"""

from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, is_dataclass
from typing import Any

import msgspec

_RESULT_KEYS = {"content", "isError", "structuredContent", "_meta"}
_PART_TYPES = {"text", "image", "audio", "resource", "resource_link"}


class ToolError(Exception):
    """The tool's own word for the model that it failed: the text arrives alone, marked as an error."""


@dataclass(frozen=True, slots=True)
class Image:
    data: bytes
    mime: str = "image/png"

    def part(self) -> dict[str, Any]:
        return {"type": "image", "data": b64encode(self.data).decode(), "mimeType": self.mime}


@dataclass(frozen=True, slots=True)
class Audio:
    data: bytes
    mime: str = "audio/wav"

    def part(self) -> dict[str, Any]:
        return {"type": "audio", "data": b64encode(self.data).decode(), "mimeType": self.mime}


@dataclass(frozen=True, slots=True)
class Resource:
    """The content at a URI, with the answer: text or bytes."""

    uri: str
    body: str | bytes
    mime: str = ""

    def part(self) -> dict[str, Any]:
        held = {"text": self.body} if isinstance(self.body, str) else {"blob": b64encode(self.body).decode()}
        mime = {"mimeType": self.mime} if self.mime else {}
        return {"type": "resource", "resource": {"uri": self.uri, **mime, **held}}


@dataclass(frozen=True, slots=True)
class ResourceLink:
    """The address of something that the client may fetch."""

    uri: str
    name: str
    description: str = ""
    mime: str = ""

    def part(self) -> dict[str, Any]:
        more = {"description": self.description, "mimeType": self.mime}
        found = {"type": "resource_link", "uri": self.uri, "name": self.name}
        return found | {key: value for key, value in more.items() if value}


Part = Image | Audio | Resource | ResourceLink


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """An answer said in full."""

    content: Sequence[str | Part] = ()
    is_error: bool = False
    structured: Mapping[str, Any] | None = None


def render(value: object) -> dict[str, Any]:
    """The result of a call. Raises TypeError for what cannot be sent as JSON."""
    if isinstance(value, str):
        return {"content": [{"type": "text", "text": value}], "isError": False}
    if value is None:
        return {"content": [], "isError": False}
    if isinstance(value, ToolOutput):
        found: dict[str, Any] = {"content": [_part(each) for each in value.content], "isError": value.is_error}
        return found if value.structured is None else found | {"structuredContent": _plain(value.structured)}
    if isinstance(value, Part):
        return {"content": [value.part()], "isError": False}
    if isinstance(value, list | tuple) and any(isinstance(each, Part) for each in value):
        return {"content": [_part(each) for each in value], "isError": False}
    plain = _plain(value)
    if _is_result(plain):
        return {"isError": False, **plain}
    answer: dict[str, Any] = {"content": [_text(plain)], "isError": False}
    return answer | {"structuredContent": plain} if isinstance(plain, dict) else answer


def render_error(text: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text}], "isError": True}


def _part(value: object) -> dict[str, Any]:
    if isinstance(value, Part):
        return value.part()
    return _text(value if isinstance(value, str) else _plain(value))


def _text(plain: object) -> dict[str, Any]:
    return {"type": "text", "text": plain if isinstance(plain, str) else msgspec.json.encode(plain).decode()}


def _plain(value: object) -> Any:
    if isinstance(value, bytes | bytearray | memoryview):
        raise TypeError("bytes are no JSON: give back an Image, an Audio or a Resource")
    try:
        return msgspec.to_builtins(value, str_keys=True, enc_hook=_foreign)
    except RecursionError:
        raise TypeError(f"a {type(value).__name__} that holds itself cannot be sent as JSON") from None


def _foreign(value: object) -> object:
    dump = getattr(value, "model_dump", None)
    if dump is not None and not is_dataclass(value):
        return dump(mode="json")
    raise TypeError(f"a {type(value).__name__} cannot be sent as JSON")


def _is_result(plain: object) -> bool:
    """A dict that is an MCP result already, and nothing else: its parts say what they are."""
    if not isinstance(plain, dict) or "content" not in plain or not plain.keys() <= _RESULT_KEYS:
        return False
    parts = plain["content"]
    return isinstance(parts, list) and all(isinstance(each, dict) and each.get("type") in _PART_TYPES for each in parts)
