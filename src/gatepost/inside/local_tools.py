"""Local tools: what a model behind an API does in its sandbox. It reads, writes and lists files, and runs commands.

A coding agent has such tools of its own. The sandbox is the wall; that files lie in the workspace is manners. An answer
is given in any case: what is wrong is said in it.
"""

import asyncio
import os
import shutil
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from gatepost.inside import forwarder, media
from gatepost.inside.mcp_client import McpTool, McpToolHints, McpToolResult
from gatepost.inside.providers.contract import ProviderContext
from gatepost.inside.task_script import run_program
from gatepost.inside.workspace_files import LARGEST

LONGEST_PART = 50_000  # characters of one answer
LONGEST_OUTPUT = 30_000  # characters of what a command prints, its beginning and its end
MOST_LISTED, MOST_LOOKED_AT = 500, 20_000  # files
USUAL_S, LONGEST_S = 60, 600
FILE_TOOLS = """\
# Your tools

You have a sandbox, a Linux machine without a screen. What you write where you start stays there. read_file (pictures, \
too), list_files, write_file and edit_file are for its files."""
SHELL_TOOL = """ run is its shell, with git, python3 and whatever else `command -v` finds. Do there what you can do \
yourself, and look at what came of it before you say that it is done."""
GATEWAY_TOOLS = """ People see none of your files before you send one with send_file. Your other tools are the \
gateway's and act in chats; find_tools, if it is among them, finds more."""
OUTSIDE = "{} is not in your workspace"

JsonObject = dict[str, Any]

_ports: dict[Path, int] = {}  # of the forwarder, by the folder of the socket


class LocalTool(msgspec.Struct, frozen=True):
    listed: McpTool
    run: Callable[[ProviderContext, JsonObject], Awaitable[McpToolResult]]


class BadArguments(Exception):
    """Return what is wrong with them, for the model."""


def list_local_tools(*, shell: bool) -> list[McpTool]:
    """Return what a model is offered. `shell`: also commands."""
    return [each.listed for name, each in LOCAL_TOOLS.items() if shell or name != RUN]


def describe_tools(*, shell: bool) -> str:
    """Return what the system prompt says of them."""
    return f"{FILE_TOOLS}{SHELL_TOOL if shell else ''}{GATEWAY_TOOLS}"


def find_local_tool(name: str, *, shell: bool) -> LocalTool | None:
    return LOCAL_TOOLS.get(name) if shell or name != RUN else None


def find_patience(name: str, arguments: JsonObject) -> float:
    """Return for how many seconds a call may be silent; 0: as long as any."""
    seconds = arguments.get("seconds", USUAL_S) if name == RUN else 0
    return float(min(seconds, LONGEST_S)) if isinstance(seconds, int) else 0.0


async def call_local_tool(tool: LocalTool, context: ProviderContext, arguments: JsonObject) -> McpToolResult:
    try:
        unknown = sorted(arguments.keys() - tool.listed.input_schema["properties"].keys())
        if unknown:
            known = ", ".join(tool.listed.input_schema["properties"])
            raise BadArguments(f"{unknown[0]}: there is no such argument; there are {known}")
        return await tool.run(context, arguments)
    except BadArguments as error:
        return McpToolResult(str(error), is_error=True)
    except OSError as error:
        return McpToolResult(f"{error.filename or 'it'}: {error.strerror or error}", is_error=True)


def _get_text(arguments: JsonObject, name: str, default: str | None = None) -> str:
    given = arguments.get(name, default)
    if not isinstance(given, str) or "\0" in given or (default is None and name not in arguments):
        raise BadArguments(f"{name}: is missing" if given is None else f"{name}: is no text")
    return given


def _get_number(arguments: JsonObject, name: str, default: int, least: int, most: int) -> int:
    given = arguments.get(name, default)
    if not isinstance(given, int) or isinstance(given, bool) or given < least:
        raise BadArguments(f"{name}: is a whole number from {least}")
    return min(given, most)


def list_roots(context: ProviderContext) -> tuple[Path, ...]:
    """Return the folders that it reads. Without walls, the skills are outside the workspace."""
    return (context.agent, context.start, context.workspace, context.skills)


def _find_path(context: ProviderContext, given: str) -> Path:
    """Return the place of a file or folder, which lies in the workspace whatever links there are."""
    path = (context.start / given).resolve()
    if not any(path.is_relative_to(root.resolve()) for root in list_roots(context)):
        raise BadArguments(OUTSIDE.format(given))
    return path


async def read_file(context: ProviderContext, arguments: JsonObject) -> McpToolResult:
    given, offset = _get_text(arguments, "path"), _get_number(arguments, "offset", 0, 0, LARGEST)
    path = _find_file(context, given)
    if (picture := _read_picture(given, path)) is not None:
        return McpToolResult(f"{given}: a picture of {len(picture)} bytes", pictures=(picture,))
    return _make_part(given, _read_text(path), offset)


def _read_picture(given: str, path: Path) -> bytes | None:
    """None: it is not a picture."""
    with path.open("rb") as file:
        head = file.read(media.HEAD)
        if (kind := media.kind_of(head)) not in media.IMAGES:
            return None
        data = head + file.read(media.LARGEST[kind])
    if len(data) > media.LARGEST[kind]:
        raise BadArguments(f"{given} is a picture of more than {media.LARGEST[kind]} bytes; make it smaller first")
    return data


def _find_file(context: ProviderContext, given: str) -> Path:
    path = _find_path(context, given)
    if not given or not path.is_file():
        raise BadArguments(f"there is no file {given}")
    return path


def _read_text(path: Path) -> str | None:
    """None: it is not text."""
    with path.open("rb") as file:
        data = file.read(LARGEST)
    return None if b"\0" in data[:8192] else data.decode(errors="replace")


def _make_part(name: str, text: str | None, offset: int) -> McpToolResult:
    if text is None:
        raise BadArguments(f"{name} is no text file")
    part = text[offset : offset + LONGEST_PART]
    left = len(text) - offset - len(part)
    return McpToolResult(
        part + (f"\n[{left} characters left; go on with offset {offset + len(part)}]" if left > 0 else "")
    )


async def write_file(context: ProviderContext, arguments: JsonObject) -> McpToolResult:
    given, text = _get_text(arguments, "path"), _get_text(arguments, "content")
    path = _find_path(context, given)
    if not given or path.is_dir():
        raise BadArguments(f"path: {given or '(empty)'} is no file")
    path.parent.mkdir(parents=True, exist_ok=True)
    size = _write_text(path, text)
    return McpToolResult(f"{given}: {size} bytes written")


def _write_text(path: Path, text: str) -> int:
    """Put the whole file in place at once: a process that ends meanwhile leaves the old one."""
    if path.exists() and not path.is_file():
        raise BadArguments(f"{path.name} is no plain file")
    data = text.encode(errors="replace")
    if len(data) > LARGEST:
        raise BadArguments(f"content: has more than {LARGEST} bytes")
    beside = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        beside.write_bytes(data)
        if path.exists():
            beside.chmod(path.stat().st_mode & 0o777)
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)
    return len(data)


async def edit_file(context: ProviderContext, arguments: JsonObject) -> McpToolResult:
    given, old, new = (_get_text(arguments, name) for name in ("path", "old", "new"))
    path = _find_file(context, given)
    if path.stat().st_size > LARGEST:
        raise BadArguments(f"{given} has more than {LARGEST} bytes")
    data = path.read_bytes()
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise BadArguments(f"{given} is no text file") from None
    count = text.count(old) if old else 0
    if count != 1 and not (count and arguments.get("all") is True):
        found = (
            f"stands there {count} times; give more of what is around it, or all" if count else "does not stand there"
        )
        raise BadArguments(f"old: {found}" if old else "old: is empty; use write_file for a new file")
    _write_text(path, text.replace(old, new))
    return McpToolResult(f"{given}: {count} replaced")


async def list_files(context: ProviderContext, arguments: JsonObject) -> McpToolResult:
    given, pattern = _get_text(arguments, "path", "."), _get_text(arguments, "pattern", "")
    folder = _find_path(context, given or ".")
    if not folder.is_dir():
        raise BadArguments(f"there is no folder {given}")
    try:
        lines = list(_list_lines(folder, pattern))
    except (ValueError, NotImplementedError) as error:
        raise BadArguments(f"pattern: {error}") from None
    shown = sorted(lines)[:MOST_LISTED]
    more = [f"[{len(lines) - len(shown)} more; name a folder or a pattern]"] if len(lines) > len(shown) else []
    return McpToolResult("\n".join([*shown, *more]) or "(nothing)")


def _list_lines(folder: Path, pattern: str) -> Iterator[str]:
    """No link is followed: a folder that holds itself is listed once."""
    if not pattern:
        with os.scandir(folder) as entries:
            for number, entry in enumerate(entries):
                if number < MOST_LOOKED_AT:
                    is_folder = entry.is_dir(follow_symlinks=False)
                    yield (
                        f"{entry.name}/" if is_folder else f"{entry.name}  {entry.stat(follow_symlinks=False).st_size}"
                    )
        return
    for number, path in enumerate(folder.glob(pattern)):
        if number >= MOST_LOOKED_AT or not path.resolve().is_relative_to(folder):
            return
        if path.is_file():
            yield f"{path.relative_to(folder)}  {path.stat().st_size}"


async def run(context: ProviderContext, arguments: JsonObject) -> McpToolResult:
    command = _get_text(arguments, "command")
    seconds = _get_number(arguments, "seconds", USUAL_S, 1, LONGEST_S)
    shell = shutil.which("bash") or "/bin/sh"
    env = {**os.environ, **await _find_way_out(context.router.parent)}
    ended = await run_program((shell, "-c", f"exec 2>&1\n{command}"), context.start, seconds, env)
    printed = ended.printed
    if len(printed) > LONGEST_OUTPUT:
        half = LONGEST_OUTPUT // 2
        printed = f"{printed[:half]}\n[{len(printed) - 2 * half} characters left out]\n{printed[-half:]}"
    said = f"[{ended.error}]" if ended.error and not ended.code else f"[exit code {ended.code}]" if ended.code else ""
    return McpToolResult(
        "\n".join(filter(None, (printed.rstrip("\n"), said))) or "(no output)", is_error=bool(ended.error)
    )


async def _find_way_out(folder: Path) -> dict[str, str]:
    """Return the variables by which programs find the way out of the sandbox. One forwarder serves all of them."""
    if not (folder / forwarder.SOCKET).exists():
        return {}
    if folder not in _ports:
        _ports[folder] = await asyncio.to_thread(forwarder.start, folder)
    return forwarder.environment(_ports[folder])


def _make_schema(required: tuple[str, ...], **properties: JsonObject) -> JsonObject:
    return {"type": "object", "properties": properties, "required": [*required], "additionalProperties": False}


PATH: JsonObject = {"type": "string", "description": "relative to where you start, or absolute"}
TEXT: JsonObject = {"type": "string"}
READS = McpToolHints(read_only_hint=True, idempotent_hint=True)
RUN = "run"
LOCAL_TOOLS = {
    each.listed.name: each
    for each in (
        LocalTool(
            McpTool(
                name="read_file",
                description="Read a text file, or look at a picture: your own, a skill's, or a message's, by the path"
                " that it names. Long files come in parts.",
                input_schema=_make_schema(
                    ("path",), path=PATH, offset={"type": "integer", "description": "first character; 0 if left out"}
                ),
                annotations=READS,
            ),
            read_file,
        ),
        LocalTool(
            McpTool(
                name="write_file",
                description="Make a text file, or replace a whole one. For a part of one use edit_file.",
                input_schema=_make_schema(("path", "content"), path=PATH, content=TEXT),
                annotations=McpToolHints(idempotent_hint=True),
            ),
            write_file,
        ),
        LocalTool(
            McpTool(
                name="edit_file",
                description="Replace a piece of a text file. `old` must stand there exactly once, unless `all`.",
                input_schema=_make_schema(
                    ("path", "old", "new"), path=PATH, old=TEXT, new=TEXT, all={"type": "boolean"}
                ),
            ),
            edit_file,
        ),
        LocalTool(
            McpTool(
                name="list_files",
                description="List a folder of your workspace, or all files that a pattern like **/*.md matches.",
                input_schema=_make_schema((), path=PATH, pattern=TEXT),
                annotations=READS,
            ),
            list_files,
        ),
        LocalTool(
            McpTool(
                name=RUN,
                description="Run a shell command where you start. You are shown what it prints and its exit code; it"
                f" ends after `seconds` ({USUAL_S}, at most {LONGEST_S}), with everything that it started.",
                input_schema=_make_schema(("command",), command=TEXT, seconds={"type": "integer"}),
            ),
            run,
        ),
    )
}
