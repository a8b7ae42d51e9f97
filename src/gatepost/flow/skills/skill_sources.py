"""The sources of skills: a folder, a zip file or a git repository, each read within bounds.

An origin is `PLACE`, `PLACE#FOLDER` or `URL@REF#FOLDER`, so that the same skill can be read again. A repository is
cloned without hooks, templates, links and submodules into a folder of ours, which is removed afterwards.
"""

import asyncio
import os
import shutil
import signal
import stat
import tempfile
import zipfile
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from urllib.parse import unquote
from zlib import error as ZlibError

from msgspec import Struct

from gatepost.core.errors import GatepostError, Invalid, NotFound, Unavailable
from gatepost.core.files.untrusted_files import is_larger, open_untrusted
from gatepost.core.home import Home
from gatepost.core.late_pattern import late_pattern
from gatepost.flow.skills.skill_card import ReadSkill, describe_skill
from gatepost.flow.skills.skill_files import (
    LARGEST,
    LEFT_OUT,
    LONGEST_PATH,
    MOST_ENTRIES,
    MOST_FOUND,
    FolderReader,
    SkillFile,
    SkillReader,
    find_skill_folders,
    read_tree,
)
from gatepost.messages.text import clean
from gatepost.store.sessions.skills import SkillSource

LONGEST_ORIGIN = 500  # characters
LARGEST_ZIP, LARGEST_CLONE = 64 * 1024 * 1024, 256 * 1024 * 1024  # bytes
LARGEST_SOURCE = 64 * 1024 * 1024  # bytes of all skills of one place, unpacked
CLONE_S, LOOK_S = 120.0, 0.5
ARCHIVES = (".zip", ".skill")
PASSED_ON = ("SSL_CERT_FILE", "SSL_CERT_DIR", "HTTPS_PROXY", "https_proxy", "NO_PROXY", "no_proxy")  # to git
_REF = late_pattern(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,199}\Z")
_URL = late_pattern(
    r"(https://[A-Za-z0-9.-]{1,253}(?::[0-9]{1,5})?/[^\s@#]{1,400}|file:///[^\s@#]{1,400})"
    r"(?:@([^\s@#]{1,200}))?(?:#([^\s#]{0,300}))?\Z"
)
_SCHEME = late_pattern(r"[A-Za-z][A-Za-z0-9+.-]*://|git@")
_GIT = (
    *("git", "-c", "core.hooksPath=/dev/null", "-c", "core.symlinks=false", "-c", "core.fsmonitor=false"),
    *("-c", "protocol.allow=never", "-c", "protocol.https.allow=always", "-c", "protocol.file.allow=always"),
    *("-c", "credential.helper=", "-c", "transfer.fsckObjects=true"),
)

CLONE = ("clone", "--quiet", "--depth=1", "--single-branch", "--no-tags", "--template=", "--no-recurse-submodules")


class GitAddress(Struct, frozen=True):
    """`ref`: a branch or a tag; '' is what the repository offers."""

    url: str
    ref: str = ""
    folder: str = ""


async def read_source(
    home: Home, origin: str, now: int, *, only: Collection[str] = (), name: str = ""
) -> list[ReadSkill]:
    """Return the skills of a place. `only`: of these names. `name`: how the only one is to be called."""
    if not origin or len(origin) > LONGEST_ORIGIN:
        raise Invalid("source", f"is empty or longer than {LONGEST_ORIGIN} characters")
    if _SCHEME.match(origin):
        found = await _read_git(home, read_address(origin), now, name)
    else:
        found = await asyncio.to_thread(_read_path, home, origin, now, name)
    chosen = [each for each in found if not only or each.name in only]
    missing = sorted({*only} - {each.name for each in chosen})
    if missing:
        there = ", ".join(each.name for each in found)
        raise NotFound("skill", missing[0][:80], f"there are: {there[:500]}")
    if name and len(chosen) > 1:
        raise Invalid("name", f"there are {len(chosen)} skills; choose one with --only")
    twice = next((each.name for at, each in enumerate(chosen) if each.name in {x.name for x in chosen[:at]}), "")
    if twice:
        raise Invalid("source", f"has two skills named {twice}; name the folder of one, behind a #")
    return chosen


def read_address(origin: str) -> GitAddress:
    found = _URL.match(origin)
    if found is None:
        raise Invalid("source", "is no https:// or file:// address of a repository without a user in it")
    url, ref, folder = found.groups()
    if ref and (not _REF.match(ref) or ".." in ref):
        raise Invalid("source", f"{ref[:80]!r} is no branch or tag")
    return GitAddress(url, ref or "", (folder or "").strip("/"))


def _read_path(home: Home, origin: str, now: int, name: str) -> list[ReadSkill]:
    """A folder or an archive on this machine; `#` and a folder in it may follow."""
    place, _, inner = (origin, "", "") if os.path.lexists(origin) else origin.partition("#")
    path = Path(place)
    if not path.is_absolute() or "\0" in place:
        raise Invalid("source", f"{place[:200]!r} is no absolute path")
    check_outside(home, path)
    if path.is_dir():
        with open_untrusted(path) as root:
            reader = FolderReader(root, inner.strip("/"))
            return _read_all(reader, SkillSource.PATH, now, place, inner.strip("/"), name, last=path.name)
    if path.is_file() and path.suffix.lower() in ARCHIVES:
        return _read_archive(path, inner.strip("/"), now, name)
    raise NotFound("source", place[:200], f"name a folder, a repository, or a file {' or '.join(ARCHIVES)}")


def check_outside(home: Home, path: Path) -> None:
    """Files that agents write are read by other ways, which follow no link of theirs."""
    real = path.resolve()
    if any(real.is_relative_to(each.resolve()) for each in (home.path, home.groups, home.sessions)):
        raise Invalid("source", "lies in the gateway's own home; a draft of an agent is named like acme/eng:NAME")


def _read_all(
    reader: SkillReader,
    source: SkillSource,
    now: int,
    origin: str,
    start: str,
    name: str,
    *,
    last: str,
    revision: str = "",
) -> list[ReadSkill]:
    """`start`: where in the place it was begun to look. `last`: the name of the place, for a skill without one."""
    paths = reader.list_paths()
    folders = find_skill_folders(paths)
    if not folders:
        raise NotFound("skill", origin[:200], "there is no SKILL.md in it")
    if len(folders) > MOST_FOUND:
        raise Invalid("source", f"has more than {MOST_FOUND} skills; name a folder of it, behind a #")
    found, left = [], LARGEST_SOURCE
    for folder in folders:
        inner = "/".join(filter(None, (start, folder)))
        whole = f"{origin}#{inner}" if inner else origin
        tree = read_tree(reader, paths, folder)
        left -= tree.size
        if left < 0:
            raise Invalid(
                "source", f"has skills of more than {LARGEST_SOURCE:,} bytes; name a folder of it, behind a #"
            )
        found.append(describe_skill(tree, inner or last, source, now, origin=whole, revision=revision, name=name))
    return found


class ZipReader:
    """Entries of an archive below one of its folders."""

    def __init__(self, archive: zipfile.ZipFile, start: str) -> None:
        begin = f"{start}/" if start else ""
        entries = archive.infolist()
        if len(entries) > MOST_ENTRIES:
            raise Invalid("source", f"holds more than {MOST_ENTRIES:,} files")
        if len({each.filename for each in entries}) < len(entries):
            raise Invalid("source", "has an entry that is in it twice")
        self._archive = archive
        self._entries: Mapping[str, zipfile.ZipInfo] = {
            each.filename.removeprefix(begin): each
            for each in entries
            if not each.is_dir() and each.filename.startswith(begin) and not LEFT_OUT & {*each.filename.split("/")}
            if not each.filename.startswith("__MACOSX/")
        }

    def list_paths(self) -> list[str]:
        for path, entry in self._entries.items():
            kind = stat.S_IFMT(entry.external_attr >> 16)
            if kind not in (0, stat.S_IFREG):
                raise Invalid(path[:200], "is a link or no plain file; skills have none")
            parts = path.split("/")
            if ".." in parts or "" in parts or "\\" in path or not path.isprintable() or len(path) > LONGEST_PATH:
                raise Invalid("source", f"has an entry {path[:80]!r}, which is no plain path")
        return [*self._entries]

    def read(self, path: str, limit: int) -> SkillFile:
        entry = self._entries[path]
        with self._archive.open(entry) as file:
            data = file.read(limit + 1)  # whatever its header says
        if len(data) > limit:
            raise Invalid(path[:200], f"the skill has more than {LARGEST:,} bytes")
        return SkillFile(path, bool((entry.external_attr >> 16) & stat.S_IXUSR), data)


def _read_archive(path: Path, inner: str, now: int, name: str) -> list[ReadSkill]:
    if path.stat().st_size > LARGEST_ZIP:
        raise Invalid("source", f"has more than {LARGEST_ZIP:,} bytes")
    try:
        with zipfile.ZipFile(path) as archive:
            reader = ZipReader(archive, inner)
            return _read_all(reader, SkillSource.ZIP, now, str(path), inner, name, last=path.stem)
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, ZlibError) as error:
        why = "is encrypted" if isinstance(error, RuntimeError) and "password" in str(error) else "is no zip file"
        raise Invalid("source", f"{why}, or is damaged") from None


async def _read_git(home: Home, address: GitAddress, now: int, name: str) -> list[ReadSkill]:
    if address.url.startswith("file://"):
        check_outside(home, Path(unquote(address.url.removeprefix("file://"))))  # as git reads it
    if shutil.which("git") is None:
        raise Unavailable("git", "it is not installed on this machine")
    folder = await asyncio.to_thread(tempfile.mkdtemp, prefix="gatepost-skill-")
    try:
        branch = ("--branch", address.ref) if address.ref else ()
        clone = Path(folder) / "clone"
        await _run_git((*CLONE, *branch, "--", address.url, str(clone)), Path(folder))
        revision = await _run_git(("-C", str(clone), "rev-parse", "HEAD"), Path(folder))
        origin = f"{address.url}@{address.ref}" if address.ref else address.url
        return await asyncio.to_thread(_read_clone, clone, address, origin, revision.strip()[:64], now, name)
    finally:
        await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)


def _read_clone(clone: Path, address: GitAddress, origin: str, revision: str, now: int, name: str) -> list[ReadSkill]:
    last = address.url.rstrip("/").rpartition("/")[2].removesuffix(".git")
    with open_untrusted(clone) as root:
        reader = FolderReader(root, address.folder)
        found = SkillSource.GIT, now, origin, address.folder, name
        return _read_all(reader, *found, last=last, revision=revision)


async def _run_git(words: Sequence[str], folder: Path) -> str:
    """Return what git prints. It is ended if it takes too long, or takes too much of the disk."""
    env = {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": str(folder),  # none of the operator's settings, keys or helpers
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ASKPASS": "true",
        "GIT_LFS_SKIP_SMUDGE": "1",
        "LC_ALL": "C",
        **{name: os.environ[name] for name in PASSED_ON if name in os.environ},
    }
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *_GIT, *words, stdin=asyncio.subprocess.DEVNULL, stdout=pipe, stderr=pipe, env=env, start_new_session=True
    )
    watch = asyncio.create_task(_watch_size(folder, process.pid))
    try:
        async with asyncio.timeout(CLONE_S):
            printed, trouble = await asyncio.gather(_read_all_of(process.stdout), _read_all_of(process.stderr))
            code = await process.wait()
    except TimeoutError:
        raise Unavailable("git", _render_bounds()) from None
    finally:
        watch.cancel()
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
    if code:
        said = clean(trouble.decode(errors="replace")).strip()[-500:]
        if code > 0 and said:
            raise Invalid("source", f"git cannot read it: {said}")
        raise Unavailable("git", _render_bounds())
    return printed.decode(errors="replace")


def _render_bounds() -> str:
    return f"it took more than {CLONE_S:g} s, or {LARGEST_CLONE >> 20} MiB"


async def _read_all_of(stream: asyncio.StreamReader | None) -> bytes:
    """The beginning of it; the rest is read and dropped."""
    kept = bytearray()
    while stream is not None and (chunk := await stream.read(64 * 1024)):
        kept += chunk[: max(0, 16 * 1024 - len(kept))]
    return bytes(kept)


async def _watch_size(folder: Path, pid: int) -> None:
    while True:
        await asyncio.sleep(LOOK_S)
        with suppress(GatepostError):
            if await asyncio.to_thread(is_larger, folder, LARGEST_CLONE):
                with suppress(ProcessLookupError):
                    os.killpg(pid, signal.SIGKILL)
                return
