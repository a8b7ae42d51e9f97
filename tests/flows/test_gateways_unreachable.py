"""Two gateways, of which one cannot reach the platform of a channel that it has."""

from pathlib import Path

import pytest

from gatepost.flow.gateways.duties import channel_duty
from gatepost_testing.servers.postgres import PACKAGE, find_programs
from gatepost_testing.storms.cluster import Cluster
from gatepost_testing.waiting import block_until

from .test_gateways_place import ECHO, run_two, send, wait_for_answer

pytestmark = [
    pytest.mark.alone,
    pytest.mark.skipif(find_programs() is None, reason=f"PostgreSQL is not installed: apt-get install {PACKAGE}"),
]

CHAT = channel_duty("telegram")


def cut_off_first(cluster: Cluster) -> None:
    """Where it looks for the platform, nobody answers."""
    toml = cluster["a"].home / "gatepost.toml"
    lines = [
        'api_url = "http://127.0.0.1:1"' if line.startswith("api_url") else line
        for line in toml.read_text().split("\n")
    ]
    assert 'api_url = "http://127.0.0.1:1"' in lines
    toml.write_text("\n".join(lines))


def test_a_channel_that_its_gateway_cannot_reach_is_answered_on_by_another(tmp_path: Path) -> None:
    with run_two(tmp_path, ECHO, local=False, before=cut_off_first, gateways_give_up_s="1") as (cluster, platform):
        for text in ("one", "two", "three"):
            send(platform, text)
        wait_for_answer(platform, "one", "two", "three")
        assert cluster.find_holder(CHAT) == "b"


def test_every_gateway_shows_how_a_channel_is_where_it_is_held(tmp_path: Path) -> None:
    with run_two(tmp_path, ECHO, local=False, before=cut_off_first, gateways_give_up_s="3600") as (cluster, _):
        assert cluster.find_holder(CHAT) == "a"
        b = cluster["b"]
        block_until(lambda: "telegram is retrying: on gateway a" in b.gatepost("doctor").stdout, "the doctor to see it")
        assert "telegram is retrying: on gateway a" in b.gatepost("status").stdout
        [item] = [each for each in b.json("channel", "list") if each["instance"] == "telegram"]
        assert item["state"] == "retrying" and item["error"].startswith("on gateway a: ")


def test_duties_spread_over_the_gateways_that_run(tmp_path: Path) -> None:
    with run_two(tmp_path, ECHO, local=False) as (cluster, platform):

        def count() -> list[int]:
            return sorted(len(each["duties"]) for each in cluster["a"].json("gateway", "list"))

        block_until(
            lambda: sum(count()) >= 13 and count()[0] >= sum(count()) // 2, f"the duties to spread, of {count()}"
        )
        send(platform, "one")
        wait_for_answer(platform, "one")
        cluster["a"].kill()
        send(platform, "two")
        wait_for_answer(platform, "one", "two")
