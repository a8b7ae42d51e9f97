"""A storm in which a gateway is stopped for longer than its lease, with turns open, and goes on after another has taken
over and answered. Its agents have more to say, and to write, and must not get to it."""

import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from gatepost.core.keeper_process import read_start_time
from gatepost.testing.cluster import Cluster
from gatepost.testing.daemon import DaemonProcess
from gatepost.testing.platforms.base import EmulatedPlatform
from gatepost.testing.platforms.telegram import TelegramPlatform
from gatepost.testing.provider import ScriptBuilder
from gatepost.testing.storms import (
    ECHO,
    MODE,
    QUICK,
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
from gatepost.testing.waiting import block_until

STOPPED, OTHER = "a", "b"
NONE_REFUSED = "no late write was refused"
FROZEN_S = 5.0  # within which the sandboxes of a stopped gateway stand still
GO, AFTER = "go", "after"  # files in the group's folder
HELD = (
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
    seed: int
    size: StormSize
    open_turns: int  # of the stopped one
    lost: int
    doubled: int
    disordered: int
    unaccounted: int
    refused: int  # writes of the stopped one that came too late
    wrote_after: bool  # whether one of its agents wrote into the shared folder after the takeover
    epochs: tuple[int, int]  # of the stopped one, before and after
    audit_code: int
    frozen_s: float

    def list_faults(self) -> list[str]:
        wrong = {
            f"{self.lost} lost": self.lost,
            f"{self.doubled} said twice": self.doubled,
            f"{self.disordered} out of order": self.disordered,
            f"{self.unaccounted} unaccounted": self.unaccounted,
            "the audit log does not verify": self.audit_code,
            NONE_REFUSED: not self.refused,
            "an agent of the stopped gateway wrote after the takeover": self.wrote_after,
            "the stopped gateway has no new life": self.epochs[1] <= self.epochs[0],
            f"only {self.open_turns} turns were open": self.open_turns < self.size.open_turns,
        }
        return [what for what, is_so in wrong.items() if is_so]

    def list_times(self) -> list[StormTime]:
        return [StormTime("frozen after", self.frozen_s, FROZEN_S)]

    def render(self) -> str:
        return (
            f"{self.size.messages} messages in {self.size.rooms} rooms, seed {self.seed}, {self.open_turns} turns open:"
            f" lost {self.lost}, doubled {self.doubled}, out of order {self.disordered},"
            f" unaccounted {self.unaccounted}, {self.refused} late writes refused, epoch {self.epochs[0]} to"
            f" {self.epochs[1]}; {self.list_times()[0].render()}"
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
        self._group = cluster.shared_folder / "groups" / "home"
        self._people = StormPeople(platform, size, seed)
        self._seed = seed

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
        gate = self._group / GO  # who stands still does not see it
        gate.touch()
        gate.chmod(0o644)
        held = set(people.sent_at)
        people.run_until(lambda: held <= people.answered_at.keys(), "the other gateway to answer")
        people.let_go()
        self._go_on()
        self._wait_until_over(epoch, inside, guarded=guarded)
        wrote_after = (self._group / AFTER).exists()
        people.run_to_the_end()
        unaccounted = count_unaccounted(cluster[OTHER])
        lost, doubled, disordered = people.judge()
        return ZombieCounts(
            seed=self._seed,
            size=self._size,
            open_turns=open_turns,
            lost=lost,
            doubled=doubled,
            disordered=disordered,
            unaccounted=unaccounted,
            refused=self._stopped.json("status")["refused_writes"],
            wrote_after=wrote_after,
            epochs=(epoch, read_epoch(cluster, STOPPED)),
            audit_code=cluster[OTHER].gatepost("audit", "verify").returncode,
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
        HELD.write(self._group).chmod(0o644)
        find_listener(self._cluster)
        open_rooms(self._stopped, self._platform, self._size.rooms)
        self._people.hold()
        self._people.start()
        block_until(lambda: self._count_conversations() == self._size.rooms, "turns to be open")
        self._cluster[OTHER].start()
        ECHO.write(self._group).chmod(0o644)

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
            block_until((self._group / AFTER).exists, "an agent to go on")
            return
        block_until(lambda: read_epoch(self._cluster, STOPPED) > epoch, "it to begin anew")
        block_until(lambda: not any(read_start_time(pid) == began for pid, began in inside.items()), "sandboxes to end")


def run_zombie_storm(
    folder: Path, seed: int, *, size: StormSize = ZOMBIE, env: Mapping[str, str] | None = None, guarded: bool = True
) -> ZombieCounts:
    """`env`: of the gateways, which then start in interpreters of their own. `guarded`: nothing was taken away from
    what keeps a stopped gateway from acting."""
    settings = {**QUICK, "sessions_most_awake": str(size.places)}
    with (
        TelegramPlatform() as platform,
        Cluster(folder, (STOPPED, OTHER), render_settings(platform), local=False, **settings) as cluster,
    ):
        for daemon in cluster.daemons.values():
            daemon.anew = env is not None
            daemon.env |= env or {}
        return ZombieStorm(cluster, platform, size, seed).run(guarded=guarded)


storm(MODE, "zombie")(run_zombie_storm)
