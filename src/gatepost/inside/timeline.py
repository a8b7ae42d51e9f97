"""A provider's events as the timeline wants them, cut to what fits a frame. Pure."""

from typing import Any

import msgspec

from gatepost.inside.providers import contract

LARGEST_EVENT = 100_000  # bytes of a tool's input, characters of its answer

Noted = contract.ToolUse | contract.ToolResult | contract.Permission | contract.Question | contract.Usage


def describe(event: Noted) -> tuple[str, dict[str, Any]]:
    """Kind and data of a timeline event, cut to what fits a frame."""
    match event:
        case contract.ToolUse(key, tool, given, timeout):
            return "tool_use", {"id": key, "tool": tool, "input": _fitting(given), "timeout": timeout}
        case contract.ToolResult(key, text, error):
            return "tool_result", {"id": key, "text": text[:LARGEST_EVENT], "error": error}
        case contract.Permission(key, tool, given):
            about = {"kind": event.kind, "follow_up": event.follow_up[:LARGEST_EVENT], "next_mode": event.next_mode}
            return "permission", {"id": key, "tool": tool, "input": _fitting(given), **about}
        case contract.Question(key, text, options):
            return "question", {"id": key, "text": text[:LARGEST_EVENT], "options": list(options)}
        case contract.Usage(numbers):
            return "usage", numbers


def _fitting(data: dict[str, Any]) -> dict[str, Any]:
    size = len(msgspec.json.encode(data))
    return data if size <= LARGEST_EVENT else {"cut": f"{size} bytes"}
