"""A gateway that is killed is told of by another one, once, and its return once."""

from pathlib import Path

import pytest

from gatepost_testing.platforms.telegram import TelegramPlatform
from gatepost_testing.provider import ScriptBuilder
from gatepost_testing.servers.postgres import PACKAGE, find_programs
from gatepost_testing.waiting import PATIENCE_S

from .test_gateways_place import run_two, send, wait_for_answer

pytestmark = [
    pytest.mark.alone,
    pytest.mark.skipif(find_programs() is None, reason=f"PostgreSQL is not installed: apt-get install {PACKAGE}"),
]

ECHO = ScriptBuilder().otherwise().say("echo: {text}")
GONE = "The gateway {} is gone. Others do its work until you start it again, or forget it under Gateways."
BACK = "The gateway {} is back, or forgotten."


def wait_for_text(platform: TelegramPlatform, text: str) -> None:
    def is_there() -> bool:
        return any(each.text == text for each in platform.record)

    assert platform.wait_for(is_there, 3 * PATIENCE_S), [each.text for each in platform.record]


def test_a_killed_gateway_is_told_of_once_and_its_return_once(tmp_path: Path) -> None:
    with run_two(tmp_path, ECHO, local=False) as (cluster, platform):
        send(platform, "one")
        wait_for_answer(platform, "one")
        dead = "b" if cluster.find_holder("alerts") == "b" else "a"
        alive = "a" if dead == "b" else "b"
        cluster[dead].kill()
        wait_for_text(platform, GONE.format(dead))
        (row,) = [each for each in cluster[alive].json("alert", "list") if each["condition"] == "gateway"]
        assert (row["subject"], row["told"]) == (dead, "telegram")
        cluster[dead].start()
        wait_for_text(platform, BACK.format(dead))
        with platform.changed:
            said = [each.text for each in platform.record]
        assert said.count(GONE.format(dead)) == said.count(BACK.format(dead)) == 1
