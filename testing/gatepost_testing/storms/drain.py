"""A storm in which the listening gateway is drained with open turns and no time to end them. They go on elsewhere."""

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from msgspec import Struct

from gatepost.store.gateways.gateways import GatewayState
from gatepost_testing.daemon import DaemonProcess
from gatepost_testing.platforms.base import EmulatedPlatform
from gatepost_testing.storms.cluster import Cluster
from gatepost_testing.storms.storm import (
    ECHO,
    HELD,
    MODE,
    WHOLE,
    StormPeople,
    StormSize,
    StormTime,
    StormVerdict,
    find_listener,
    get_verdict,
    list_true,
    open_cluster,
    open_gate,
    start_all,
    storm,
)

NAMES = ("a", "b")
GO_ON_S = 1.0  # within which others go on with what a drained gateway held
DRAIN = ("down", "--drain", "--within", "0")


class DrainCounts(Struct, frozen=True, kw_only=True):
    verdict: StormVerdict
    held: int  # turns that were open there
    drain_code: int  # the exit code of the command
    state: GatewayState  # of the drained one, at the end
    is_replaced: bool  # another one listens
    drain_s: float  # that the command took
    first_s: float  # from its end to the first answer to what it held, and to the last
    last_s: float

    def list_faults(self) -> list[str]:
        wrong = {
            f"only {self.held} turns were open": self.held < self.verdict.size.open_turns,
            f"the drain exited with {self.drain_code}": self.drain_code,
            f"the drained gateway is {self.state}": self.state is not GatewayState.GONE,
            "nobody else listens": not self.is_replaced,
        }
        return [*self.verdict.list_faults(), *list_true(wrong)]

    def list_times(self) -> list[StormTime]:
        return [StormTime("went on after", self.first_s, GO_ON_S)]

    def render(self) -> str:
        return (
            f"{self.verdict.render()}; {self.held} turns open, drained in {self.drain_s:.1f} s,"
            f" {self.list_times()[0].render()}, all of them answered after {self.last_s:.1f} s"
        )


def run_drain_storm(folder: Path, seed: int, *, size: StormSize = WHOLE) -> DrainCounts:
    with open_cluster(folder, NAMES, size.places) as (cluster, platform):
        drained = start_all(cluster, platform, size.rooms, HELD)
        left = cluster[next(name for name in NAMES if name != drained)]
        people = StormPeople(platform, size, seed)
        people.run_until_held(lambda: cluster.count_open_turns(drained) >= size.open_turns)
        rooms = list_held_rooms(cluster, platform, drained, size.rooms)
        held = {text for text in people.list_unanswered() if people.get_room(text) in rooms}
        ECHO.write(cluster.group).chmod(0o644)  # for those who begin now; the others still wait
        begun = time.monotonic()
        with ThreadPoolExecutor(1) as beside:
            draining = beside.submit(_drain, cluster[drained])
            people.run_until(lambda: held <= people.answered_at.keys(), "what it held to go on")
        code, ended = draining.result()
        open_gate(cluster)
        people.let_go()
        people.run_to_the_end()
        answered = [people.answered_at[text] for text in held]
        return DrainCounts(
            verdict=get_verdict(people, cluster, left),
            held=len(rooms),
            drain_code=code,
            state=GatewayState(cluster.query(f"SELECT state FROM gateways WHERE name = '{drained}'")[0][0]),
            is_replaced=find_listener(cluster) != drained,
            drain_s=ended - begun,
            first_s=max(0.0, min(answered) - ended),
            last_s=max(0.0, max(answered) - ended),
        )


def _drain(daemon: DaemonProcess) -> tuple[int, float]:
    """The exit code, and when it was there."""
    return daemon.gatepost(*DRAIN).returncode, time.monotonic()


def list_held_rooms(cluster: Cluster, platform: EmulatedPlatform, name: str, count: int) -> set[int]:
    """Those in which a gateway has a turn open."""
    rows = cluster.query(
        "SELECT s.address FROM turns t JOIN sessions s ON s.id = t.session_id"
        f" WHERE t.ended_at IS NULL AND t.owner = '{name}'"
    )
    found = {row[0] for row in rows}
    return {room for room in range(count) if platform.get_address(f"direct:p{room}") in found}


storm(MODE, "drain")(run_drain_storm)
