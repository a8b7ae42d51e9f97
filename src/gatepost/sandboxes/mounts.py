"""The view of a bubblewrap sandbox, as bwrap's arguments; and how its uid gets to what lies behind closed folders.

The root inside is an empty, read-only tmpfs. On it: the host's `/usr`, an `/etc` of our own, private `/proc`, `/dev`
and `/tmp`, and the mounts of the plan. Nothing of the host appears at a host path but `/usr` and what that needs.
"""

import os
import stat
from collections.abc import Iterable
from pathlib import Path

from gatepost.core import error_classification
from gatepost.core.errors import SetupError
from gatepost.sandboxes.contract import Mount

UID = GID = 1000  # inside
STAGE = Path("/run/gatepost-stage")  # root's own; its folders are mounted over in private mount namespaces alone

ETC = {
    "passwd": f"agent:x:{UID}:{GID}:agent:/workspace/state/home:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n",
    "group": f"agent:x:{GID}:\nnogroup:x:65534:\n",
    "hosts": "127.0.0.1 localhost\n::1 localhost\n127.0.1.1 gatepost\n",
    "resolv.conf": "",
    "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
}
# Of the host's /etc: what its /usr points to, and whom to trust.
ETC_OF_HOST = ("ld.so.cache", "localtime", "alternatives", "ssl/certs", "ssl/openssl.cnf", "pki", "ca-certificates")
TOP_LEVEL = ("bin", "sbin", "lib", "lib64", "lib32", "libx32")


def base_arguments(tmpfs_bytes: int) -> list[str]:
    """Everything that is the same for every sandbox, but for the files of `/etc`."""
    arguments = ["--ro-bind", "/usr", "/usr"]
    for name in TOP_LEVEL:
        path = Path("/", name)
        if path.is_symlink():
            arguments += ["--symlink", os.readlink(path), str(path)]
        elif path.is_dir():
            arguments += ["--ro-bind", str(path), str(path)]
    for name in ETC_OF_HOST:
        path = Path("/etc", name)
        if path.exists():
            arguments += ["--ro-bind", str(path.resolve()), str(path)]
    size = str(tmpfs_bytes)
    arguments += ["--proc", "/proc", "--ro-bind", "/proc/sys", "/proc/sys"]
    arguments += ["--dev", "/dev", "--size", size, "--tmpfs", "/dev/shm", "--remount-ro", "/dev"]
    arguments += ["--perms", "1777", "--size", size, "--tmpfs", "/tmp", "--dir", "/run"]
    return arguments


def mount_arguments(mounts: Iterable[Mount], moved: dict[Path, Path]) -> list[str]:
    """The plan's mounts, in order; `moved` says where a source was staged."""
    arguments = []
    for mount in mounts:
        source = staged(mount.source, moved)
        arguments += ["--bind" if mount.writable else "--ro-bind", str(source), mount.target]
    return arguments


def staged(path: Path, moved: dict[Path, Path]) -> Path:
    """Return where the sandbox's uid finds a host path."""
    real = path.resolve()
    for root, stage in moved.items():
        if real.is_relative_to(root):
            return stage / real.relative_to(root)
    return real


def closed_roots(sources: Iterable[Path], uid: int) -> list[Path]:
    """Return what must be staged so that `uid` gets to every source: the folder below the last closed one on its
    way."""
    found: list[Path] = []
    for source in sources:
        real = source.resolve()
        above = [*reversed(real.parents), real]
        closed = [index for index, folder in enumerate(above[:-1]) if not _may_pass(folder, uid)]
        if closed and above[closed[-1] + 1] not in found:
            found.append(above[closed[-1] + 1])
    return found


def _may_pass(folder: Path, uid: int) -> bool:
    found = folder.stat()
    if found.st_uid == uid:
        return bool(found.st_mode & stat.S_IXUSR)
    if found.st_gid == uid:
        return bool(found.st_mode & stat.S_IXGRP)
    return bool(found.st_mode & stat.S_IXOTH)


def stage(roots: list[Path]) -> dict[Path, Path]:
    """A place for each root below a folder that everybody may pass and only root may change."""
    moved = {}
    for number, root in enumerate(roots):
        moved[root] = STAGE / (f"{number}.file" if root.is_file() else f"{number}")
    try:
        STAGE.mkdir(mode=0o711, exist_ok=True)
        for root, place in moved.items():
            if root.is_file():
                place.touch(0o600)
            else:
                place.mkdir(mode=0o711, exist_ok=True)
        found = STAGE.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != 0 or found.st_mode & 0o022:
            raise SetupError(f"{STAGE} must be a folder of root that nobody else can write; remove it")
        STAGE.chmod(0o711)
    except OSError as error:
        otherwise = SetupError(f"{STAGE} cannot be made: {error.strerror}; sandboxes need it to reach {roots[0]}")
        raise error_classification.to_gatepost_error(str(STAGE), error, otherwise) from None
    return moved


def staged_command(moved: dict[Path, Path], command: list[str]) -> list[str]:
    """The command in a mount namespace of its own, where the closed roots are open. One shell, which becomes it."""
    if not moved:
        return command
    script = 'set -e; while [ "$1" != -- ]; do mount --no-mtab --rbind "$1" "$2"; shift 2; done; shift; exec "$@"'
    pairs = [str(path) for pair in moved.items() for path in pair]
    return ["unshare", "--mount", "--propagation", "slave", "sh", "-c", script, "sh", *pairs, "--", *command]
