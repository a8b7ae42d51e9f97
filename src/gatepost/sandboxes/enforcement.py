"""Which limits of a sandbox the kernel enforces here, which the gateway only watches, and which do not hold. Pure,
but for `read_machine`, which asks the machine. `gatepost doctor` prints it.
"""

import os
import sys
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from gatepost.core.settings import Config
from gatepost.core.sockets import can_refuse_descriptors
from gatepost.flow.sessions.owner import uid_range
from gatepost.sandboxes import cgroups

ENGINES = frozenset({"podman", "docker"})
WATCHED_TREES = "the gateway counts its folders and open deleted files every 2 s"


SENT = "descriptors sent to the gateway"


class Hold(StrEnum):
    ENFORCED = "enforced"
    WATCHED = "watched"
    NONE = "not limited"


@dataclass(frozen=True, slots=True)
class Machine:
    """What decides it."""

    root: bool
    memory_cgroup: bool = False
    cpu_cgroup: bool = False
    own_uids: bool = False  # each world has a host uid
    no_quota: str = ""  # why project quotas cannot be used
    refuses_descriptors: bool = False  # sent over the sockets of a session


@dataclass(frozen=True, slots=True)
class LimitFact:
    limit: str
    hold: Hold
    by: str


def limits_that_hold(kind: str, machine: Machine) -> list[LimitFact]:
    """For one kind of sandbox on this machine, each limit once."""
    return [*_by_cgroup(kind, machine), *_of_files(machine), *_by_walls(kind, machine), _of_sockets(machine)]


def _by_cgroup(kind: str, machine: Machine) -> list[LimitFact]:
    if kind in ENGINES:
        by = f"cgroup of {kind}"
        return [LimitFact(name, Hold.ENFORCED, by) for name in ("memory", "processes", "processor time")]
    watched = "the gateway adds up its processes' memory, memfds and /tmp every second"
    if kind != "bubblewrap":
        return [
            LimitFact("memory", Hold.WATCHED, f"{watched}; what left its process session is not seen"),
            LimitFact("processes", Hold.NONE, "it has no walls"),
            LimitFact("processor time", Hold.NONE, "it has no walls"),
        ]
    memory = LimitFact(
        "memory", Hold.WATCHED, f"{watched}; one process's own data by RLIMIT_DATA. No cgroup can be made"
    )
    if machine.memory_cgroup:
        memory = LimitFact("memory", Hold.ENFORCED, "cgroup")
    time = LimitFact("processor time", Hold.NONE, "no cpu cgroup can be made here")
    if machine.cpu_cgroup:
        time = LimitFact("processor time", Hold.ENFORCED, "cgroup, where sandbox.cpu_percent is set")
    return [memory, LimitFact("processes", Hold.ENFORCED, "cgroup, else RLIMIT_NPROC counted inside"), time]


def _of_files(machine: Machine) -> list[LimitFact]:
    quota = machine.no_quota or "project quotas are there, and this version does not use them"
    return [
        LimitFact("disk", Hold.WATCHED, f"{WATCHED_TREES} ({quota})"),
        LimitFact("files and folders", Hold.WATCHED, WATCHED_TREES),
        LimitFact("free disk of the machine", Hold.WATCHED, "the gateway looks every 0.3 s and freezes all sandboxes"),
        LimitFact("size of one file", Hold.ENFORCED, "RLIMIT_FSIZE"),
    ]


def _by_walls(kind: str, machine: Machine) -> list[LimitFact]:
    if kind == "process":
        nothing = "it has no walls"
        return [LimitFact(name, Hold.NONE, nothing) for name in ("open descriptors", "what a user may have", "network")]
    shared = LimitFact("what a user may have", Hold.NONE, "sandboxes share one host uid, as for inotify")
    if machine.root and machine.own_uids:
        shared = LimitFact("what a user may have", Hold.ENFORCED, "a host uid for each world (sandbox.uids)")
    return [
        LimitFact("open descriptors", Hold.ENFORCED, "RLIMIT_NOFILE, for each process"),
        shared,
        LimitFact("network", Hold.ENFORCED, "a network namespace with nothing but loopback; egress.sock"),
    ]


def _of_sockets(machine: Machine) -> LimitFact:
    if machine.refuses_descriptors:
        return LimitFact(SENT, Hold.ENFORCED, "SO_PASSRIGHTS: the kernel refuses them")
    why = "Linux 6.16 can refuse them; here closing one may hold the gateway up"
    return LimitFact(SENT, Hold.NONE, f"{why}, and bubblewrap and containers refuse SO_LINGER")


def read_machine(config: Config, home: Path) -> Machine:
    bases = cgroups.here()
    linux = sys.platform == "linux"
    return Machine(
        root=os.geteuid() == 0,
        memory_cgroup=linux and cgroups.limits_memory(bases),
        cpu_cgroup=linux and cgroups.limits_time(bases),
        own_uids=uid_range(config) is not None,
        no_quota=why_no_quota(home, _mounts()),
        refuses_descriptors=can_refuse_descriptors(),
    )


def why_no_quota(place: Path, mounts: str) -> str:
    """Why no project quota can hold below a folder; '' if one could. From the text of /proc/self/mounts."""
    where, kind, options = "", "", ""
    for line in mounts.splitlines():
        _, target, its_kind, its_options, *_ = line.split(" ")
        if place.is_relative_to(target) and len(target) >= len(where):
            where, kind, options = target, its_kind, its_options
    if kind not in ("ext4", "xfs", "f2fs"):
        return f"no project quotas: {kind or 'this file system'} has none"
    if not {"prjquota", "pquota"} & set(options.split(",")):
        return f"no project quotas: {where} is mounted without prjquota"
    return ""


def _mounts() -> str:
    with suppress(OSError):
        return Path("/proc/self/mounts").read_text()
    return ""
