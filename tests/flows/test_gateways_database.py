"""Two gateways whose database goes away in the middle of the work, and comes back: everything is answered once, and
nobody takes over from anybody."""

import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from gatepost.flow.gateways.duties import channel_duty
from gatepost.testing.cluster import Cluster
from gatepost.testing.platforms.telegram import TelegramPlatform
from gatepost.testing.postgres import PACKAGE, find_programs
from gatepost.testing.waiting import PATIENCE_S, block_until

from .channel_desk import SETTINGS
from .paced_people import PacedPeople
from .test_gateways_killed import ECHO, list_answers, prepare, render_settings

pytestmark = pytest.mark.skipif(
    find_programs() is None, reason=f"PostgreSQL is not installed: apt-get install {PACKAGE}"
)


def read_epochs(cluster: Cluster) -> list[list[str]]:
    return cluster.query("SELECT name, epoch FROM gateways ORDER BY name")


@pytest.mark.slow
def test_a_database_that_crashes_and_comes_back_loses_and_doubles_nothing(
    tmp_path: Path, figures: Callable[[str], None]
) -> None:
    rooms, count = 20, 1000
    with (
        TelegramPlatform() as platform,
        Cluster(tmp_path, ("a", "b"), render_settings(platform), **SETTINGS) as cluster,
    ):
        prepare(cluster, platform)
        for daemon in cluster.daemons.values():
            daemon.start()
            ECHO.write(daemon.home / "groups" / "home").chmod(0o644)
        block_until(lambda: bool(cluster.find_holder(channel_duty("telegram"))), "a gateway to listen")
        for room in range(rooms):
            done = cluster.first.gatepost("room", "policy", platform.get_address(f"direct:p{room}"), "public")
            assert done.returncode == 0, done.stderr
        epochs = read_epochs(cluster)
        people = PacedPeople(platform, rooms, count)
        people.start()
        assert people.run_until(lambda: len(people.waits) >= 0.3 * count, 4 * PATIENCE_S), len(people.waits)
        usual = max(list(people.waits.values())[rooms:])  # after the first of each, for which a sandbox started

        begun = time.monotonic()
        cluster.server.restart("immediate")
        away = time.monotonic() - begun

        assert people.run_to_the_end(8 * PATIENCE_S), sorted(set(people.sent) - set(people.waits))
        block_until(lambda: cluster.first.json("ledger", "check")["in_flight"] == 0, "everything to be settled")
        assert Counter(list_answers(platform)) == Counter(people.sent)
        for person in range(rooms):
            assert people.list_of(person) == sorted(people.list_of(person), key=lambda each: int(each[1:]))
        assert cluster.first.json("ledger", "check")["unaccounted"] == 0
        assert read_epochs(cluster) == epochs
        longest = max(list(people.waits.values())[rooms:])
        figures(
            f"{count} messages, the database away for {away:.1f} s: all answered once, nobody taken over, the longest"
            f" wait {longest:.1f} s ({usual:.1f} s before)"
        )
