"""MEMORY.md on the disk of this gateway: read, compared with what is remembered, and written anew.

A group has the file once somebody asked for it. It is written when a person agrees to its changes and before its agent
wakes, never while somebody else has changed it meanwhile. A file of that name that nobody asked for is left alone.
"""

import asyncio
import hashlib
import threading
from collections.abc import Awaitable, Callable
from typing import Any

from msgspec import Struct

from gatepost.core import log
from gatepost.core.clock import Clock
from gatepost.core.errors import GatepostError, Invalid, NotFound
from gatepost.core.files.untrusted_files import UntrustedFolder, open_untrusted
from gatepost.core.home import Home
from gatepost.flow.gateways.folder_check import is_here
from gatepost.flow.memory.view_text import (
    MOST_SHOWN,
    VIEW,
    ViewChanges,
    ViewLine,
    WrittenView,
    find_changes,
    parse_view,
    render_changes,
    render_conflicts,
    render_entry,
    render_view,
    split_line,
)
from gatepost.store.memory import memory_views
from gatepost.store.memory.memory_views import WrittenLines
from gatepost.store.port import Db, Store

FORMER = "MEMORY.old.md"  # the file that was there before, as it was
LARGEST = 256 * 1024  # bytes
OffLoop = Callable[..., Awaitable[Any]]
_writing = threading.Lock()  # between a look at the digest and the write nobody else of us writes
_log = log.get("memory")


class ComparedView(Struct, frozen=True, kw_only=True):
    """A file, and its difference from what is remembered. `digest`: of its bytes, '' if there is none. `seen`: of these
    with what they come to now; whoever agrees has seen that. `written`: its lines when it was written last; None:
    nobody asked for it, and all that is in it would be added."""

    digest: str
    seen: str
    written: WrittenLines | None
    changes: ViewChanges
    fresh: WrittenView  # what the file would say if nobody agreed to anything
    bare: WrittenView  # and if nobody wished for anything, either


async def compare_view(
    store: Store, home: Home, folder: str, now: int, off_loop: OffLoop = asyncio.to_thread
) -> ComparedView:
    """Raises Invalid if the file cannot be read as lines."""
    data: bytes | None = await off_loop(read_view, home, folder)
    lines: list[ViewLine] = await off_loop(_parse, data or b"")

    def read(db: Db) -> tuple[WrittenLines | None, ViewChanges, list[Any]]:
        written = memory_views.get_lines(db, folder)
        named = {each.number for each in lines if each.number} | (written or {}).keys()
        known = memory_views.list_same(db, folder, [split_line(each.text)[1] for each in lines], now)
        rows = memory_views.find_wide(db, folder, named)
        last = (written or {}) if data is not None and data.strip() else {}  # an empty file forgets nothing
        found = find_changes(lines, last, rows, map(render_entry, known), now)
        return written, found, memory_views.list_wide(db, folder, now, MOST_SHOWN)

    written, changes, entries = await store.read(read)
    digest = make_file_digest(data)
    return ComparedView(
        digest=digest,
        seen=await off_loop(_make_seen, digest, changes) if digest else "",
        written=written,
        changes=changes,
        fresh=await off_loop(render_view, entries, changes),
        bare=await off_loop(render_view, entries),
    )


def _parse(data: bytes) -> list[ViewLine]:
    try:
        return parse_view(data.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise Invalid(VIEW, "is no text in UTF-8") from None


def _make_seen(digest: str, changes: ViewChanges) -> str:
    """The same bytes come to something else once an entry is over that they repeat."""
    return hashlib.sha256(
        "\n".join((digest, *render_changes(changes), *render_conflicts(changes))).encode()
    ).hexdigest()


def make_file_digest(data: bytes | None) -> str:
    return hashlib.sha256(data).hexdigest() if data is not None else ""


def read_view(home: Home, folder: str) -> bytes | None:
    """Return what is in the file; None if there is none."""
    try:
        with open_untrusted(home.groups) as root:
            return _read(root, f"{folder}/{VIEW}")
    except NotFound:
        return None


def _read(root: UntrustedFolder, place: str) -> bytes:
    if root.stat(place).st_nlink > 1:
        raise Invalid(VIEW, "has a second name, which may lie elsewhere")
    return root.read_bytes(place, LARGEST)


def write_view(home: Home, folder: str, text: str, digest: str, *, keep_former: bool = False) -> bool:
    """Write the file, if its bytes still have this digest. With `keep_former`, what is there stays beside it. Return
    False if somebody changed it meanwhile."""
    place = f"{folder}/{VIEW}"
    with _writing, open_untrusted(home.groups) as root:
        data = _read(root, place) if root.exists(place) else None
        if make_file_digest(data) != digest:
            return False
        if keep_former and data is not None:
            if root.exists(f"{folder}/{FORMER}"):
                raise Invalid(FORMER, "is there already; move it away first")
            root.write_bytes(f"{folder}/{FORMER}", data)
        if data != text.encode():
            root.write_bytes(place, text.encode())
    return True


async def renew_view(
    store: Store, home: Home, clock: Clock, folder: str, off_loop: OffLoop = asyncio.to_thread
) -> bool:
    """Write the file of a group as it is remembered now, with what somebody wishes below. Return False if the group has
    no such file, or it was left alone: an agent runs all the same, and cannot keep another one from running."""
    if await store.read(memory_views.get_lines, folder) is None:
        return False
    try:
        now = clock.now()
        found = await compare_view(store, home, folder, now, off_loop)
        if not await off_loop(write_view, home, folder, found.fresh.text, found.digest):
            return False
    except GatepostError as error:
        _log.warning("MEMORY.md was left alone", folder=folder, why=str(error))
        return False
    if found.fresh.lines != found.written:
        await store.write(_put_if_kept, folder, found.fresh.lines, now)
    return True


def _put_if_kept(db: Db, folder: str, lines: WrittenLines, now: int) -> None:
    if memory_views.get_lines(db, folder) is not None:
        memory_views.put(db, folder, lines, now)


async def renew_all(store: Store, home: Home, clock: Clock) -> None:
    """After somebody was forgotten: the files lose their words at once. Those of other gateways do when an agent
    wakes."""
    for folder in await store.read(memory_views.list_folders):
        if await is_here(store, home, folder):
            await renew_view(store, home, clock, folder)
