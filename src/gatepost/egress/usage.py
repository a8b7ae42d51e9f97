"""How many tokens a call took, read from the answer of the model's endpoint, streamed or not. Pure.

What is passed on is what was read: events go through whole, without the key, and without the usage event that only we
had asked for.
"""

from dataclasses import dataclass, replace
from typing import Any

import msgspec

from gatepost.store.costs import Usage

LARGEST_EVENT = 16 * 1024 * 1024
_MOST = 10**9


@dataclass(frozen=True, slots=True)
class Measured:
    """`whole`: the answer came to its end, and these are its numbers. Else only the prompt's part is known, if any."""

    usage: Usage | None = None
    whole: bool = False
    written_long: int = 0  # of what was written to the cache, so much stays for an hour
    seconds: float | None = None  # of sound, where the vendor counts these


def _count(holder: Any, *path: str) -> int:
    for name in path:
        holder = holder.get(name) if isinstance(holder, dict) else None
    return holder if isinstance(holder, int) and not isinstance(holder, bool) and 0 <= holder <= _MOST else 0


def _anthropic(given: dict[str, Any], *, whole: bool) -> Measured:
    written = _count(given, "cache_creation_input_tokens")
    told = Usage(
        input=_count(given, "input_tokens"),
        output=_count(given, "output_tokens"),
        cache_read=_count(given, "cache_read_input_tokens"),
        cache_write=written,
    )
    return Measured(told, whole, min(_count(given, "cache_creation", "ephemeral_1h_input_tokens"), written))


def _openai(given: dict[str, Any]) -> Usage:
    """Chat completions and responses name the same things differently; what was cached is part of the prompt."""
    prompt = _count(given, "prompt_tokens") or _count(given, "input_tokens")
    read, written = (
        _count(given, "prompt_tokens_details", name) or _count(given, "input_tokens_details", name)
        for name in ("cached_tokens", "cache_write_tokens")
    )
    read = min(read, prompt)
    written = min(written, prompt - read)
    output = _count(given, "completion_tokens") or _count(given, "output_tokens")
    return Usage(input=prompt - read - written, output=output, cache_read=read, cache_write=written)


def _decoded(raw: bytes) -> dict[str, Any]:
    try:
        value = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def of_answer(raw: bytes) -> Measured:
    """Of an answer that came in one piece."""
    usage = _decoded(raw).get("usage")
    if not isinstance(usage, dict):
        return Measured()
    if usage.get("type") == "duration":
        seconds = usage.get("seconds")
        if isinstance(seconds, int | float) and not isinstance(seconds, bool) and 0 < seconds <= _MOST:
            return Measured(seconds=float(seconds))
        return Measured()
    if "cache_creation_input_tokens" in usage or "cache_read_input_tokens" in usage:
        return _anthropic(usage, whole=True)
    return Measured(_openai(usage), True)


class Events:
    """A stream of server-sent events: fed with bytes, gives back those that may go on."""

    def __init__(self, key: str = "", *, drop_usage: bool = False) -> None:
        self._key, self._drop = key.encode(), drop_usage
        self._buffer = bytearray()
        self._seen = 0  # how far the buffer was searched for an end
        self.measured = Measured()

    def feed(self, data: bytes) -> bytes:
        self._buffer += data
        out = []
        while (end := self._end()) > 0:
            event = bytes(self._buffer[:end])
            del self._buffer[:end]
            self._seen = 0
            if self._pass(event):
                out.append(event.replace(self._key, b"[key]") if self._key else event)
        if len(self._buffer) > LARGEST_EVENT:
            raise ValueError(f"an event of more than {LARGEST_EVENT} bytes")
        return b"".join(out)

    def rest(self) -> bytes:
        """What came after the last whole event."""
        left = bytes(self._buffer)
        self._buffer.clear()
        if left.strip():
            self._pass(left)
        return left.replace(self._key, b"[key]") if self._key else left

    def _end(self) -> int:
        """Where the first event ends: after an empty line, however lines are ended."""
        found = [
            at + len(mark)
            for mark in (b"\n\n", b"\r\n\r\n", b"\r\r")
            if (at := self._buffer.find(mark, max(self._seen - 3, 0))) >= 0
        ]
        if not found:
            self._seen = len(self._buffer)
        return min(found, default=0)

    def _pass(self, event: bytes) -> bool:
        """Read one event; False if only we had asked for it."""
        pieces = [line[5:].removeprefix(b" ") for line in event.splitlines() if line.startswith(b"data:")]
        data = b"\n".join(pieces)
        if not data.startswith(b"{") or (b"usage" not in data and b"stop" not in data):
            return True
        found = _decoded(data)
        kind = found.get("type")
        if kind in ("message_start", "message_delta"):
            self._hear_anthropic(str(kind), found)
            return True
        if isinstance(kind, str) and kind.startswith("response."):
            self._hear_response(kind, found)
            return True
        usage = found.get("usage")
        if isinstance(usage, dict):
            self.measured = Measured(_openai(usage), True)
            return not (self._drop and found.get("choices") == [])
        return True

    def _hear_anthropic(self, kind: str, found: dict[str, Any]) -> None:
        if kind == "message_start":
            message = found.get("message")
            usage = message.get("usage") if isinstance(message, dict) else None
            if isinstance(usage, dict):
                self.measured = _anthropic(usage, whole=False)
            return
        usage, begun = found.get("usage"), self.measured.usage
        if not isinstance(usage, dict):
            return
        told = _anthropic(usage, whole=True)
        said = told.usage or Usage()
        if begun is None:
            self.measured = replace(told, whole=bool(said.input or said.cache_read or said.cache_write))
            return
        merged = Usage(
            input=max(begun.input, said.input),
            output=said.output,
            cache_read=max(begun.cache_read, said.cache_read),
            cache_write=max(begun.cache_write, said.cache_write),
        )
        self.measured = Measured(merged, True, max(self.measured.written_long, told.written_long))

    def _hear_response(self, kind: str, found: dict[str, Any]) -> None:
        response = found.get("response")
        usage = response.get("usage") if isinstance(response, dict) else None
        if isinstance(usage, dict) and kind in ("response.completed", "response.incomplete", "response.failed"):
            self.measured = Measured(_openai(usage), True)
