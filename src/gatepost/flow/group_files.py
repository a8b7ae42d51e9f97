"""The files of a group, read and written for people: AGENTS.md and its skills, and whatever else its agent works with.

The agent owns its folder: no link is followed, nothing but a plain file is touched, and every amount has a cap. Names
that begin with a dot are not shown: programs keep their settings there. All of it blocks: call it in a thread.
"""

import hashlib
import os
import re
import stat
import threading
from collections.abc import Collection
from contextlib import suppress

from gatepost.core.clock import SECOND
from gatepost.core.errors import Invalid, NotFound
from gatepost.core.files.untrusted_files import UntrustedFolder, open_untrusted, render_path
from gatepost.core.home import Home
from gatepost.flow.reports import GroupFile, GroupFileText, WrittenGroupFile
from gatepost.messages.text import clean

AGENTS, SKILLS = "AGENTS.md", "skills"
# By such names the prompt, and agents' own programs in whatever folder they work, take a file for instructions. Others
# are for whoever reads.
_TOLD = re.compile(r"(?!(?:CHANGELOG|CONTRIBUTING|LICENSE|NOTES|README|TODO)\.)[A-Z]+(?:\.[a-z]+)?\.md\Z")
LARGEST_FILE = 64 * 1024  # bytes
MOST_FILES, DEEPEST = 500, 8  # below skills/, and of the rest
MOST_ENTRIES = 2000  # files and folders that one look sees
_writing = threading.Lock()  # between a look at the version and the write nobody else of us writes
LARGEST_SKILL = 100_000
_SKILL = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,62}[a-z0-9])?\Z")


def check_path(path: str) -> str:
    parts = path.split("/")
    plain = all(part and not part.startswith(".") and part.isprintable() and "\\" not in part for part in parts)
    if not plain or path == SKILLS or len(parts) > DEEPEST:
        raise Invalid("path", f"{path[:80]!r} is no place for a file here; write it like notes/a.txt")
    return path


def is_instruction(path: str) -> bool:
    """Return True for AGENTS.md and what stands in a skill: these the agent is told, the rest it works with."""
    return path == AGENTS or path.startswith(f"{SKILLS}/")


def is_inside(path: str, inner: Collection[str]) -> bool:
    """Return True if a file lies in one of these folders, or is one."""
    parts = path.split("/")
    return any("/".join(parts[:count]) in inner for count in range(1, len(parts) + 1))


def list_files(home: Home, folder: str, inner: Collection[str] = (), *, everything: bool = False) -> list[GroupFile]:
    """Return AGENTS.md and the files of the skills; `everything`: then the others. `inner`: folders of other groups.

    An entry that cannot be listed (a link, too many entries) is left out, so that an agent cannot hide the rest.
    """
    with open_untrusted(home.groups) as root:
        found = [_find_file(root, folder, AGENTS), *_walk(root, folder, SKILLS, inner)]
        if everything:
            found += _walk(root, folder, "", {*inner, AGENTS, SKILLS})
    return [each for each in found if each is not None]


def _walk(root: UntrustedFolder, folder: str, start: str, skip: Collection[str] = ()) -> list[GroupFile]:
    """The files below a place, as far as one look should go."""
    found: list[GroupFile] = []
    waiting, left = [start] if start not in skip else [], MOST_ENTRIES
    while waiting and len(found) < MOST_FILES:
        place = waiting.pop(0)
        for name in _list_names(root, f"{folder}/{place}".rstrip("/"), left):
            left -= 1
            path = f"{place}/{name}".lstrip("/")
            if path in skip or name.startswith("."):
                continue
            if _is_folder(root, f"{folder}/{path}"):
                waiting += [path] if path.count("/") < DEEPEST - 1 else []
            elif (file := _find_file(root, folder, path)) is not None:
                found.append(file)
    return sorted(found[:MOST_FILES], key=lambda each: each.path)


def _list_names(root: UntrustedFolder, place: str, most: int) -> list[str]:
    with suppress(Invalid, NotFound):
        return root.list(place, most=most) if most > 0 else []
    return []


def _is_folder(root: UntrustedFolder, place: str) -> bool:
    with suppress(Invalid, NotFound):
        return stat.S_ISDIR(root.stat(place).st_mode)
    return False


def _find_file(root: UntrustedFolder, folder: str, path: str) -> GroupFile | None:
    with suppress(Invalid, NotFound):
        found = root.stat(f"{folder}/{path}")
        if stat.S_ISREG(found.st_mode):
            return GroupFile(render_path(path), found.st_size, int(found.st_mtime * SECOND))
    return None


def read_file(home: Home, folder: str, path: str) -> GroupFileText:
    check_path(path)
    with open_untrusted(home.groups) as root:
        data = _read(root, folder, path)
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise Invalid(path, "is no text in UTF-8") from None
    return GroupFileText(folder, path, text, make_version(data))


def _read(root: UntrustedFolder, folder: str, path: str) -> bytes:
    return root.read_bytes(_check_place(root, folder, path), LARGEST_FILE)


def _check_place(root: UntrustedFolder, folder: str, path: str) -> str:
    place = f"{folder}/{path}"
    if root.stat(place).st_nlink > 1:
        raise Invalid(path, "has a second name, which may lie elsewhere")
    return place


def find_file(home: Home, folder: str, path: str) -> GroupFile:
    check_path(path)
    with open_untrusted(home.groups) as root:
        found = _find_file(root, folder, path)
    if found is None:
        raise NotFound("file", path[:80], f"`gatepost group files {folder}` lists them")
    return found


def open_file(home: Home, folder: str, path: str) -> int:
    """Return a handle on a file of any size, for who sends it on. The caller closes it."""
    check_path(path)
    with open_untrusted(home.groups) as root, root.open_file(_check_place(root, folder, path)) as file:
        return os.dup(file.fileno())


def make_version(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def write_file(home: Home, folder: str, path: str, text: str, version: str, uid: int | None) -> WrittenGroupFile:
    check_path(path)
    data = text.encode()
    if len(data) > LARGEST_FILE:
        raise Invalid("content", f"has {len(data)} bytes; a file may have {LARGEST_FILE} here")
    with _writing, open_untrusted(home.groups) as root:
        _check_version(root, folder, path, version)
        if not version:
            _check_count(root, folder)
        _put(root, folder, path, data, uid)
    return WrittenGroupFile(folder, path, make_version(data), len(data))


def give_file(home: Home, folder: str, path: str, data: bytes, uid: int | None) -> WrittenGroupFile:
    """Put a new file beside the agent's own. One that is there already is not replaced: it may be the agent's work."""
    check_path(path)
    if is_instruction(path) or _TOLD.match(path.rpartition("/")[2]):
        raise Invalid("path", f"{path[:80]} is what the agent is told; change it in its editor")
    with _writing, open_untrusted(home.groups) as root:
        if root.exists(f"{folder}/{path}"):
            raise Invalid("path", f"there is a file {path[:80]} already; give this one another name")
        _put(root, folder, path, data, uid)
    return WrittenGroupFile(folder, path, make_version(data), len(data))


def _put(root: UntrustedFolder, folder: str, path: str, data: bytes, uid: int | None) -> None:
    if "/" in path:
        place = f"{folder}/{path.rpartition('/')[0]}"
        if not root.exists(place):
            root.make_dir(place, 0o700, uid=uid)
    root.write_bytes(f"{folder}/{path}", data, mode=0o600, uid=uid)


def _check_version(root: UntrustedFolder, folder: str, path: str, version: str) -> None:
    try:
        now = make_version(_read(root, folder, path))
    except NotFound:
        now = ""
    if now == version:
        return
    if not version:
        raise Invalid("version", f"{path} is there already; read it first")
    why = "is gone" if not now else "was changed meanwhile"
    raise Invalid("version", f"{path} {why}; nothing was written. Read it again, and keep a copy of your text")


def _check_count(root: UntrustedFolder, folder: str) -> None:
    if len(_walk(root, folder, SKILLS)) >= MOST_FILES:
        raise Invalid("path", f"there are {MOST_FILES} files below {SKILLS}/ already")


def is_skill_name(name: str) -> bool:
    return _SKILL.match(name) is not None


def check_skill_name(name: str) -> str:
    if not is_skill_name(name):
        raise Invalid("name", f"{name[:80]!r}: lower-case letters, digits and hyphens, at most 64")
    return name


def check_skill(name: str, content: str) -> str:
    """Its text, if it can be one."""
    check_skill_name(name)
    text = clean(content)
    if not text.strip() or len(text) > LARGEST_SKILL:
        raise Invalid("content", f"is empty or longer than {LARGEST_SKILL} characters")
    return text
