"""A provider's events as the timeline wants them, cut to what fits a frame. Pure."""

from hashlib import sha256
from typing import Any

import msgspec

from gatepost.inside.providers import contract

LARGEST_EVENT = 100_000  # bytes of a tool's input, characters of its answer
LONGEST_NAME = 60  # characters of a request's own name in the one that it has outside

Noted = contract.ToolUse | contract.ToolResult | contract.Permission | contract.Question | contract.Usage


def describe(event: Noted) -> tuple[str, dict[str, Any]]:
    """Kind and data of a timeline event, cut to what fits a frame."""
    match event:
        case contract.ToolUse(key, tool, given, timeout):
            return "tool_use", {"id": key, "tool": tool, "input": _fitting(given), "timeout": timeout}
        case contract.ToolResult(key, text, error):
            return "tool_result", {"id": key, "text": text[:LARGEST_EVENT], "error": error}
        case contract.Permission(key, tool, given):
            whole, shown = _digest(tool, given, event.kind, event.follow_up, event.next_mode), _fitting(given)
            about = {"kind": event.kind, "follow_up": event.follow_up[:LARGEST_EVENT], "next_mode": event.next_mode}
            more = {"whole": whole, "cut": shown is not given, **about}
            return "permission", {"id": _name(key, whole), "tool": tool, "input": shown, **more}
        case contract.Question(key, text, options):
            whole = _digest(text, options)
            asked = {"text": text[:LARGEST_EVENT], "options": list(options), "whole": whole}
            return "question", {"id": _name(key, whole), **asked}
        case contract.Usage(numbers):
            return "usage", numbers


def _digest(*parts: object) -> str:
    return sha256(msgspec.json.encode(parts, order="sorted")).hexdigest()


def _name(key: str, whole: str) -> str:
    """What a request is called outside. A process that starts anew may give a name again: with something else behind it
    it is another one, so no answer can reach the wrong request."""
    return f"{key[:LONGEST_NAME]}~{_digest(key, whole)[:24]}"


def _fitting(data: dict[str, Any]) -> dict[str, Any]:
    size = len(msgspec.json.encode(data))
    return data if size <= LARGEST_EVENT else {"cut": f"{size} bytes"}
