"""Which limits of a sandbox the kernel enforces here, which the gateway only watches, and which do not hold. Pure,
but for `read_machine`, which asks the machine. `gatepost doctor` prints it.
"""

import os
import sys
from contextlib import suppress
from enum import StrEnum
from pathlib import Path

from msgspec import Struct

from gatepost.core.process.unix_sockets import can_refuse_descriptors
from gatepost.core.settings import Config
from gatepost.flow.sessions.host.host_uids import uid_range
from gatepost.sandboxes import cgroups

ENGINES = frozenset({"podman", "docker"})
WATCHED_TREES = "the gateway counts its folders and open deleted files every 2 s"


SENT = "descriptors sent to the gateway"


class LimitEnforcement(StrEnum):
    ENFORCED = "enforced"
    WATCHED = "watched"
    NONE = "not limited"


class HostCapabilities(Struct, frozen=True):
    """The abilities of the host that decide it."""

    root: bool
    memory_cgroup: bool = False
    cpu_cgroup: bool = False
    own_uids: bool = False  # each world has a host uid
    no_quota: str = ""  # why project quotas cannot be used
    refuses_descriptors: bool = False  # sent over the sockets of a session


class LimitFact(Struct, frozen=True):
    limit: str
    hold: LimitEnforcement
    by: str


def list_limits(kind: str, machine: HostCapabilities) -> list[LimitFact]:
    """For one kind of sandbox on this machine, each limit once."""
    return [
        *_cgroup_limits(kind, machine),
        *_file_limits(machine),
        *_isolation_limits(kind, machine),
        _of_sockets(machine),
    ]


def _cgroup_limits(kind: str, machine: HostCapabilities) -> list[LimitFact]:
    if kind in ENGINES:
        by = f"cgroup of {kind}"
        return [LimitFact(name, LimitEnforcement.ENFORCED, by) for name in ("memory", "processes", "processor time")]
    watched = "the gateway adds up its processes' memory, memfds and /tmp every second"
    if kind != "bubblewrap":
        return [
            LimitFact("memory", LimitEnforcement.WATCHED, f"{watched}; what left its process session is not seen"),
            LimitFact("processes", LimitEnforcement.NONE, "it has no walls"),
            LimitFact("processor time", LimitEnforcement.NONE, "it has no walls"),
        ]
    memory = LimitFact(
        "memory", LimitEnforcement.WATCHED, f"{watched}; one process's own data by RLIMIT_DATA. No cgroup can be made"
    )
    if machine.memory_cgroup:
        memory = LimitFact("memory", LimitEnforcement.ENFORCED, "cgroup")
    time = LimitFact("processor time", LimitEnforcement.NONE, "no cpu cgroup can be made here")
    if machine.cpu_cgroup:
        time = LimitFact("processor time", LimitEnforcement.ENFORCED, "cgroup, where sandbox.cpu_percent is set")
    return [memory, LimitFact("processes", LimitEnforcement.ENFORCED, "cgroup, else RLIMIT_NPROC counted inside"), time]


def _file_limits(machine: HostCapabilities) -> list[LimitFact]:
    quota = machine.no_quota or "project quotas are there, and this version does not use them"
    return [
        LimitFact("disk", LimitEnforcement.WATCHED, f"{WATCHED_TREES} ({quota})"),
        LimitFact("files and folders", LimitEnforcement.WATCHED, WATCHED_TREES),
        LimitFact(
            "free disk of the machine",
            LimitEnforcement.WATCHED,
            "the gateway looks every 0.3 s and freezes all sandboxes",
        ),
        LimitFact("size of one file", LimitEnforcement.ENFORCED, "RLIMIT_FSIZE"),
    ]


def _isolation_limits(kind: str, machine: HostCapabilities) -> list[LimitFact]:
    if kind == "process":
        nothing = "it has no walls"
        return [
            LimitFact(name, LimitEnforcement.NONE, nothing)
            for name in ("open descriptors", "what a user may have", "network")
        ]
    shared = LimitFact("what a user may have", LimitEnforcement.NONE, "sandboxes share one host uid, as for inotify")
    if machine.root and machine.own_uids:
        shared = LimitFact(
            "what a user may have", LimitEnforcement.ENFORCED, "a host uid for each world (sandbox.uids)"
        )
    return [
        LimitFact("open descriptors", LimitEnforcement.ENFORCED, "RLIMIT_NOFILE, for each process"),
        shared,
        LimitFact("network", LimitEnforcement.ENFORCED, "a network namespace with nothing but loopback; egress.sock"),
    ]


def _of_sockets(machine: HostCapabilities) -> LimitFact:
    if machine.refuses_descriptors:
        return LimitFact(SENT, LimitEnforcement.ENFORCED, "SO_PASSRIGHTS: the kernel refuses them")
    why = "Linux 6.16 can refuse them; here closing one may hold the gateway up"
    return LimitFact(SENT, LimitEnforcement.NONE, f"{why}, and bubblewrap and containers refuse SO_LINGER")


def read_machine(config: Config, home: Path) -> HostCapabilities:
    bases = cgroups.find_own_bases()
    linux = sys.platform == "linux"
    return HostCapabilities(
        root=os.geteuid() == 0,
        memory_cgroup=linux and cgroups.can_limit_memory(bases),
        cpu_cgroup=linux and cgroups.can_limit_cpu(bases),
        own_uids=uid_range(config) is not None,
        no_quota=find_quota_trouble(home, _mounts()),
        refuses_descriptors=can_refuse_descriptors(),
    )


def find_quota_trouble(place: Path, mounts: str) -> str:
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
