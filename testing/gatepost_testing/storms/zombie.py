"""A storm in which a gateway is stopped for longer than its lease, with turns open, and goes on after another has taken
over and answered. Its agents have more to say, and to write, and must not get to it."""

import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from gatepost.core.process.keeper_process import read_start_time
from gatepost_testing.daemon import DaemonProcess
from gatepost_testing.platforms.base import EmulatedPlatform
from gatepost_testing.provider import ScriptBuilder
from gatepost_testing.storms.cluster import Cluster
from gatepost_testing.storms.storm import (
    ECHO,
    GO,
    MODE,
    StormPeople,
    StormSize,
    StormTime,
    StormVerdict,
    find_listener,
    get_verdict,
    list_true,
    open_cluster,
    open_gate,
    open_rooms,
    prepare,
    storm,
)
from gatepost_testing.waiting import block_until

STOPPED, OTHER = "a", "b"
NONE_REFUSED = "no late write was refused"
FROZEN_S = 5.0  # within which the sandboxes of a stopped gateway stand still
AFTER = "after"  # a file in the group's folder
HELD_LONGER = (
    ScriptBuilder()
    .turn("^h")
    .wait_for(GO)
    .say("late echo: {text}")
    .write_file(AFTER, "x")
    .otherwise()
    .say("echo: {text}")
)
ZOMBIE = StormSize(rooms=20, messages=200, open_turns=20, places=22)
SMALL_ZOMBIE = StormSize(rooms=4, messages=16, open_turns=4, places=6)


class ZombieCounts(Struct, frozen=True, kw_only=True):
    verdict: StormVerdict
    open_turns: int  # of the stopped one
    refused: int  # writes of the stopped one that came too late
    wrote_after: bool  # whether one of its agents wrote into the shared folder after the takeover
    epochs: tuple[int, int]  # of the stopped one, before and after
    frozen_s: float

    def list_faults(self) -> list[str]:
        wrong = {
            NONE_REFUSED: not self.refused,
            "an agent of the stopped gateway wrote after the takeover": self.wrote_after,
            "the stopped gateway has no new life": self.epochs[1] <= self.epochs[0],
            f"only {self.open_turns} turns were open": self.open_turns < self.verdict.size.open_turns,
        }
        return [*self.verdict.list_faults(), *list_true(wrong)]

    def list_times(self) -> list[StormTime]:
        return [StormTime("frozen after", self.frozen_s, FROZEN_S)]

    def render(self) -> str:
        return (
            f"{self.verdict.render()}; {self.open_turns} turns open, {self.refused} late writes refused, epoch"
            f" {self.epochs[0]} to {self.epochs[1]}; {self.list_times()[0].render()}"
        )


def list_inside(daemon: int) -> dict[int, str]:
    """The processes of a daemon's sandboxes, with the times at which they began: those of other pid namespaces."""
    found, inside = [daemon], {}
    own = Path(f"/proc/{daemon}/ns/pid").readlink()
    for pid in found:
        with suppress(OSError):
            for task in Path(f"/proc/{pid}/task").iterdir():
                found += map(int, (task / "children").read_text().split())
            if Path(f"/proc/{pid}/ns/pid").readlink() != own:
                inside[pid] = read_start_time(pid)
    return inside


def is_frozen(pid: int) -> bool:
    """By a signal, or by its cgroup."""
    try:
        if Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][:1] == "T":
            return True
        lines = Path(f"/proc/{pid}/cgroup").read_text().splitlines()
    except OSError:
        return True
    for _, controllers, path in (line.split(":", 2) for line in lines):
        for state in (Path(f"/sys/fs/cgroup/freezer{path}/freezer.state"), Path(f"/sys/fs/cgroup{path}/cgroup.freeze")):
            if controllers in ("", "freezer") and state.exists() and state.read_text().strip() in ("FROZEN", "1"):
                return True
    return False


def read_epoch(cluster: Cluster, name: str) -> int:
    """0 while it is gone."""
    rows = cluster.query(f"SELECT epoch FROM gateways WHERE name = '{name}' AND state = 'running'")
    return int(rows[0][0]) if rows else 0


class ZombieStorm:
    def __init__(self, cluster: Cluster, platform: EmulatedPlatform, size: StormSize, seed: int) -> None:
        self._cluster, self._platform, self._size = cluster, platform, size
        self._people = StormPeople(platform, size, seed)

    @property
    def _stopped(self) -> DaemonProcess:
        return self._cluster[STOPPED]

    def run(self, *, guarded: bool) -> ZombieCounts:
        cluster, people = self._cluster, self._people
        self._start_with_open_turns()
        epoch, inside = read_epoch(cluster, STOPPED), list_inside(self._stopped.pid)
        open_turns = cluster.count_open_turns(STOPPED)
        self._stop()
        frozen_s = self._wait_until_frozen(inside) if guarded else 0.0
        open_gate(cluster)  # who stands still does not see it
        held = set(people.sent_at)
        people.run_until(lambda: held <= people.answered_at.keys(), "the other gateway to answer")
        people.let_go()
        self._go_on()
        self._wait_until_over(epoch, inside, guarded=guarded)
        wrote_after = (self._cluster.group / AFTER).exists()
        people.run_to_the_end()
        return ZombieCounts(
            verdict=get_verdict(people, cluster, cluster[OTHER]),
            open_turns=open_turns,
            refused=self._stopped.json("status")["refused_writes"],
            wrote_after=wrote_after,
            epochs=(epoch, read_epoch(cluster, STOPPED)),
            frozen_s=frozen_s,
        )

    def _stop(self) -> None:
        self._stopped.pause()

    def _go_on(self) -> None:
        self._stopped.resume()

    def _start_with_open_turns(self) -> None:
        """One gateway listens, and its agents wait in the middle of their turns; another one is beside it."""
        prepare(self._cluster, self._platform)
        self._stopped.start()
        HELD_LONGER.write(self._cluster.group).chmod(0o644)
        find_listener(self._cluster)
        open_rooms(self._stopped, self._platform, self._size.rooms)
        self._people.hold()
        self._people.start()
        block_until(lambda: self._count_conversations() == self._size.rooms, "turns to be open")
        self._cluster[OTHER].start()
        ECHO.write(self._cluster.group).chmod(0o644)

    def _count_conversations(self) -> int:
        found = self._cluster.shared_folder.glob("sessions/*/state/scripted/c-*.jsonl")
        return sum(1 for each in found if each.stat().st_size)

    def _wait_until_frozen(self, inside: Mapping[int, str]) -> float:
        """How long it took."""
        begun = time.monotonic()
        block_until(lambda: all(map(is_frozen, inside)), "its sandboxes to be frozen")
        return time.monotonic() - begun

    def _wait_until_over(self, epoch: int, inside: Mapping[int, str], *, guarded: bool) -> None:
        if not guarded:
            block_until((self._cluster.group / AFTER).exists, "an agent to go on")
            return
        block_until(lambda: read_epoch(self._cluster, STOPPED) > epoch, "it to begin anew")
        block_until(lambda: not any(read_start_time(pid) == began for pid, began in inside.items()), "sandboxes to end")


def run_zombie_storm(
    folder: Path, seed: int, *, size: StormSize = ZOMBIE, env: Mapping[str, str] | None = None, guarded: bool = True
) -> ZombieCounts:
    """`env`: of the gateways, which then start in interpreters of their own. `guarded`: nothing was taken away from
    what keeps a stopped gateway from acting."""
    with open_cluster(folder, (STOPPED, OTHER), size.places) as (cluster, platform):
        for daemon in cluster.daemons.values():
            daemon.anew = env is not None
            daemon.env |= env or {}
        return ZombieStorm(cluster, platform, size, seed).run(guarded=guarded)


storm(MODE, "zombie")(run_zombie_storm)
