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
from .test_gateways_killed import ECHO, list_answers, prepare, render_settings

pytestmark = pytest.mark.skipif(
    find_programs() is None, reason=f"PostgreSQL is not installed: apt-get install {PACKAGE}"
)


@pytest.mark.slow
def test_a_database_that_crashes_and_comes_back_loses_and_doubles_nothing(
    tmp_path: Path, figures: Callable[[str], None]
) -> None:
    rooms, count = 10, 200
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
        epochs = cluster.query("SELECT name, epoch FROM gateways ORDER BY name")
        sent = [f"m{number}" for number in range(count)]
        for number, text in enumerate(sent):
            platform.send(text, room=f"direct:p{number % rooms}", sender=f"p{number % rooms}")
        assert platform.wait_for(lambda: len(list_answers(platform)) >= 0.3 * count, 2 * PATIENCE_S)

        begun = time.monotonic()
        cluster.server.restart("immediate")
        away = time.monotonic() - begun

        assert platform.wait_for(lambda: len(set(list_answers(platform))) == count, 2 * PATIENCE_S), sorted(
            set(sent) - set(list_answers(platform))
        )
        block_until(lambda: cluster.first.json("ledger", "check")["in_flight"] == 0, "everything to be settled")
        answers = list_answers(platform)
        assert Counter(answers) == Counter(sent)
        for room in range(rooms):
            own = [each for each in answers if int(each[1:]) % rooms == room]
            assert own == sorted(own, key=lambda each: int(each[1:]))
        assert cluster.first.json("ledger", "check")["unaccounted"] == 0
        assert cluster.query("SELECT name, epoch FROM gateways ORDER BY name") == epochs
        figures(f"{count} messages, the database away for {away:.1f} s: all answered once, nobody taken over")
