"""A sandbox: where a runner lives. It is given what may be seen and returns a handle that can be waited for and killed.

A sandbox class says first whether it works on this machine, and if not, exactly why.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from msgspec import Struct, field

from gatepost.core.errors import Unavailable
from gatepost.core.registry import Registry
from gatepost.core.settings import Config

LARGEST_TMPFS = 1 << 30


class Mount(Struct, frozen=True, kw_only=True):
    """One thing to be seen inside: a host path at a path of the sandbox's own."""

    source: Path
    target: str
    writable: bool = False


class SandboxLimits(Struct, frozen=True, kw_only=True):
    memory_mb: int = 2048
    processes: int = 256
    files: int = 1024  # open descriptors of one process
    cpu_percent: int = 0  # 0: no limit
    file_mb: int = 0  # the largest single file; 0: no limit

    @property
    def tmpfs_bytes(self) -> int:
        """The size of `/tmp`, and again of `/dev/shm`. Both are memory, so together they stay within its limit."""
        return min(LARGEST_TMPFS, (self.memory_mb << 20) // 2)


class SandboxPlan(Struct, frozen=True, kw_only=True):
    """Everything about one sandbox before it starts. `name` is unique on this machine and names its cgroup."""

    name: str
    mounts: tuple[Mount, ...]
    command: tuple[str, ...]
    env: dict[str, str] = field(default_factory=dict)
    cwd: str = "/workspace/agent"
    limits: SandboxLimits = SandboxLimits()
    uid: int | None = None  # run as this host uid (the daemon is root); None: as the daemon's own user
    stdio: bool = False  # give the child our own stdin, stdout, stderr (for `gatepost sandbox run`)
    log: Path | None = None  # where the child's stderr goes otherwise


class Sandbox(Protocol):
    """A started one."""

    pid: int  # the process that we started and reap
    inner_pid: int  # the first process inside, seen from the host
    pid_namespace: int | None  # inode of its pid namespace; None: it has none of its own

    async def wait(self) -> int:
        """Until it ends; its exit code (negative: the signal)."""
        ...

    def kill(self) -> None:
        """End it now, whatever it does. Never waits; `wait` returns soon after."""
        ...

    @property
    def memory_is_limited(self) -> bool:
        """Return True if the kernel holds all of it to the plan's memory. If not, the gateway watches it."""
        ...

    def end_start(self) -> None:
        """Its runner works from now on. Until then it may have less of the processors than those that work."""
        ...

    def owns(self, pid: int) -> bool:
        """Return True if a process that connected to a socket lives in this sandbox."""
        ...


class SandboxKind(Protocol):
    isolated: bool  # False: no walls at all; must be chosen explicitly

    def __init__(self, config: Config) -> None: ...

    def trouble(self) -> str | None:
        """Why it does not work on this machine, in one sentence with the way out; None if it does. May try it out,
        which takes time. Raises Unavailable if that cannot be told now: the machine lacks something for a while."""
        ...

    async def start(self, plan: SandboxPlan) -> Sandbox:
        """Start it from the main thread. Raises Unavailable if it cannot."""
        ...

    def sweep(self, prefix: str) -> int:
        """End what an earlier daemon of this home left (cgroups, containers) whose name has this prefix."""
        ...


def trouble_of(kind: SandboxKind) -> str | None:
    """The same for people, who are told what cannot be told now as well."""
    try:
        return kind.trouble()
    except Unavailable as error:
        return f"not now: {error.why}"


SANDBOXES: Registry[Callable[[Config], SandboxKind]] = Registry("sandbox")


def sandbox(name: str, registry: Registry[Callable[[Config], SandboxKind]] = SANDBOXES) -> Callable[[type], type]:
    def register(cls: type) -> type:
        registry.add(name, cls, origin=cls.__module__)
        return cls

    return register
