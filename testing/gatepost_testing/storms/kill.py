"""A storm in which gateways are killed in the middle of their turns: what they had is answered once, by who is left."""

import os
import signal
import time
from enum import StrEnum
from functools import partial
from pathlib import Path

from msgspec import Struct

from gatepost.core.process import keeper_process
from gatepost_testing.daemon import DaemonProcess
from gatepost_testing.storms.cluster import Cluster
from gatepost_testing.storms.storm import (
    HELD,
    LIMIT_S,
    MODE,
    WHOLE,
    StormPeople,
    StormSize,
    StormTime,
    StormVerdict,
    get_verdict,
    list_true,
    open_cluster,
    open_gate,
    start_all,
    storm,
)

NAMES = ("a", "b")


class Victim(StrEnum):
    OTHER = "other"  # who does not listen to the platform
    LISTENER = "listener"
    KEEPER = "keeper"  # of the other one, and then that one itself
    BOTH = "both"  # and the other is started again


class KillCounts(Struct, frozen=True, kw_only=True):
    victim: Victim
    verdict: StormVerdict
    open_turns: int  # of those who were killed
    longest_s: float
    last_s: float  # from the kill to the last answer of all

    def list_faults(self) -> list[str]:
        few = self.open_turns < self.verdict.size.open_turns
        return [*self.verdict.list_faults(), *list_true({f"only {self.open_turns} turns were open": few})]

    def list_times(self) -> list[StormTime]:
        return [StormTime("longest wait", self.longest_s, LIMIT_S)]

    def render(self) -> str:
        return (
            f"{self.verdict.render()}; {self.open_turns} turns open, {self.list_times()[0].render()},"
            f" all answered after {self.last_s:.1f} s"
        )


def run_kill_storm(folder: Path, seed: int, *, victim: Victim, size: StormSize = WHOLE) -> KillCounts:
    with open_cluster(folder, NAMES, size.places) as (cluster, platform):
        listener = start_all(cluster, platform, size.rooms, HELD)
        people, killed = StormPeople(platform, size, seed), _list_killed(victim, listener)
        people.run_until_held(lambda: _are_open(cluster, killed, size.open_turns))
        open_turns = sum(map(cluster.count_open_turns, killed))
        killed_at = _kill(cluster, victim, killed)
        open_gate(cluster)
        people.let_go()
        left = _find_left(cluster, victim, listener)
        people.run_to_the_end()
        ended_at = time.monotonic()
        return KillCounts(
            victim=victim,
            verdict=get_verdict(people, cluster, left),
            open_turns=open_turns,
            longest_s=people.find_longest_wait(killed_at),
            last_s=ended_at - killed_at,
        )


def find_other(listener: str) -> str:
    return next(name for name in NAMES if name != listener)


def _list_killed(victim: Victim, listener: str) -> list[str]:
    match victim:
        case Victim.LISTENER:
            return [listener]
        case Victim.BOTH:
            return [listener, find_other(listener)]
        case _:
            return [find_other(listener)]


def _are_open(cluster: Cluster, names: list[str], count: int) -> bool:
    return all(cluster.count_open_turns(name) >= count for name in names)


def _kill(cluster: Cluster, victim: Victim, names: list[str]) -> float:
    """When."""
    if victim is Victim.KEEPER:
        kill_keeper(cluster[names[0]])
    at = time.monotonic()
    for name in names:
        cluster[name].kill()
    return at


def _find_left(cluster: Cluster, victim: Victim, listener: str) -> DaemonProcess:
    """Return who goes on; started again, if nobody does."""
    other = cluster[find_other(listener)]
    if victim is Victim.BOTH:
        return other.start()
    return cluster[listener] if victim is not Victim.LISTENER else other


def kill_keeper(daemon: DaemonProcess) -> None:
    """kill -9 of the small process beside it."""
    keepers = [pid for pid in _list_children(daemon.pid) if keeper_process.__file__ in _read_command(pid)]
    assert keepers, f"gateway {daemon.pid} has no keeper"
    for pid in keepers:
        os.kill(pid, signal.SIGKILL)


def _list_children(pid: int) -> list[int]:
    texts = [(task / "children").read_text() for task in Path(f"/proc/{pid}/task").iterdir()]
    return [int(child) for text in texts for child in text.split()]


def _read_command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text(errors="replace")
    except OSError:
        return ""  # it has ended


for _victim in Victim:
    storm(MODE, f"kill {_victim}")(partial(run_kill_storm, victim=_victim))
