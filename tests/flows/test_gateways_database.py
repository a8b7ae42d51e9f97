"""Two gateways whose database goes away in the middle of the work, and comes back: everything is answered once, and
nobody takes over from anybody."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from gatepost.testing.cluster import Cluster
from gatepost.testing.postgres import PACKAGE, find_programs
from gatepost.testing.storms import ECHO, SEED, StormPeople, StormSize, get_verdict, open_cluster, start_all

pytestmark = pytest.mark.skipif(
    find_programs() is None, reason=f"PostgreSQL is not installed: apt-get install {PACKAGE}"
)
SIZE = StormSize(rooms=20, messages=1000, open_turns=0, places=20)


def read_epochs(cluster: Cluster) -> list[list[str]]:
    return cluster.query("SELECT name, epoch FROM gateways ORDER BY name")


@pytest.mark.slow
def test_a_database_that_crashes_and_comes_back_loses_and_doubles_nothing(
    tmp_path: Path, figures: Callable[[str], None]
) -> None:
    with open_cluster(tmp_path, ("a", "b"), SIZE.places) as (cluster, platform):
        start_all(cluster, platform, SIZE.rooms, ECHO)
        epochs = read_epochs(cluster)
        people = StormPeople(platform, SIZE, SEED)
        people.start()
        people.run_until(lambda: len(people.answers) >= 0.1 * SIZE.messages, "sandboxes to be started")
        begun = time.monotonic()
        people.run_until(lambda: len(people.answers) >= 0.3 * SIZE.messages, "a part to be answered")
        usual = people.find_longest_wait(begun)

        crashed = time.monotonic()
        cluster.server.restart("immediate")
        away = time.monotonic() - crashed

        people.run_to_the_end()
        verdict = get_verdict(people, cluster.first)
        assert verdict.list_faults() == []
        assert read_epochs(cluster) == epochs
        figures(
            f"{verdict.render()}; the database away for {away:.1f} s, nobody taken over, the longest wait"
            f" {people.find_longest_wait(crashed):.1f} s ({usual:.1f} s before)"
        )
