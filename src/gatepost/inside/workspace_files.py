"""Files of the workspace, for an agent that does not open them itself.

`read_text` and `write_text` are for a coding agent that lets its client do so. It could do that itself: it runs as the
same user behind the same walls. No link is followed, so that what is asked for is what is touched.
"""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from gatepost.inside.jsonrpc_process import FAILED, INVALID, JsonRpcFailure
from gatepost.inside.providers.contract import ProviderContext

LARGEST = 4 * 1024 * 1024  # bytes of a file
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


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
    for root in (place.agent, place.start, place.workspace, place.skills):
        if "\0" not in path and ".." not in wanted.parts and wanted.is_relative_to(root) and wanted != root:
            return root, wanted.relative_to(root).parts
    raise JsonRpcFailure(INVALID, f"{path[:300]} is not a file of the workspace ({place.workspace}), by its whole path")
