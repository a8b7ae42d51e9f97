"""Two gateways on one database, one of them killed. The platform's own record is the judge: each message is answered
once, in the order of its room."""

import re
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from gatepost.flow.gateways.duties import channel_duty
from gatepost.testing.cluster import Cluster
from gatepost.testing.platforms.telegram import TelegramPlatform
from gatepost.testing.postgres import PACKAGE, find_programs
from gatepost.testing.provider import ScriptBuilder
from gatepost.testing.waiting import PATIENCE_S, block_until

from .channel_desk import SETTINGS

pytestmark = pytest.mark.skipif(
    find_programs() is None, reason=f"PostgreSQL is not installed: apt-get install {PACKAGE}"
)

ECHO = ScriptBuilder().otherwise().say("echo: {text}")


def list_answers(platform: TelegramPlatform) -> list[str]:
    """What was answered, in the order in which people saw it."""
    with platform.changed:
        shown = [each.text for each in platform.record if each.sender == "bot"]
    return [found[1] for text in shown if (found := re.search(r"echo: (\w+)", text))]


def prepare(cluster: Cluster, platform: TelegramPlatform) -> None:
    first = cluster.first
    for name, value in platform.get_secrets().items():
        assert first.gatepost("secret", "set", f"CHANNEL_TELEGRAM_{name}".upper(), value).returncode == 0
    ann = platform.get_sender("ann")
    for command in (("user", "add", ann, "--name", "Ann"), ("user", "role", ann, "owner")):
        done = first.gatepost(*command)
        assert done.returncode == 0, done.stderr
    cluster.share_keys()


def render_settings(platform: TelegramPlatform) -> str:
    lines = ["[channels.telegram]", 'kind = "telegram"']
    lines += [
        f'{name} = "{value}"' if isinstance(value, str) else f"{name} = {value}"
        for name, value in platform.get_settings().items()
    ]
    return "\n".join(lines) + "\n"


@pytest.mark.slow
@pytest.mark.parametrize("victim", ["holder", "other"])
def test_what_a_killed_gateway_had_is_answered_once_by_the_other(
    tmp_path: Path, figures: Callable[[str], None], victim: str
) -> None:
    rooms, count = 10, 100
    with (
        TelegramPlatform() as platform,
        Cluster(tmp_path, ("a", "b"), render_settings(platform), **SETTINGS) as cluster,
    ):
        prepare(cluster, platform)
        for daemon in cluster.daemons.values():
            daemon.start()
            ECHO.write(daemon.home / "groups" / "home").chmod(0o644)
        duty = channel_duty("telegram")
        block_until(lambda: bool(cluster.find_holder(duty)), "a gateway to listen")
        holder = cluster.find_holder(duty)
        for room in range(rooms):
            platform.get_address(f"direct:p{room}")
            assert (
                cluster.first.gatepost("room", "policy", platform.get_address(f"direct:p{room}"), "public").returncode
                == 0
            )
        sent = [f"m{number}" for number in range(count)]
        for number, text in enumerate(sent):
            platform.send(text, room=f"direct:p{number % rooms}", sender=f"p{number % rooms}")
        assert platform.wait_for(lambda: len(list_answers(platform)) >= 0.4 * count, 2 * PATIENCE_S)
        killed = holder if victim == "holder" else next(name for name in cluster.daemons if name != holder)
        cluster[killed].kill()
        begun = time.monotonic()
        assert platform.wait_for(lambda: len(set(list_answers(platform))) == count, 2 * PATIENCE_S), sorted(
            set(sent) - set(list_answers(platform))
        )
        took = time.monotonic() - begun
        left = next(each for name, each in cluster.daemons.items() if name != killed)
        block_until(lambda: left.json("ledger", "check")["in_flight"] == 0, "everything to be settled")
        answers = list_answers(platform)
        assert Counter(answers) == Counter(sent)
        for room in range(rooms):
            own = [each for each in answers if int(each[1:]) % rooms == room]
            assert own == sorted(own, key=lambda each: int(each[1:]))
        assert left.json("ledger", "check")["unaccounted"] == 0
        figures(f"{count} messages, the {victim} killed: all answered once, the last {took:.1f} s after the kill")
