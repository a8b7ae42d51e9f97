"""Limits of a group's sandboxes: its own, else those of the groups above it, else the gateway's. Pure."""

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from gatepost.core.errors import Invalid, did_you_mean
from gatepost.core.settings import Config, Setting, setting
from gatepost.store.sessions.groups import Group

MEMORY_MB = setting("sandbox.memory_mb", 2048, help="Memory of one sandbox, in MiB.")
CPU_PERCENT = setting(
    "sandbox.cpu_percent", 0, help="Processor time of one sandbox, in percent of one processor; 0: no limit."
)
PROCESSES = setting("sandbox.processes", 256, help="Processes and threads of one sandbox.")
DISK_MB = setting(
    "sandbox.disk_mb",
    2048,
    help="What a group's and a session's files may take on the disk, in MiB; no single file can become larger.",
)
FILES = setting(
    "sandbox.files", 200_000, help="How many files and folders a group, and a session, may have on the disk."
)
TURN_S = setting("sessions.turn_s", 3600.0, help="The longest that one turn may take, in seconds.")
MAY_EXCEED = setting(
    "sandbox.limits_may_exceed", False, help="Whether a group's own limits may be above those of the gateway."
)

_OF_GATEWAY: dict[str, Setting[Any]] = {
    "memory_mb": MEMORY_MB,
    "cpu_percent": CPU_PERCENT,
    "processes": PROCESSES,
    "turn_s": TURN_S,
    "disk_mb": DISK_MB,
    "files": FILES,
}
NAMES = tuple(_OF_GATEWAY)
LEAST = {
    "memory_mb": 32,
    "cpu_percent": 1,
    "processes": 8,
    "turn_s": 1,
    "disk_mb": 1,
    "files": 100,
}  # below, nothing starts
MOST = 10**9 - 1


class GroupLimits(Struct, frozen=True, kw_only=True):
    memory_mb: int
    cpu_percent: int  # of one processor; 0: no limit
    processes: int
    turn_s: float
    disk_mb: int
    files: int  # files and folders of a tree


def limits_of(config: Config, group: Group, parents: Sequence[Group] = ()) -> GroupLimits:
    """In force for a group. `parents` are those above it, the nearest first."""
    found = {name: _in_force(config, name, group, parents) for name in NAMES}
    return GroupLimits(
        memory_mb=int(found["memory_mb"]),
        cpu_percent=int(found["cpu_percent"]),
        processes=int(found["processes"]),
        turn_s=float(found["turn_s"]),
        disk_mb=int(found["disk_mb"]),
        files=int(found["files"]),
    )


def _in_force(config: Config, name: str, group: Group, parents: Sequence[Group]) -> float:
    most = float(config[_OF_GATEWAY[name]])
    own = next((each.limits[name] for each in (group, *parents) if name in each.limits), None)
    if own is None:
        return most
    return own if config[MAY_EXCEED] or not most else min(own, most)


def check_limit(config: Config, name: str, value: int | None) -> None:
    """Judge what an operator wants for one limit. None: as the groups above it."""
    if name not in _OF_GATEWAY:
        near = did_you_mean(name, NAMES)
        raise Invalid(f"limits.{name}", f"there is no such limit; there are: {', '.join(NAMES)}{near}")
    if value is None:
        return
    most = float(config[_OF_GATEWAY[name]])
    if value > MOST:
        raise Invalid(f"limits.{name}", f"{value} is more than any machine has; leave it empty for the gateway's")
    if value < LEAST[name]:
        raise Invalid(f"limits.{name}", f"{value} is too little for an agent to start; at least {LEAST[name]}")
    if most and value > most and not config[MAY_EXCEED]:
        raise Invalid(
            f"limits.{name}",
            f"{value} is above the gateway's {most:g}; raise the setting {_OF_GATEWAY[name].name}, or allow it with"
            f" {MAY_EXCEED.name}",
        )
