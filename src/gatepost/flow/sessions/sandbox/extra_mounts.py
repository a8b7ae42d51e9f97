"""Host folders that agents may see besides their own, at /workspace/extra/<name>: by the operator's allow-list alone.

A group, a provider or a channel can only wish. The setting `sandbox.mounts_allowed` says what may be seen at all, and
some things may not, whatever it says: keys, the system, this gateway's own home. No link is followed below an allowed
folder, because an agent that may write there could have made it. No entry of the list leads through a folder that
another one lets agents write to. The mounted folder is compared inside with the one that was meant.
"""

import errno
import os
import re
import stat
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path, PurePosixPath

from msgspec import Struct

from gatepost.core import error_classification
from gatepost.core.errors import GatepostError, Invalid, SetupError
from gatepost.core.files.untrusted_files import open_untrusted
from gatepost.core.home import Home, expand_user
from gatepost.core.settings import Config, setting
from gatepost.sandboxes.contract import Mount

ALLOWED = setting(
    "sandbox.mounts_allowed",
    (),
    help="Host folders of which groups, providers and channels may ask to see something: `path`, or `path:rw` if they "
    "may also write there. Empty: none.",
)
WORKSPACE = "/workspace"
EXTRA = f"{WORKSPACE}/extra"
MOST = 32  # a group's wishes
MOST_LINKS = 40  # on the way to an allowed folder

BLOCKED = (
    *(".ssh", ".gnupg", ".aws", ".azure", ".gcloud", ".kube", ".docker", ".password-store", "credentials"),
    *(".env", ".netrc", ".npmrc", ".pypirc", ".git-credentials", ".pgpass", ".vault-token", ".secret", ".secrets"),
    *("id_rsa", "id_ed25519", "id_ecdsa", "id_dsa", "private_key", "keyring.json", "docker.sock", "podman.sock"),
)
SYSTEM = ("/etc", "/proc", "/sys", "/dev", "/run", "/var/run", "/boot", "/var/lib/docker", "/var/lib/containers")
TOO_MUCH = ("/", "/home", "/Users", "/root", "/usr", "/var", "/var/lib", "/opt", "/tmp", "/var/tmp", "/private")
_NAME = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]{0,62}[A-Za-z0-9_-])?")


class MountRequest(Struct, frozen=True):
    """Something of the host that is to be seen inside; nobody has said yes to it yet."""

    source: str
    name: str
    writable: bool = False

    def __str__(self) -> str:
        return f"{self.source}:{EXTRA}/{self.name}" + (":rw" if self.writable else "")


class GrantedMount(Struct, frozen=True):
    mount: Mount
    device: int
    inode: int
    is_file: bool

    @property
    def name(self) -> str:
        return PurePosixPath(self.mount.target).name


class _AllowedFolder(Struct, frozen=True):
    entry: str
    written: Path
    way: tuple[Path, ...]  # everything that is looked at to come there, itself last; none of it leads through a link
    writable: bool

    @property
    def real(self) -> Path:
        return self.way[-1]


def parse_mount_requests(texts: Sequence[str]) -> tuple[MountRequest, ...]:
    """`/host/path:/workspace/extra/name[:rw]` each."""
    wishes = tuple(map(parse_mount_request, texts))
    names = [wish.name for wish in wishes]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise Invalid("mounts", f"two of them are to be seen at {EXTRA}/{twice}")
    for each in wishes:
        outer = next((other for other in wishes if other.writable and _is_below(each, other)), None)
        if outer is not None and not each.writable:
            raise Invalid(
                "mounts", f"{each.source} would be read-only, and {outer.source}, which it lies in, is written to"
            )
    if len(wishes) > MOST:
        raise Invalid("mounts", f"at most {MOST} of them")
    return wishes


def _is_below(inner: MountRequest, outer: MountRequest) -> bool:
    return inner is not outer and Path(inner.source).is_relative_to(outer.source)


def parse_mount_request(text: str) -> MountRequest:
    rest, mode = (text[:-3], text[-3:]) if text.endswith((":rw", ":ro")) else (text, "")
    source, colon, target = rest.rpartition(":")
    if not colon or not source.startswith("/"):
        raise Invalid("mounts", f"{text!r} is not /host/path:{EXTRA}/name, with :rw behind it to write there")
    return MountRequest(source, parse_mount_target(target), mode == ":rw")


def parse_mount_target(target: str) -> str:
    """The name below /workspace/extra, be it written with the way to it or without."""
    name = target.removeprefix(EXTRA + "/")
    if not _NAME.fullmatch(name) or ".." in name:
        raise Invalid("mounts", f"{target!r} is no place for it: a mount is seen at {EXTRA}/<name>")
    return name


def grant_mount(config: Config, home: Home, wish: MountRequest) -> GrantedMount:
    """The wish as a mount, or Invalid with the reason. Read-only unless both the allow-list and the wish say rw."""
    asked = Path(wish.source)
    if ".." in asked.parts or "\0" in wish.source or not asked.is_absolute():
        raise Invalid("mounts", f"{wish.source!r} is not a plain absolute path")
    allowed, rest = _find_allowed(config, home, asked)
    real = allowed.real.joinpath(*rest)
    reason = find_ban(real, home)
    if reason:
        raise Invalid("mounts", f"{wish.source} is never shown to an agent: {reason}")
    try:
        with open_untrusted(allowed.real) as root:
            found = root.stat("/".join(rest))
    except GatepostError as error:
        raise Invalid("mounts", f"{wish.source} cannot be shown below {allowed.real}: {error}") from None
    is_file = stat.S_ISREG(found.st_mode)
    if not is_file and not stat.S_ISDIR(found.st_mode):
        raise Invalid("mounts", f"{wish.source} is neither a folder nor a regular file (a link is not followed)")
    mount = Mount(source=real, target=f"{EXTRA}/{wish.name}", writable=wish.writable and allowed.writable)
    return GrantedMount(mount, found.st_dev, found.st_ino, is_file)


def grant_mounts(config: Config, home: Home, wishes: Iterable[MountRequest]) -> list[GrantedMount]:
    return [grant_mount(config, home, wish) for wish in wishes]


def find_ban(real: Path, home: Home) -> str:
    """Return what no allow-list can allow; '' if this is nothing of that."""
    own = home.path.resolve()
    if own == real or own.is_relative_to(real) or real.is_relative_to(own):
        return "the gateway's own home is there"
    if str(real) in TOO_MUCH or real == Path.home():
        return "it is too much; name a folder below it"
    below = next((place for place in SYSTEM if real.is_relative_to(place)), None)
    if below is not None:
        return f"{below} is the system's"
    bad = next((part for part in real.parts if is_blocked(part)), None)
    return f"{bad!r} is where keys are kept" if bad else ""


def is_blocked(name: str) -> bool:
    """`.env` and `credentials`, also as `.env.local` and `credentials.json`; `.environment` is something else."""
    small = name.casefold()
    return any(small == each or small.startswith(tuple(each + sign for sign in ".-_~")) for each in BLOCKED)


def find_key_file(granted: GrantedMount) -> str:
    """The first thing directly in a folder by whose name it is a key; for the moment when an operator can still choose.
    Later it is not asked: an agent could lock itself out with a file of its own."""
    if granted.is_file:
        return ""
    try:
        return next((entry.name for entry in os.scandir(granted.mount.source) if is_blocked(entry.name)), "")
    except OSError:
        return ""


def may_write(path: Path, uid: int | None) -> bool:
    """By its owner and mode; a sandbox's group is its user's own. None: sandboxes run as whoever asks."""
    if uid is None:
        return os.access(path, os.W_OK)
    found = path.stat()
    bit = stat.S_IWUSR if found.st_uid == uid else stat.S_IWGRP if found.st_gid == uid else stat.S_IWOTH
    return bool(found.st_mode & bit)


def make_mount_points(home: Home, session_id: str, granted: Iterable[GrantedMount], group: int | None) -> None:
    """The places that they are mounted over, in the session's folder, which is read-only inside. Anything that was
    there before goes."""
    mode, owner = (0o700, None) if group is None else (0o750, 0)
    with open_untrusted(home.sessions) as sessions:
        for name in ("extra", "project"):
            sessions.remove_tree(f"{session_id}/{name}")
        for each in granted:
            point = f"{session_id}{each.mount.target.removeprefix(WORKSPACE)}"
            if each.is_file:
                sessions.make_dir(point.rpartition("/")[0], mode, owner, group)
                sessions.write_bytes(point, b"", mode=0o600)
            else:
                sessions.make_dir(point, mode, owner, group)


def read_allowed(config: Config, home: Home) -> list[_AllowedFolder]:
    """The allow-list, or SetupError if agents could make an entry mean something else: what one writes to is theirs."""
    written: tuple[str, ...] = config[ALLOWED]
    entries = [_read_entry(entry) for entry in dict.fromkeys(written)]
    own = home.path.resolve()
    for each in entries:
        if any(step.is_relative_to(own) for step in each.way):
            raise SetupError(f"{ALLOWED.name}: {each.entry!r} lies in the gateway's own home, or leads through it")
        for other in entries:
            if other is each or not other.writable or (each.writable and each.way == other.way):
                continue
            if any(step.is_relative_to(other.real) for step in each.way):
                raise SetupError(
                    f"{ALLOWED.name}: {each.entry!r} lies in {other.entry!r}, where agents may write, and they could"
                    " put anything in its place; name one or the other"
                )
    return entries


def _find_allowed(config: Config, home: Home, asked: Path) -> tuple[_AllowedFolder, tuple[str, ...]]:
    """The deepest allowed folder that it is in, and the way from there."""
    found: list[tuple[_AllowedFolder, tuple[str, ...]]] = []
    for allowed in read_allowed(config, home):
        bases = (base for base in (allowed.written, allowed.real) if asked.is_relative_to(base))
        found.extend((allowed, asked.relative_to(base).parts) for base in bases)
    if not found:
        entries: tuple[str, ...] = config[ALLOWED]
        listed = (", ".join(entries) or "it is empty") + "; a running gateway goes by what it read at its start"
        raise Invalid("mounts", f"{asked} is not allowed: the setting {ALLOWED.name} must name a folder ({listed})")
    return max(found, key=lambda each: len(each[0].real.parts))


def _read_entry(entry: str) -> _AllowedFolder:
    text = entry.removesuffix(":rw").removesuffix(":ro")
    written = expand_user(text)
    if not written.is_absolute() or ".." in written.parts:
        raise SetupError(f"{ALLOWED.name}: {entry!r} is not an absolute path")
    try:
        way = tuple(_steps(written))
    except OSError as error:
        otherwise = SetupError(f"{ALLOWED.name}: {entry!r} leads nowhere: {error.strerror}")
        raise error_classification.to_gatepost_error(str(written), error, otherwise) from None
    if not way or way[-1] == Path("/"):
        raise SetupError(f"{ALLOWED.name}: {entry!r} would allow everything; name folders below it")
    return _AllowedFolder(entry, written, way, entry.endswith(":rw"))


def _steps(path: Path) -> Iterator[Path]:
    """As the kernel goes: each name that it looks at, in the place where it really is. The last is where it ends."""
    here, left, links = Path("/"), list(path.parts[:0:-1]), 0
    while left:
        name = left.pop()
        if name == "..":
            here = here.parent
            yield here
            continue
        step = here / name
        yield step
        if not step.is_symlink():
            here = step
            continue
        links += 1
        if links > MOST_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        target = step.readlink()
        here = Path("/") if target.is_absolute() else here
        left += [part for part in reversed(target.parts) if part != "/"]
    yield here
