"""Files of the workspace, for an agent that does not open them itself.

`read_text` and `write_text` are for a coding agent that lets its client do so. It could do that itself: it runs as the
same user behind the same walls. No link is followed, so that what is asked for is what is touched. `READ_FILE` is the
one tool that the loop brings along. Without it a model behind an API could neither read its skills nor a file that came
with a message. The sandbox is the wall; staying in here is manners.
"""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from gatepost.inside.jsonrpc_process import FAILED, INVALID, JsonRpcFailure
from gatepost.inside.mcp_client import McpTool, McpToolHints, McpToolResult
from gatepost.inside.providers.contract import ProviderContext

LARGEST = 4 * 1024 * 1024  # bytes of a file
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
LONGEST_PART = 50_000  # characters of one answer
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


class _ReadParams(msgspec.Struct, frozen=True):
    path: str
    line: int | None = None  # from 1
    limit: int | None = None  # lines


class _WriteParams(msgspec.Struct, frozen=True):
    path: str
    content: str


def read_text(place: ProviderContext, params: bytes) -> dict[str, Any]:
    asked = msgspec.json.decode(params, type=_ReadParams)
    with _opened(place, asked.path, os.O_RDONLY) as file:
        data = _read_all(file)
    text = data.decode(errors="replace")
    if asked.line is not None or asked.limit is not None:
        lines = text.splitlines(keepends=True)
        first = max((asked.line or 1) - 1, 0)
        text = "".join(lines[first:] if asked.limit is None else lines[first : first + max(asked.limit, 0)])
    return {"content": text}


def write_text(place: ProviderContext, params: bytes) -> dict[str, Any]:
    asked = msgspec.json.decode(params, type=_WriteParams)
    data = asked.content.encode(errors="replace")
    if len(data) > LARGEST:
        raise JsonRpcFailure(FAILED, f"{asked.path}: more than {LARGEST} bytes")
    with _opened(place, asked.path, os.O_WRONLY | os.O_CREAT) as file:
        os.ftruncate(file, 0)
        while data:
            data = data[os.write(file, data) :]
    return {}


def _read_all(file: int) -> bytes:
    pieces, size = [], 0
    while piece := os.read(file, 1024 * 1024):
        pieces.append(piece)
        size += len(piece)
        if size > LARGEST:
            raise JsonRpcFailure(FAILED, f"the file has more than {LARGEST} bytes")
    return b"".join(pieces)


@contextmanager
def _opened(place: ProviderContext, path: str, flags: int) -> Iterator[int]:
    """A plain file of the workspace."""
    root, parts = _inside(place, path)
    handles = []
    try:
        handles.append(os.open(root, _FOLDER))
        for part in parts[:-1]:
            handles.append(os.open(part, _FOLDER, dir_fd=handles[-1]))
        handles.append(os.open(parts[-1], flags | _FILE, 0o644, dir_fd=handles[-1]))
        if not stat.S_ISREG(os.fstat(handles[-1]).st_mode):
            raise JsonRpcFailure(FAILED, f"{path} is no plain file")
        yield handles[-1]
    except OSError as error:
        raise JsonRpcFailure(FAILED, f"{path}: {error.strerror or error}") from None
    finally:
        for handle in handles:
            os.close(handle)


def _inside(place: ProviderContext, path: str) -> tuple[Path, tuple[str, ...]]:
    """The root that it is under, and the way from there."""
    wanted = Path(path)
    for root in (place.agent, place.start, place.workspace):
        if "\0" not in path and ".." not in wanted.parts and wanted.is_relative_to(root) and wanted != root:
            return root, wanted.relative_to(root).parts
    raise JsonRpcFailure(INVALID, f"{path[:300]} is not a file of the workspace ({place.workspace}), by its whole path")


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
        return _make_part(given, _read_file_text(path), offset)
    except OSError as error:
        return McpToolResult(f"{given} cannot be read: {error.strerror}", is_error=True)


def _read_file_text(path: Path) -> str | None:
    """None: it is not text."""
    with path.open("rb") as file:
        data = file.read(LARGEST)
    return None if b"\0" in data[:8192] else data.decode(errors="replace")


def _make_part(name: str, text: str | None, offset: int) -> McpToolResult:
    if text is None:
        return McpToolResult(f"{name} is no text file", is_error=True)
    part = text[offset : offset + LONGEST_PART]
    left = len(text) - offset - len(part)
    return McpToolResult(
        part + (f"\n[{left} characters left; go on with offset {offset + len(part)}]" if left > 0 else "")
    )
