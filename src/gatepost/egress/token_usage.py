"""How many tokens a call took, read from the answer of the model's endpoint, streamed or not. Pure.

Events are passed on as they were read, whole: only the key is struck out, and the usage event that nobody but us asked
for is left out.
"""

import math
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from gatepost.core.json_limits import has_few_values
from gatepost.core.records import replace
from gatepost.core.secret_scrubber import SecretScrubber
from gatepost.store.money.costs import TokenCounts

LARGEST_EVENT = 16 * 1024 * 1024
MOST_LINES = 10_000  # of an event that is read
MOST_VALUES = 200_000  # in an answer or event that is read
# An answer that was cut: tokens on the way to us when it was, and tokens a second that a model thinks unseen at most.
ON_THE_WAY = 200
FASTEST = 500
SOUND_WEIGHT = 4  # a token of sound costs Google's customers up to 3.4 times as much as one of text
_MOST = 10**9
_GAP = re.compile(rb"\n\n|\r\r|\r\n\r\n")  # an empty line, however lines are ended


@dataclass(frozen=True, slots=True)
class MeasuredUsage:
    """`whole`: the answer came to its end, and these are its numbers. Else only the prompt's part is known, if any."""

    usage: TokenCounts | None = None
    whole: bool = False
    written_long: int = 0  # of what was written to the cache, so much stays for an hour
    seconds: float | None = None  # of sound, where the vendor counts these
    # Tools that the vendor ran, by family; None: it does not say.
    used: Mapping[str, int] | None = field(default=None, compare=False)


class _SaidText(msgspec.Struct):
    """Everything of a delta that the model wrote."""

    text: str | None = None
    thinking: str | None = None
    partial_json: str | None = None
    signature: str | None = None
    content: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    refusal: str | None = None
    tool_calls: msgspec.Raw | None = None


class _SaidChoice(msgspec.Struct):
    delta: _SaidText | None = None


class _SaidPart(msgspec.Struct):
    text: str | None = None
    functionCall: msgspec.Raw | None = None


class _SaidContent(msgspec.Struct):
    parts: list[_SaidPart] = []


class _SaidCandidate(msgspec.Struct):
    content: _SaidContent | None = None


class _SaidEvent(msgspec.Struct):
    """An event of any of the four APIs, as far as it carries words of the model."""

    delta: str | _SaidText | None = None
    choices: list[_SaidChoice] = []
    candidates: list[_SaidCandidate] = []


_read_said = msgspec.json.Decoder(_SaidEvent).decode


def count_text_bytes(data: bytes) -> int:
    """Return the bytes that a model wrote in one event; all of its bytes where that cannot be told."""
    try:
        event = _read_said(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return len(data)
    parts = [choice.delta for choice in event.choices]
    if isinstance(event.delta, str):
        return len(event.delta.encode("utf-8", "replace"))
    said = sum(_size(part) for part in (event.delta, *parts) if part is not None)
    contents = [each.content for each in event.candidates if each.content is not None]
    return said + sum(_google_size(part) for content in contents for part in content.parts)


def _size(said: _SaidText) -> int:
    words = (said.text, said.thinking, said.partial_json, said.signature, said.content, said.reasoning_content)
    known = sum(len(each.encode("utf-8", "replace")) for each in (*words, said.reasoning, said.refusal) if each)
    return known + (len(bytes(said.tool_calls)) if said.tool_calls is not None else 0)


def _google_size(part: _SaidPart) -> int:
    call = len(bytes(part.functionCall)) if part.functionCall is not None else 0
    return call + len((part.text or "").encode("utf-8", "replace"))


def bound_cut_output(arrived: int, unseen_s: float) -> int:
    """Return how many tokens an answer had at most when it was cut.

    A token has at least one byte, so what arrived bounds what was shown. `unseen_s`: for how long the model may have
    written something that nobody has read: thoughts, or words that wait in buffers.
    """
    return arrived + ON_THE_WAY + math.ceil(unseen_s * FASTEST)


class _UnclearCount(ValueError):
    """A count that is not told, or not as a count."""


def _count(holder: dict[str, Any], *names: str) -> int | None:
    """Under the first of these names that says anything; None: nothing is said. Raises _Unclear."""
    found = next((value for name in names if (value := holder.get(name)) is not None), None)
    if found is None:
        return None
    if not isinstance(found, int) or isinstance(found, bool) or not 0 <= found <= _MOST:
        raise _UnclearCount
    return found


def _needed(holder: dict[str, Any], *names: str) -> int:
    found = _count(holder, *names)
    if found is None:
        raise _UnclearCount
    return found


def _details(holder: dict[str, Any], *names: str) -> dict[str, Any]:
    found: object = next((value for name in names if (value := holder.get(name)) is not None), {})
    if not isinstance(found, dict):
        raise _UnclearCount
    return found


def _anthropic(given: dict[str, Any], *needed: str) -> MeasuredUsage:
    """Whole, if all counts are there. Raises _Unclear without those that are needed."""
    for name in needed:
        _needed(given, name)
    written = _count(given, "cache_creation_input_tokens") or 0
    counts = TokenCounts(
        input=_count(given, "input_tokens") or 0,
        output=_count(given, "output_tokens") or 0,
        cache_read=_count(given, "cache_read_input_tokens") or 0,
        cache_write=written,
    )
    kept = _count(_details(given, "cache_creation"), "ephemeral_1h_input_tokens") or 0
    return MeasuredUsage(counts, True, min(kept, written), used=_requests(given))


def _requests(given: dict[str, Any]) -> dict[str, int]:
    """`server_tool_use`: {"web_search_requests": 2}. Nothing was used where nothing is said."""
    details = _details(given, "server_tool_use")
    return {
        name.removesuffix("_requests"): _count(details, name) or 0 for name in details if name.endswith("_requests")
    }


def _calls(holder: dict[str, Any]) -> dict[str, int] | None:
    """Count the tool calls of a Responses answer: its items `web_search_call` and the like."""
    items = holder.get("output")
    if not isinstance(items, list):
        return None
    kinds = (item.get("type") for item in items if isinstance(item, dict))
    return dict(Counter(kind.removesuffix("_call") for kind in kinds if isinstance(kind, str) and kind[-5:] == "_call"))


def _openai(given: dict[str, Any]) -> MeasuredUsage:
    """Chat completions and responses name the same things differently; what was cached is part of the prompt."""
    prompt = _needed(given, "prompt_tokens", "input_tokens")
    output = _needed(given, "completion_tokens", "output_tokens")
    details = _details(given, "prompt_tokens_details", "input_tokens_details")
    read = min(_count(details, "cached_tokens") or 0, prompt)
    written = min(_count(details, "cache_write_tokens") or 0, prompt - read)
    return MeasuredUsage(
        TokenCounts(input=prompt - read - written, output=output, cache_read=read, cache_write=written), True
    )


def _google(given: dict[str, Any]) -> TokenCounts:
    """Thoughts are paid for as words. Cached tokens are part of the prompt; sound costs more than its tokens say."""
    prompt = _needed(given, "promptTokenCount")
    read = min(_count(given, "cachedContentTokenCount") or 0, prompt)
    details = given.get("promptTokensDetails")
    sounds = [each for each in (details if isinstance(details, list) else []) if isinstance(each, dict)]
    sound = sum(_count(each, "tokenCount") or 0 for each in sounds if each.get("modality") == "AUDIO")
    tools = _count(given, "toolUsePromptTokenCount") or 0
    return TokenCounts(
        input=prompt - read + tools + (SOUND_WEIGHT - 1) * min(sound, prompt),
        output=(_count(given, "candidatesTokenCount") or 0) + (_count(given, "thoughtsTokenCount") or 0),
        cache_read=read,
    )


def _google_whole(found: dict[str, Any]) -> bool:
    """Return True if an answer of Google's, or a piece of it, is the last one."""
    feedback, candidates = found.get("promptFeedback"), found.get("candidates")
    blocked = isinstance(feedback, dict) and bool(feedback.get("blockReason"))
    ended = [each for each in candidates if isinstance(each, dict)] if isinstance(candidates, list) else []
    return blocked or any(each.get("finishReason") for each in ended)


def _read_google(found: dict[str, Any], before: MeasuredUsage) -> MeasuredUsage:
    """Each piece of a stream counts everything so far."""
    whole = before.whole or _google_whole(found)
    given = found.get("usageMetadata")
    try:
        counts = _google(given) if isinstance(given, dict) else before.usage
    except _UnclearCount:
        return MeasuredUsage()
    return MeasuredUsage(counts, whole and bool(counts), used={}) if counts != TokenCounts() else MeasuredUsage()


def _whole(given: dict[str, Any]) -> MeasuredUsage:
    """Return the usage of a finished answer. It is empty unless the tokens of both the prompt and the answer are
    given."""
    try:
        if "cache_creation_input_tokens" in given or "cache_read_input_tokens" in given:
            found = _anthropic(given, "input_tokens", "output_tokens")
        else:
            found = _openai(given)
    except _UnclearCount:
        return MeasuredUsage()
    return found if found.usage != TokenCounts() else MeasuredUsage()  # no call takes nothing


def _decoded(raw: bytes) -> dict[str, Any]:
    """Empty if it is no object, or so many values that reading it would hold up everybody."""
    if not has_few_values(raw, MOST_VALUES):
        return {}
    try:
        value = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def read_response_usage(raw: bytes) -> MeasuredUsage:
    """Return the usage of an answer that came in one piece."""
    answer = _decoded(raw)
    if "usageMetadata" in answer:
        return _read_google(answer, MeasuredUsage())
    usage = answer.get("usage")
    if not isinstance(usage, dict):
        return MeasuredUsage()
    if usage.get("type") == "duration":
        seconds = usage.get("seconds")
        if isinstance(seconds, int | float) and not isinstance(seconds, bool) and 0 < seconds <= _MOST:
            return MeasuredUsage(seconds=float(seconds))
        return MeasuredUsage()
    found = _whole(usage)
    return found if found.used is not None else replace(found, used=_calls(answer))


class UsageEventFilter:
    """A stream of server-sent events: fed with bytes, gives back those that may go on."""

    def __init__(self, key: str = "", *, drop_usage: bool = False) -> None:
        self._scrub, self._drop = SecretScrubber([key]), drop_usage
        self._buffer = bytearray()
        self._seen = 0  # how far the buffer was searched for an end
        self.arrived = 0  # bytes of what the model wrote
        self.measured = MeasuredUsage()

    def feed(self, data: bytes) -> bytes:
        self._buffer += data
        out = []
        while (end := self._end()) > 0:
            event = bytes(self._buffer[:end])
            del self._buffer[:end]
            self._seen = 0
            if self._pass(event):
                out.append(self._scrub.data(event))
        if len(self._buffer) > LARGEST_EVENT:
            raise ValueError(f"an event of more than {LARGEST_EVENT} bytes")
        return b"".join(out)

    def rest(self) -> bytes:
        """Return what came after the last whole event."""
        left = bytes(self._buffer)
        self._buffer.clear()
        if left.strip():
            self._pass(left)
        return self._scrub.data(left)

    def _end(self) -> int:
        """Return where the first event ends; 0: nowhere yet."""
        found = _GAP.search(self._buffer, max(self._seen - 3, 0))
        if found is None:
            self._seen = len(self._buffer)
            return 0
        return found.end()

    def _pass(self, event: bytes) -> bool:
        """Read one event; False if only we had asked for it."""
        if event.count(b"\n") + event.count(b"\r") > MOST_LINES:
            return True
        pieces = [line[5:].removeprefix(b" ") for line in event.splitlines() if line.startswith(b"data:")]
        data = b"\n".join(pieces)
        if not data.startswith(b"{"):
            return True
        if b"delta" in data or b'"candidates"' in data:
            self.arrived += count_text_bytes(data)
        if b"usage" not in data and b"stop" not in data and b'"finishReason"' not in data:
            return True
        found = _decoded(data)
        if "usageMetadata" in found or "candidates" in found:
            self.measured = _read_google(found, self.measured)
            return True
        kind = found.get("type")
        if kind in ("message_start", "message_delta"):
            self._read_anthropic(str(kind), found)
            return True
        if isinstance(kind, str) and kind.startswith("response."):
            self._read_response(kind, found)
            return True
        usage = found.get("usage")
        if isinstance(usage, dict):
            self.measured = _whole(usage)
            return not (self._drop and found.get("choices") == [])
        return True

    def _read_anthropic(self, kind: str, found: dict[str, Any]) -> None:
        holder = found.get("message") if kind == "message_start" else found
        usage = holder.get("usage") if isinstance(holder, dict) else None
        if not isinstance(usage, dict):
            return
        try:
            if kind == "message_start":
                self.measured = replace(_anthropic(usage, "input_tokens"), whole=False)
                return
            begun = self.measured.usage
            counted = _anthropic(usage, "output_tokens", *(("input_tokens",) if begun is None else ()))
        except _UnclearCount:  # what was learnt before stays, as a beginning
            self.measured = replace(self.measured, whole=False)
            return
        said, begun = counted.usage or TokenCounts(), begun or TokenCounts()
        merged = TokenCounts(
            input=max(begun.input, said.input),
            output=said.output,
            cache_read=max(begun.cache_read, said.cache_read),
            cache_write=max(begun.cache_write, said.cache_write),
        )
        long = max(self.measured.written_long, counted.written_long)
        used = {**(self.measured.used or {}), **(counted.used or {})}  # the last word counts the whole answer
        self.measured = MeasuredUsage(merged, True, long, used=used)

    def _read_response(self, kind: str, found: dict[str, Any]) -> None:
        response = found.get("response")
        usage = response.get("usage") if isinstance(response, dict) else None
        if (
            isinstance(response, dict)
            and isinstance(usage, dict)
            and kind in ("response.completed", "response.incomplete", "response.failed")
        ):
            self.measured = replace(_whole(usage), used=_calls(response))
