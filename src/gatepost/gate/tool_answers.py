"""The answer to a call, as it goes to the caller, if it is not too large. Its reader pays for every byte, and the
gateway holds it until it is read.

A tool that lists stops before the bound and says so (`more`); a text that alone is larger is cut, with its length
named. The gate refuses whatever is larger all the same.
"""

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from difflib import get_close_matches
from typing import Any, TypeVar

import msgspec

from gatepost.core.errors import GatepostError, Invalid, NotFound, Refused, Unavailable, Unsupported
from gatepost.tools.call import ToolCall
from gatepost.tools.contract import ForwardedResult, Tool

LARGEST_ANSWER = 256 * 1024  # bytes of JSON
LISTED = LARGEST_ANSWER - 8 * 1024  # of which a list may have so many; the rest is for what stands around it

T = TypeVar("T")
LONGEST_ERROR = 8000  # characters of what a caller is told of an error
LARGEST_PASSED = 2 * 1024 * 1024  # bytes of another server's answer with its images; its text is bounded as any
LARGEST_MANAGED = 10 * 1024 * 1024  # of an answer to who manages agents and is none itself: whole timelines are read
OFF_LOOP = 64 * 1024  # bytes of another server's answer; more is encoded in a thread
BROKEN = "It failed: something is wrong with the tool. Whoever runs this gateway finds it in the log."
CHANGED = "It was not done: what it reads has changed since. People are asked again."
OUTDATED = "It failed: there is no such tool for this agent any more, or it takes something else by now."
LARGEST_LOOK = 64 * 1024  # bytes of arguments that are looked into for a hint
LONGEST_NAME, MOST_UNKNOWN, MOST_FIELDS, MOST_VALUES = 60, 3, 40, 20
_OUTCOMES: tuple[tuple[type[GatepostError], str], ...] = (  # the first that fits
    (Unavailable, "It failed: something that it needs does not answer at the moment."),
    (Unsupported, "It failed: that cannot be done there."),
    (NotFound, "It failed: something that it is about is not there any more."),
    (Invalid, "It failed: it was not asked for in a way that works."),
    (Refused, "It failed: the agent may not do that any more."),
)
_encode = msgspec.json.Encoder().encode
_AT = re.compile(r"at `\$\.(\w+)")
_read_object = msgspec.json.Decoder(dict[str, Any]).decode


class ToolAnswer(msgspec.Struct, frozen=True):
    """The outcome of a call. `code`: it is no call at all, a JSON-RPC error with this number."""

    text: str
    structured: bytes | None = None  # JSON
    failed: bool = False
    code: int = 0
    content: bytes | None = None  # JSON: the content blocks, where they are more than the text
    outcome: str = ""  # of one that failed: a sentence for people, with nothing of the call in it


async def make_answer(tool: Tool, call: ToolCall, result: object) -> ToolAnswer:
    """Return the result as it goes to the caller, if it is not too large. A result that is certainly too large is not
    even encoded."""
    most = LARGEST_ANSWER if call.caller.session_id is not None else LARGEST_MANAGED
    if isinstance(result, ForwardedResult):
        size = weight(result, LARGEST_PASSED)
        if size > LARGEST_PASSED or weight(result.text, most) > most or weight(result.structured, most) > most:
            return _too_large(tool, LARGEST_PASSED if size > LARGEST_PASSED else most)
        answer = await call.in_thread(_passed, result) if size > OFF_LOOP else _passed(result)
        return answer if len(answer.content or b"") <= LARGEST_PASSED else _too_large(tool, LARGEST_PASSED)
    if not tool.structured:
        text = str(result)
        return ToolAnswer(text) if len(text) <= most and len(text.encode()) <= most else _too_large(tool, most)
    if not tool.listing.is_flat and weight(result, most) > most:
        return _too_large(tool, most)
    structured = _encode(result)
    return ToolAnswer(structured.decode(), structured) if len(structured) <= most else _too_large(tool, most)


def _passed(result: ForwardedResult) -> ToolAnswer:
    structured = None if result.structured is None else _encode(result.structured)
    return ToolAnswer(result.text, structured, result.failed, content=_encode(result.content))


def _too_large(tool: Tool, most: int) -> ToolAnswer:
    done = "" if tool.read_only else " The call itself was made."
    why = f"{tool.name}: the answer has more than {most} bytes, which is the most that one may have.{done}"
    outcome = "" if tool.read_only else "It was done, but its answer was too long for the agent."
    again = "Ask for less: a lower limit, a shorter time, one thing at a time."
    return ToolAnswer(f"{why} {again}", failed=True, outcome=outcome)


def make_failure(error: GatepostError) -> ToolAnswer:
    outcome = next((words for kind, words in _OUTCOMES if isinstance(error, kind)), "")
    return ToolAnswer(shorten(str(error)), failed=True, outcome=outcome)


def shorten(text: str) -> str:
    return text if len(text) <= LONGEST_ERROR else f"{text[:LONGEST_ERROR]} […]"


def size_of(*values: object) -> int:
    """Bytes as JSON, with the comma behind each."""
    return sum(len(_encode(value)) + 1 for value in values)


def fitting(items: Iterable[T], most: int = LISTED) -> tuple[list[T], bool]:
    """The first items that have at most so many bytes together, and whether others were left out."""
    taken: list[T] = []
    for item in items:
        most -= size_of(item)
        if most < 0:
            return taken, True
        taken.append(item)
    return taken, False


def shortened(text: str, length: int, fits: Callable[[str], bool]) -> str:
    """The text if it is whole (it has `length` characters) and fits, else so much of it as does, with its length."""
    if len(text) == length and fits(text):
        return text
    keep = len(text)
    while keep and not fits(cut(text, keep, length)):
        keep = keep * 3 // 4
    return cut(text, keep, length)


def cut(text: str, keep: int, length: int) -> str:
    return f"{text[:keep]} […] (cut: the first {keep} of {length} characters)"


def weight(value: object, most: int) -> int:
    """About how many bytes a value has as JSON, never more than it has. Not counted on once it is beyond `most`, so
    that nothing large is encoded only to be refused."""
    total, values = 0, [value]
    for each in values:  # it grows meanwhile
        if each is None:
            continue
        if isinstance(each, str):
            total += len(each) + 2
        elif isinstance(each, int):
            total += each.bit_length() // 4
        elif isinstance(each, msgspec.Struct):
            values += msgspec.structs.astuple(each)
        elif isinstance(each, bytes):
            total += len(each) + 2
        elif isinstance(each, (dict, list, tuple, set, frozenset)):
            total += len(each)
            if total <= most:
                values += each
                values += each.values() if isinstance(each, dict) else ()
        elif is_dataclass(each) and not isinstance(each, type):
            values += [getattr(each, field.name) for field in fields(each)]
        if total > most:
            break
    return total


def suggest_arguments(tool: Tool, raw: bytes, error: str) -> str:
    """Return a hint for a model whose call did not fit: the fields that the tool takes, and what was probably meant."""
    schema = tool.listed["inputSchema"]
    properties: Mapping[str, Any] = schema.get("properties", {})
    required: Collection[str] = schema.get("required", ())
    hints = [_suggest_name(name, list(properties)) for name in _list_unknown(raw, properties)]
    if (found := _AT.search(error)) is not None and (values := _list_values(schema, found[1])):
        hints.append(f"{found[1]} is one of {', '.join(values)}.")
    fields = [name if name in required else f"{name} (optional)" for name in list(properties)[:MOST_FIELDS]]
    hints.append(f"{tool.name} takes {', '.join(fields)}." if fields else f"{tool.name} takes no arguments.")
    return " ".join(hint for hint in hints if hint)


def _list_unknown(raw: bytes, properties: Collection[str]) -> list[str]:
    try:
        given = _read_object(raw) if len(raw) <= LARGEST_LOOK else {}
    except (ValueError, RecursionError):
        return []
    return [name for name in given if name not in properties][:MOST_UNKNOWN]


def _suggest_name(name: str, known: Sequence[str]) -> str:
    by_letters = {each.replace("_", "").lower(): each for each in known}
    close = get_close_matches(name[:LONGEST_NAME].replace("_", "").lower(), by_letters, n=1)
    return f"`{name[:LONGEST_NAME]}`: did you mean {by_letters[close[0]]}?" if close else ""


def _list_values(schema: Mapping[str, Any], name: str) -> list[str]:
    field = schema.get("properties", {}).get(name, {})
    if "$ref" in field:
        field = schema.get("$defs", {}).get(field["$ref"].rsplit("/", 1)[-1], {})
    return [str(value) for value in field.get("enum", ())][:MOST_VALUES]
