"""The one tool that the loop brings along: reading text files of the workspace. Without it a model behind an API could
neither read its skills nor a file that came with a message. The sandbox is the wall; staying in here is manners.
"""

from pathlib import Path
from typing import Any

from gatepost.inside.mcp_client import McpTool, McpToolHints, McpToolResult
from gatepost.inside.providers.contract import ProviderContext

LARGEST = 50_000  # characters of one answer
BYTES = 4 * 1024 * 1024  # of a file that is looked at
READ_FILE = McpTool(
    name="read_file",
    description="Read a text file of your workspace: your own folder, such as skills/NAME/SKILL.md, or a file that came"
    " with a message, by the path that the message names. Long files come in parts: go on with offset.",
    input_schema={
        "type": "object",
        "properties": {
            "path": {"type": "string", "description": "relative to where you start, or absolute"},
            "offset": {"type": "integer", "minimum": 0, "description": "the first character to read; 0 if left out"},
        },
        "required": ["path"],
        "additionalProperties": False,
    },
    annotations=McpToolHints(read_only_hint=True, idempotent_hint=True),
)


def read_file(place: ProviderContext, arguments: dict[str, Any]) -> McpToolResult:
    """An answer in any case; what is wrong is said in it."""
    given, offset = arguments.get("path"), arguments.get("offset", 0)
    if not isinstance(given, str) or not given or "\0" in given:
        return McpToolResult("path: is missing", is_error=True)
    if not isinstance(offset, int) or offset < 0:
        return McpToolResult("offset: is a whole number from 0", is_error=True)
    try:
        path = (place.start / given).resolve()
        if not any(path.is_relative_to(root.resolve()) for root in (place.agent, place.start, place.workspace)):
            return McpToolResult(f"{given} is not in your workspace", is_error=True)
        if not path.is_file():
            return McpToolResult(f"there is no file {given}", is_error=True)
        return _part(given, _text(path), offset)
    except OSError as error:
        return McpToolResult(f"{given} cannot be read: {error.strerror}", is_error=True)


def _text(path: Path) -> str | None:
    """None: it is not text."""
    with path.open("rb") as file:
        data = file.read(BYTES)
    return None if b"\0" in data[:8192] else data.decode(errors="replace")


def _part(name: str, text: str | None, offset: int) -> McpToolResult:
    if text is None:
        return McpToolResult(f"{name} is no text file", is_error=True)
    part = text[offset : offset + LARGEST]
    left = len(text) - offset - len(part)
    return McpToolResult(
        part + (f"\n[{left} characters left; go on with offset {offset + len(part)}]" if left > 0 else "")
    )
