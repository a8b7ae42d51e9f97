"""A storm in which gateways are killed in the middle of their turns: what they had is answered once, by who is left."""

import os
import signal
import time
from enum import StrEnum
from functools import partial
from pathlib import Path

from msgspec import Struct

from gatepost.core import keeper_process
from gatepost.testing.cluster import Cluster
from gatepost.testing.daemon import DaemonProcess
from gatepost.testing.platforms.telegram import TelegramPlatform
from gatepost.testing.provider import ScriptBuilder
from gatepost.testing.storms import (
    LIMIT_S,
    MODE,
    QUICK,
    WHOLE,
    StormPeople,
    StormSize,
    StormTime,
    count_unaccounted,
    find_listener,
    open_rooms,
    prepare,
    render_settings,
    storm,
)

NAMES = ("a", "b")
SHARE = 0.4  # of the messages that are answered when it happens
GO = "go"  # a file in the group's folder: agents end the turns that they keep open
SCRIPT = ScriptBuilder().turn("^h").wait_for(GO).say("echo: {text}").otherwise().say("echo: {text}")


class Victim(StrEnum):
    OTHER = "other"  # who does not listen to the platform
    LISTENER = "listener"
    KEEPER = "keeper"  # of the other one, and then that one itself
    BOTH = "both"  # and the other is started again


class KillCounts(Struct, frozen=True, kw_only=True):
    victim: Victim
    seed: int
    size: StormSize
    open_turns: int  # of those who were killed
    lost: int
    doubled: int
    disordered: int
    unaccounted: int
    audit_code: int  # the exit code of `gatepost audit verify`
    longest_s: float
    last_s: float  # from the kill to the last answer of all

    def list_faults(self) -> list[str]:
        wrong = {
            f"{self.lost} lost": self.lost,
            f"{self.doubled} said twice": self.doubled,
            f"{self.disordered} out of order": self.disordered,
            f"{self.unaccounted} unaccounted": self.unaccounted,
            "the audit log does not verify": self.audit_code,
            f"only {self.open_turns} turns were open": self.open_turns < self.size.open_turns,
        }
        return [what for what, is_so in wrong.items() if is_so]

    def list_times(self) -> list[StormTime]:
        return [StormTime("longest wait", self.longest_s, LIMIT_S)]

    def render(self) -> str:
        return (
            f"{self.size.messages} messages in {self.size.rooms} rooms, seed {self.seed}, {self.open_turns} turns open:"
            f" lost {self.lost}, doubled {self.doubled}, out of order {self.disordered},"
            f" unaccounted {self.unaccounted}, audit {'verifies' if not self.audit_code else 'BROKEN'};"
            f" {self.list_times()[0].render()}, all answered after {self.last_s:.1f} s"
        )


def run_kill_storm(folder: Path, seed: int, *, victim: Victim, size: StormSize = WHOLE) -> KillCounts:
    settings = {**QUICK, "sessions_most_awake": str(size.places)}
    with (
        TelegramPlatform() as platform,
        Cluster(folder, NAMES, render_settings(platform), local=False, **settings) as cluster,
    ):
        prepare(cluster, platform)
        for daemon in cluster.daemons.values():
            daemon.start()
        SCRIPT.write(cluster.shared_folder / "groups" / "home").chmod(0o644)
        listener = find_listener(cluster)
        open_rooms(cluster.first, platform, size.rooms)
        people = StormPeople(platform, size, seed)
        people.start()
        people.run_until(lambda: len(people.answers) >= SHARE * size.messages, "a part to be answered")
        people.hold()
        killed = _list_killed(victim, listener)
        people.run_until(lambda: people.are_held, "all turns to be kept open")
        people.run_until(partial(_are_open, cluster, killed, size.open_turns), "turns to be open")
        open_turns = sum(map(cluster.count_open_turns, killed))
        killed_at = _kill(cluster, victim, killed)
        _open_gate(cluster)
        people.let_go()
        left = _find_left(cluster, victim, listener)
        people.run_to_the_end()
        ended_at = time.monotonic()
        unaccounted = count_unaccounted(left)
        lost, doubled, disordered = people.judge()
        return KillCounts(
            victim=victim,
            seed=seed,
            size=size,
            open_turns=open_turns,
            lost=lost,
            doubled=doubled,
            disordered=disordered,
            unaccounted=unaccounted,
            audit_code=left.gatepost("audit", "verify").returncode,
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


def _open_gate(cluster: Cluster) -> None:
    gate = cluster.shared_folder / "groups" / "home" / GO
    gate.touch()
    gate.chmod(0o644)


def _find_left(cluster: Cluster, victim: Victim, listener: str) -> DaemonProcess:
    """Who goes on; started again, if nobody does."""
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
