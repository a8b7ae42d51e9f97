"""A storm in which the database crashes in the middle of the work, and comes back: everything is answered once, and
nobody takes over from anybody."""

import time
from pathlib import Path

from msgspec import Struct

from gatepost_testing.storms.cluster import Cluster
from gatepost_testing.storms.storm import (
    ECHO,
    MODE,
    StormPeople,
    StormSize,
    StormTime,
    StormVerdict,
    get_verdict,
    list_true,
    open_cluster,
    start_all,
    storm,
)

WARM_SHARE, SHARE = 0.1, 0.3  # of the messages that are answered when sandboxes have started, and when it crashes
AFTER_S = 3.0  # within which people have their answers once the database is back
BUSY = StormSize(rooms=25, messages=1000, open_turns=0, places=25, at_once=1)


class DatabaseCounts(Struct, frozen=True, kw_only=True):
    verdict: StormVerdict
    away_s: float  # from the crash until it takes connections
    usual_s: float  # the longest wait before
    longest_s: float  # from the crash on
    taken_over: bool

    def list_faults(self) -> list[str]:
        return [*self.verdict.list_faults(), *list_true({"a gateway was taken over from": self.taken_over})]

    def list_times(self) -> list[StormTime]:
        return [StormTime("longest wait", self.longest_s, self.away_s + AFTER_S)]

    def render(self) -> str:
        return (
            f"{self.verdict.render()}; the database away for {self.away_s:.1f} s, {self.list_times()[0].render()},"
            f" {self.usual_s:.1f} s before"
        )


def run_database_storm(folder: Path, seed: int, *, size: StormSize = BUSY) -> DatabaseCounts:
    with open_cluster(folder, ("a", "b"), size.places) as (cluster, platform):
        start_all(cluster, platform, size.rooms, ECHO)
        epochs = _read_epochs(cluster)
        people = StormPeople(platform, size, seed)
        people.start()
        people.run_until(lambda: len(people.answers) >= WARM_SHARE * size.messages, "sandboxes to be started")
        begun = time.monotonic()
        people.run_until(lambda: len(people.answers) >= SHARE * size.messages, "a part to be answered")
        usual, crashed = people.find_longest_wait(begun), time.monotonic()
        cluster.server.restart("immediate")
        away = time.monotonic() - crashed
        people.run_to_the_end()
        return DatabaseCounts(
            verdict=get_verdict(people, cluster, cluster.first),
            away_s=away,
            usual_s=usual,
            longest_s=people.find_longest_wait(crashed),
            taken_over=_read_epochs(cluster) != epochs,
        )


def _read_epochs(cluster: Cluster) -> list[list[str]]:
    return cluster.query("SELECT name, epoch FROM gateways ORDER BY name")


storm(MODE, "database")(run_database_storm)
