"""The verdict whether the machine has room for one sandbox more, and which resting ones make way if not. The decision
is pure; what it is decided from is read from the kernel.

A sandbox that works is never ended for this, and one may always be awake: on a small machine a slow answer is better
than none.
"""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from gatepost.core.settings import setting

LEAST_FREE_MB = setting(
    "sandbox.least_free_mb",
    512,
    help="With less memory free on this machine, in MiB, resting sandboxes are ended and no further one is woken; "
    "0: not looked at.",
)
MOST_STALLED = 40.0  # percent of the last ten seconds in which somebody waited for memory
MIB = 1024 * 1024


class HostMemory(Struct, frozen=True):
    free_mb: int
    stalled: float = 0.0  # percent, as the kernel's pressure figures have it; 0 where it has none


class MemoryVerdict(Struct, frozen=True):
    end: str = ""  # the session whose sandbox makes way; one at a time, because what it frees is seen a moment later
    wake: bool = True  # whether a further one may be woken
    why: str = ""


def check_memory(
    memory: HostMemory | None, least_free_mb: int, awake: int, resting: Sequence[tuple[int, str]]
) -> MemoryVerdict:
    """`resting`: since when, and which session. None of `memory`: it cannot be known here."""
    if memory is None or not least_free_mb:
        return MemoryVerdict()
    if memory.free_mb < least_free_mb:
        why = f"{memory.free_mb} MB of memory are free, less than {least_free_mb}"
    elif memory.stalled > MOST_STALLED:
        why = f"somebody waits for memory {memory.stalled:.0f} % of the time"
    else:
        return MemoryVerdict()
    longest = min(resting, default=(0, ""))[1]
    return MemoryVerdict(end=longest, wake=awake == 0, why=why)


def read_memory(proc: Path = Path("/proc"), cgroup: Path = Path("/sys/fs/cgroup")) -> HostMemory | None:
    """Return what is free for us: of the machine, or of our own cgroup's limit where that is less. None: it is not
    told."""
    meminfo = _numbers(proc / "meminfo")
    if "MemAvailable:" not in meminfo:
        return None
    free = meminfo["MemAvailable:"] * 1024
    for folder, limit, used, cache in (
        (
            _own(proc, cgroup, "memory", "memory"),
            "memory.limit_in_bytes",
            "memory.usage_in_bytes",
            "total_inactive_file",
        ),
        (_own(proc, cgroup, "", ""), "memory.max", "memory.current", "inactive_file"),
    ):
        most, taken = _number(folder / limit), _number(folder / used)
        if most is not None and taken is not None and most - taken < free:
            free = min(free, most - taken + _numbers(folder / "memory.stat").get(cache, 0))
    return HostMemory(max(0, free) // MIB, _stalled(proc / "pressure" / "memory"))


def _own(proc: Path, cgroup: Path, controller: str, mount: str) -> Path:
    """Our own cgroup's folder. In a container it may be seen at the top of what is mounted."""
    top = cgroup / mount
    with suppress(OSError, ValueError):
        for line in (proc / "self" / "cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if controller in controllers.split(","):
                own = top / path.strip("/")
                return own if own.is_dir() else top
    return top


def _number(path: Path) -> int | None:
    """None also for `max`."""
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None


def _numbers(path: Path) -> dict[str, int]:
    """Lines that begin with a word and a number."""
    found = {}
    with suppress(OSError, ValueError):
        for line in path.read_text().splitlines():
            name, value, *_ = line.split()
            found[name] = int(value)
    return found


def _stalled(path: Path) -> float:
    with suppress(OSError, ValueError, IndexError):
        return float(path.read_text().split()[1].removeprefix("avg10="))
    return 0.0
