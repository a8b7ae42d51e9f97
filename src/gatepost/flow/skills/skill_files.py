"""The files of a skill as one value: read within bounds, named by a digest, and packed for the store.

No link is followed, and none is taken: a skill is plain files. Reading blocks, so call it in a thread.
"""

import hashlib
import re
import stat
import zlib
from collections.abc import Collection, Iterator, Sequence
from typing import Protocol

import msgspec
from msgspec import Struct

from gatepost.core.errors import Invalid, NotFound
from gatepost.core.files.untrusted_files import UntrustedFolder
from gatepost.flow.group_files import LARGEST_SKILL, is_skill_name

MAIN = "SKILL.md"
MOST_FILES, LARGEST, DEEPEST, LONGEST_PATH = 500, 8 * 1024 * 1024, 8, 300  # of one skill; the size in bytes
MOST_ENTRIES = 20_000  # that one look for skills sees
MOST_IN_DRAFT = 2 * MOST_FILES  # files and folders of what an agent may be filling just now
MOST_FOUND = 200  # skills of one source
LEFT_OUT = frozenset({".git", "__pycache__", ".DS_Store", "node_modules"})
_WORDS = re.compile(r"[^a-z0-9]+")


class SkillFile(Struct, frozen=True):
    path: str
    executable: bool
    data: bytes


class SkillTree(Struct, frozen=True):
    """All files of a skill, by their paths. SKILL.md is among them."""

    files: tuple[SkillFile, ...]

    @property
    def size(self) -> int:
        return sum(len(each.data) for each in self.files)

    @property
    def digest(self) -> str:
        whole = hashlib.sha256()
        for each in self.files:
            whole.update(f"{each.path!r} {int(each.executable)} {len(each.data)} ".encode() + each.data)
        return whole.hexdigest()

    @property
    def main_text(self) -> str:
        return next(each.data for each in self.files if each.path == MAIN).decode(errors="replace")

    def find(self, path: str) -> bytes | None:
        return next((each.data for each in self.files if each.path == path), None)

    def put(self, path: str, data: bytes) -> "SkillTree":
        """Return a tree with another content of one file. Executable files stay so."""
        executable = any(each.executable for each in self.files if each.path == path)
        others = [each for each in self.files if each.path != path]
        return make_tree([*others, SkillFile(path, executable, data)])


def make_tree(files: Sequence[SkillFile]) -> SkillTree:
    """Raises Invalid if it is no skill, or beyond its bounds."""
    tree = SkillTree(tuple(sorted(files, key=lambda each: each.path)))
    main = tree.find(MAIN)
    if main is None:
        raise Invalid(MAIN, "is missing; a skill is a folder with that file")
    if not main.strip() or b"\0" in main or len(main) > 4 * LARGEST_SKILL:
        raise Invalid(MAIN, f"is empty, no text, or larger than {4 * LARGEST_SKILL:,} bytes")
    if len(tree.files) > MOST_FILES or tree.size > LARGEST:
        raise Invalid("skill", f"has more than {MOST_FILES} files or {LARGEST:,} bytes")
    for each in tree.files:
        check_inner_path(each.path)
    return tree


def check_inner_path(path: str) -> str:
    parts = path.split("/")
    plain = all(part not in ("", ".", "..") and part.isprintable() and "\\" not in part for part in parts)
    if not plain or len(parts) > DEEPEST or len(path) > LONGEST_PATH:
        raise Invalid("path", f"{path[:80]!r} is no plain path of at most {DEEPEST} parts")
    return path


def pack_tree(tree: SkillTree) -> bytes:
    return zlib.compress(msgspec.msgpack.encode(tree.files))


def unpack_tree(pack: bytes) -> SkillTree:
    """From the store, where only what passed the bounds is."""
    inflate = zlib.decompressobj()
    raw = inflate.decompress(pack, 2 * LARGEST)
    return SkillTree(msgspec.msgpack.decode(raw, type=tuple[SkillFile, ...]))


class SkillReader(Protocol):
    """A place with skills in it: a folder, or an archive."""

    def list_paths(self) -> list[str]:
        """The plain files, by their paths. Raises Invalid for too many."""
        ...

    def read(self, path: str, limit: int) -> SkillFile: ...


class FolderReader:
    """A folder that somebody may be writing to. `lenient`: links and special files are left out, else refused."""

    def __init__(
        self, root: UntrustedFolder, place: str = "", *, lenient: bool = False, most: int = MOST_ENTRIES
    ) -> None:
        self._root, self._place, self._lenient, self._most = root, place, lenient, most
        self.size = 0  # of the files that were listed, in bytes

    def list_paths(self) -> list[str]:
        found: list[str] = []
        waiting, left = [""], self._most
        while waiting:
            below = waiting.pop()
            for name in self._root.list(self._join(below), most=max(left, 1)):
                left -= 1
                if left < 0:
                    raise Invalid("source", f"holds more than {self._most:,} files and folders")
                path = f"{below}/{name}".lstrip("/")
                if name in LEFT_OUT:
                    continue
                status = self._root.stat(self._join(path))
                kind = status.st_mode
                if stat.S_ISDIR(kind):
                    waiting += [path] if path.count("/") < 2 * DEEPEST else []
                elif stat.S_ISREG(kind):
                    found.append(path)
                    self.size += status.st_size
                elif not self._lenient:
                    raise Invalid(path[:LONGEST_PATH], "is a link or no plain file; skills have none")
        return found

    def read(self, path: str, limit: int) -> SkillFile:
        place = self._join(path)
        executable = bool(self._root.stat(place).st_mode & stat.S_IXUSR)
        return SkillFile(path, executable, self._root.read_bytes(place, limit))

    def _join(self, path: str) -> str:
        return f"{self._place}/{path}".strip("/")


def find_skill_folders(paths: Collection[str]) -> list[str]:
    """Return the folders that are skills, '' for the place itself. Every file in a skill belongs to it."""
    tops = {path.rpartition("/")[0] for path in paths if _is_main(path.rpartition("/")[2])}
    if "" in tops:
        return [""]
    return sorted(each for each in tops if not tops & {*_list_above(each)})


def _list_above(folder: str) -> Iterator[str]:
    while "/" in folder:
        folder = folder.rpartition("/")[0]
        yield folder


def _is_main(name: str) -> bool:
    return name.lower() == MAIN.lower()


def read_tree(reader: SkillReader, paths: Collection[str], folder: str) -> SkillTree:
    """Read the skill in a folder of a place, within bounds. `skill.md` becomes SKILL.md."""
    start = f"{folder}/" if folder else ""
    inside = [path for path in paths if path.startswith(start)]
    if len(inside) > MOST_FILES:
        raise Invalid(folder or "skill", f"has more than {MOST_FILES} files")
    files: list[SkillFile] = []
    left = LARGEST
    for path in inside:
        inner = path.removeprefix(start)
        found = reader.read(path, left)
        left -= len(found.data)
        if _is_main(inner) and inner != MAIN:
            inner = inner if f"{start}{MAIN}" in inside else MAIN
        files.append(SkillFile(inner, found.executable, found.data))
    return make_tree(files)


def read_draft(root: UntrustedFolder, place: str, *, lenient: bool = False) -> SkillTree:
    """Read the skill that lies at a place of an agent's folder. Too much is seen before a byte is read."""
    reader = FolderReader(root, place, lenient=lenient, most=MOST_IN_DRAFT)
    try:
        paths = reader.list_paths()
    except NotFound:
        raise NotFound("skill", place[:LONGEST_PATH], "there is no such folder") from None
    if reader.size > LARGEST:
        raise Invalid("skill", f"has more than {LARGEST:,} bytes")
    if not any(_is_main(path) for path in paths):
        raise NotFound("skill", place[:LONGEST_PATH], "its folder has no SKILL.md")
    return read_tree(reader, paths, "")


def make_name(said: str, folder: str) -> str:
    """Return the name of a skill: as its front matter says, else that of its folder. Raises Invalid for neither."""
    for each in (said, folder.rpartition("/")[2]):
        name = _WORDS.sub("-", each.lower()).strip("-")[:64].strip("-")
        if is_skill_name(name):
            return name
    raise Invalid("name", f"{said[:80]!r}: lower-case letters, digits and hyphens, at most 64; give one with --name")
