"""Files that came with a message: kept on the host under safe names, on the disk before their message is committed."""

import asyncio
import mimetypes
import os
import re
import shutil
import time
import unicodedata
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from gatepost.core import ids
from gatepost.core.errors import Unavailable
from gatepost.messages.inbound import Attachment, AttachmentKind
from gatepost.messages.text import clean
from gatepost.store.messages import messages
from gatepost.store.port import Store

LONGEST_NAME = 200  # bytes; file systems take 255
YOUNG_S = 600.0
PAGE = 2000  # messages looked through at once
_FOLDER = re.compile(r"in/(f-[0-9a-z]+)/")


class StoredAttachment(Struct, frozen=True):
    """One file; `path` is relative to the home's media folder."""

    name: str
    mime: str
    kind: AttachmentKind
    size: int
    path: str


def safe_name(given: str, mime: str = "", kind: AttachmentKind = AttachmentKind.FILE) -> str:
    """Return the base name without anything that a path, a shell or a screen would read as more than a name."""
    base = unicodedata.normalize("NFC", clean(given)).replace("\\", "/").rpartition("/")[2]
    base = "".join(char for char in base if unicodedata.category(char)[0] != "C").lstrip(". ").rstrip()
    if not base:
        base = kind + (mimetypes.guess_extension(mime) or "")
    return _shorten(base, "")


def _shorten(name: str, mark: str) -> str:
    """Return the name with a mark before its ending, cut so that it fits."""
    stem, ending = os.path.splitext(name)
    if len(ending.encode()) > 20:
        stem, ending = name, ""
    room = LONGEST_NAME - len((mark + ending).encode())
    return stem.encode()[:room].decode(errors="ignore") + mark + ending


def make_safe_names(attachments: Sequence[Attachment]) -> list[str]:
    """Return a safe name for each, no two alike even where upper and lower case are the same."""
    taken: set[str] = set()
    chosen: list[str] = []
    for each in attachments:
        wanted = name = safe_name(each.name, each.mime, each.kind)
        number = 2
        while name.casefold() in taken:
            name = _shorten(wanted, f"-{number}")
            number += 1
        taken.add(name.casefold())
        chosen.append(name)
    return chosen


def write_attachments(media: Path, attachments: Sequence[Attachment]) -> tuple[StoredAttachment, ...]:
    """Write them under a folder of their own; on the disk when this returns. All or none."""
    folder = f"in/{ids.new('f')}"
    kept: list[StoredAttachment] = []
    try:
        (media / folder).mkdir(mode=0o700, parents=True)
        for name, each in zip(make_safe_names(attachments), attachments, strict=True):
            _write(media / folder / name, each.data)
            kept.append(StoredAttachment(name, each.mime, each.kind, len(each.data), f"{folder}/{name}"))
        for path in (media / folder, media / "in"):
            flush_folder(path)
    except OSError as error:
        shutil.rmtree(media / folder, ignore_errors=True)
        raise Unavailable("the disk", f"the attachment could not be stored: {error.strerror}") from None
    return tuple(kept)


def remove_attachments(media: Path, kept: Sequence[StoredAttachment]) -> None:
    for folder in {each.path.rpartition("/")[0] for each in kept}:
        shutil.rmtree(media / folder, ignore_errors=True)


def remove_refused(media: Path, paths: Sequence[str]) -> None:
    """Remove the files of messages that nobody gets, by where they lie. A crash leaves orphans of them."""
    for path in paths:
        if found := _FOLDER.match(path):
            shutil.rmtree(media / "in" / found[1], ignore_errors=True)


async def remove_orphans(store: Store, media: Path) -> int:
    """Remove the folders that no message names: a crash between the disk and the commit leaves one. How many."""
    left = await asyncio.to_thread(_old_folders, media / "in")
    after = 0
    while left and (page := await store.read(messages.list_contents, after, PAGE)):
        after = page[-1][0]
        for _, content in page:
            left.difference_update(_FOLDER.findall(content))
    for name in left:
        await asyncio.to_thread(shutil.rmtree, media / "in" / name, ignore_errors=True)
    return len(left)


def _old_folders(place: Path) -> set[str]:
    """A young one may still be on its way to its message."""
    if not place.is_dir():
        return set()
    before = time.time() - YOUNG_S
    return {
        each.name for each in place.iterdir() if _FOLDER.match(f"in/{each.name}/") and each.stat().st_mtime < before
    }


def open_new(path: Path) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)


def _write(path: Path, data: bytes) -> None:
    handle = open_new(path)
    with os.fdopen(handle, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(handle)


def flush_folder(folder: Path) -> None:
    """A new name is safe only once its folder is on the disk."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
