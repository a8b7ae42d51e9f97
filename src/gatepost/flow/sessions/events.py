"""What a runner tells of its agent's doings, as entries of the timeline. Pure; cut to what somebody would read."""

from typing import Any

from gatepost.mailbox import wire
from gatepost.messages.text import clean

LONGEST = 20_000  # characters of one text in an entry
LONGEST_NAME = 200
DEEPEST = 8


def timeline_of(event: wire.Event) -> tuple[str, dict[str, Any]] | None:
    """(kind, data); None for what is of no interest here. A tool call is told twice, under one id."""
    data = event.data
    if event.kind == "tool_use":
        return "tool_call", {
            "callId": _name(data.get("id")),
            "name": _name(data.get("tool")),
            "status": "running",
            "input": plain(data.get("input")),
        }
    if event.kind == "tool_result":
        failed = bool(data.get("error"))
        return "tool_call", {
            "callId": _name(data.get("id")),
            "status": "failed" if failed else "completed",
            "output": plain(data.get("text")),
        }
    return None


def plain(value: Any, depth: int = 0) -> Any:
    """What came from inside, cleaned and within bounds."""
    if isinstance(value, str):
        return clean(value)[:LONGEST]
    if isinstance(value, dict):
        kept = list(value.items())[:100] if depth < DEEPEST else []
        return {_name(key): plain(each, depth + 1) for key, each in kept}
    if isinstance(value, list):
        return [plain(each, depth + 1) for each in value[:100]] if depth < DEEPEST else []
    return value if isinstance(value, int | float | bool) or value is None else _name(value)


def _name(value: object) -> str:
    return clean(str(value))[:LONGEST_NAME]
