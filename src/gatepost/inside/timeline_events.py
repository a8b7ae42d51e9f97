"""A provider's events as the timeline wants them, cut to what fits a frame. Pure."""

import math
from hashlib import sha256
from typing import Any

import msgspec

from gatepost.inside.providers import contract
from gatepost.mailbox import runner_frames

LARGEST_EVENT = 100_000  # bytes of a tool's input, or of a question's options
LONGEST_TEXT = 30_000  # characters of a tool's answer or a question; the host shows fewer, and says so
LONGEST_NAME = 60  # characters of a request's own name in the one that it has outside

TimelineSource = (
    contract.ToolUse | contract.ToolResult | contract.PermissionRequest | contract.Question | contract.UsageReport
)


def describe(event: TimelineSource) -> tuple[str, dict[str, Any]]:
    """Kind and data of a timeline event, cut to what fits a frame."""
    match event:
        case contract.ToolUse(key, tool, given, timeout):
            used = {
                "id": key[: runner_frames.LONGEST_NAME],
                "tool": tool[: runner_frames.LONGEST_NAME],
                "timeout": timeout,
            }
            return "tool_use", {**used, "input": _fit_frame(given)}
        case contract.ToolResult(key, text, error):
            return "tool_result", {"id": key[: runner_frames.LONGEST_NAME], "text": text[:LONGEST_TEXT], "error": error}
        case contract.PermissionRequest(key, tool, given):
            whole, shown = _digest(tool, given, event.kind, event.follow_up, event.next_mode), _fit_frame(given)
            about = {
                "follow_up": event.follow_up[:LONGEST_TEXT],
                "next_mode": event.next_mode[: runner_frames.LONGEST_NAME],
            }
            more = {
                "whole": whole,
                "cut": shown is not given,
                "kind": event.kind[: runner_frames.LONGEST_NAME],
                **about,
            }
            return "permission", {
                "id": _name(key, whole),
                "tool": tool[: runner_frames.LONGEST_NAME],
                "input": shown,
                **more,
            }
        case contract.Question(key, text, options):
            whole = _digest(text, options)
            asked = {"text": text[:LONGEST_TEXT], "options": _fitting_options(options), "whole": whole}
            return "question", {"id": _name(key, whole), **asked}
        case contract.UsageReport(numbers):
            return "usage", dict(plain_numbers(numbers))


def plain_numbers(numbers: dict[str, Any]) -> runner_frames.Usage:
    """Return the part of a provider's reported usage that a frame can hold. It is information; nothing is booked by
    it."""
    kept = [
        (name, value)
        for name, value in numbers.items()
        if len(name) <= runner_frames.LONGEST_NAME
        and (
            value is None
            or isinstance(value, bool)
            or (isinstance(value, float) and math.isfinite(value))
            or (isinstance(value, int) and abs(value) <= 2**53)
            or (isinstance(value, str) and len(value) <= runner_frames.LONGEST_NAME)
        )
    ]
    return dict(kept[: runner_frames.MOST_NUMBERS])


def _digest(*parts: object) -> str:
    return sha256(msgspec.json.encode(parts, order="sorted")).hexdigest()


def _name(key: str, whole: str) -> str:
    """Return what a request is called outside. A process that starts anew may give a name again: with something else
    behind it it is another one, so no answer can reach the wrong request."""
    return f"{key[:LONGEST_NAME]}~{_digest(key, whole)[:24]}"


def _fit_frame(data: dict[str, Any]) -> dict[str, Any]:
    size = len(msgspec.json.encode(data))
    return data if size <= LARGEST_EVENT else {"cut": f"{size} bytes"}


def _fitting_options(options: tuple[str, ...]) -> list[str]:
    size = len(msgspec.json.encode(options))
    return list(options) if size <= LARGEST_EVENT else [f"[{len(options)} options of {size} bytes: too many to show]"]
