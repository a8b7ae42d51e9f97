"""The container that this process runs in: which engine made it, and how it is confined there."""

from enum import StrEnum
from pathlib import Path

from msgspec import Struct

# Which the kernel takes for empty folders whatever is mounted there: they hide nothing of /proc.
_HIDE_NOTHING = ("/proc/sys/fs/binfmt_misc", "/proc/fs/nfsd")
_MARKS = {"run/.containerenv": "podman", ".dockerenv": "docker"}  # files that engines put into containers
_CGROUPS = {"libpod": "podman", "docker": "docker"}  # words of cgroups' names


class ContainerEngine(StrEnum):
    NONE = ""
    PODMAN = "podman"
    DOCKER = "docker"


class Confinement(Struct, frozen=True, kw_only=True):
    """`has_filter`: of system calls. `masks_proc`: parts of /proc are covered. `profile`: AppArmor's; '' for none that
    is enforced."""

    engine: ContainerEngine = ContainerEngine.NONE
    has_filter: bool = False
    masks_proc: bool = False
    profile: str = ""


def find_engine(root: Path = Path("/")) -> ContainerEngine:
    """Return the engine of the container whose root this is. Others than the two are not known."""
    for name, engine in _MARKS.items():
        if (root / name).exists():
            return ContainerEngine(engine)
    cgroup = _read(root / "proc/self/cgroup")
    return ContainerEngine(next((engine for word, engine in _CGROUPS.items() if word in cgroup), ""))


def read_confinement(root: Path = Path("/")) -> Confinement:
    status = _read(root / "proc/self/status").splitlines()
    points = [line.split()[4] for line in _read(root / "proc/self/mountinfo").splitlines() if line.count(" ") > 4]
    profile, _, mode = _read(root / "proc/self/attr/current").strip("\0\n ").partition(" ")
    return Confinement(
        engine=find_engine(root),
        has_filter=any(line.split() == ["Seccomp:", "2"] for line in status),
        masks_proc=any(each.startswith("/proc/") and each not in _HIDE_NOTHING for each in points),
        profile=profile if mode == "(enforce)" else "",
    )


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
