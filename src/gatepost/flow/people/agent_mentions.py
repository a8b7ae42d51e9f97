"""Files that agents wrote and that name a person. The gateway does not change them: it says which they are."""

import re
import stat
from collections.abc import Iterable, Iterator

from gatepost.core.errors import GatepostError
from gatepost.core.home import Home
from gatepost.core.untrusted_files import UntrustedFolder, open_untrusted

MOST_FILES, LARGEST_FILE, DEEPEST = 20_000, 1024 * 1024, 16  # an agent chooses how many and how large they are
MOST_FOUND = 20


def find_mentions(home: Home, words: Iterable[str]) -> tuple[list[str], bool]:
    """Paths below the home's `groups/` of files that hold one of the words, or are named by one; and whether every file
    was looked at. Takes a while: for a thread."""
    escaped = [re.escape(each.encode()) for each in words if each]
    if not escaped:
        return [], True
    wanted = re.compile(rb"(?<!\w)(?:" + b"|".join(escaped) + rb")(?!\w)")
    try:
        groups = open_untrusted(home.groups)
    except GatepostError:  # a home without groups
        return [], True
    found: list[str] = []
    looked, whole = 0, True
    with groups as root:
        for path, size in _walk(root, "", 0):
            looked += 1
            if looked > MOST_FILES or len(found) >= MOST_FOUND:
                return found, False
            whole = whole and 0 <= size <= LARGEST_FILE
            if wanted.search(path.encode(errors="replace")) or wanted.search(_read(root, path, size)):
                found.append(f"groups/{path}")
    return found, whole


def _walk(root: UntrustedFolder, folder: str, depth: int) -> Iterator[tuple[str, int]]:
    """(path, size) of every regular file; the size is -1 where something cannot be looked into."""
    try:
        names = root.list(folder)
    except GatepostError:
        yield folder, -1
        return
    for name in names:
        path = f"{folder}/{name}" if folder else name
        try:
            here = root.stat(path)
        except GatepostError:
            continue
        if stat.S_ISREG(here.st_mode):
            yield path, here.st_size
        elif stat.S_ISDIR(here.st_mode) and depth < DEEPEST:
            yield from _walk(root, path, depth + 1)
        elif stat.S_ISDIR(here.st_mode):
            yield path, -1


def _read(root: UntrustedFolder, path: str, size: int) -> bytes:
    if not 0 < size <= LARGEST_FILE:
        return b""
    try:
        return root.read_bytes(path, LARGEST_FILE)
    except GatepostError:
        return b""
