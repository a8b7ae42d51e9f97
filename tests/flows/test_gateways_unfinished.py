"""What people see unfinished when a gateway is killed: a tool call that waits for somebody's word, and an answer that
grows. The other gateway goes on with both, and neither is there twice."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gatepost_testing.platforms.base import ShownMessage
from gatepost_testing.platforms.slack import SlackPlatform
from gatepost_testing.provider import ScriptBuilder
from gatepost_testing.servers.postgres import PACKAGE, find_programs
from gatepost_testing.storms.cluster import Cluster
from gatepost_testing.storms.storm import QUICK, count_unaccounted, run_command
from gatepost_testing.waiting import PATIENCE_S, block_until

pytestmark = [
    pytest.mark.alone,
    pytest.mark.skipif(find_programs() is None, reason=f"PostgreSQL is not installed: apt-get install {PACKAGE}"),
]
NAMES = ("a", "b")
HELD, FIRST, SAID = "the secret plan", "The unfinished", "The unfinished symphony is whole."
GO = "go"  # a file in the group's folder
SCRIPT = (
    ScriptBuilder()
    .turn("careful")
    .call("send", text=HELD)
    .say("asked")
    .turn("play")
    .draft(FIRST)
    .wait_for(GO)
    .say(SAID)
    .otherwise()
    .say("echo: {text}")
)


@pytest.fixture
def platform() -> Iterator[SlackPlatform]:
    with SlackPlatform() as started:
        yield started


@pytest.fixture
def cluster(tmp_path: Path, platform: SlackPlatform) -> Iterator[Cluster]:
    lines = ["[channels.slack]", 'kind = "slack"', "drafts = true"]
    lines += [f"{name} = {json.dumps(value)}" for name, value in platform.get_settings().items()]
    with Cluster(tmp_path, NAMES, "\n".join(lines) + "\n", **QUICK) as cluster:
        first, ann = cluster.first, platform.get_sender("ann")
        for name, value in platform.get_secrets().items():
            run_command(first, "secret", "set", f"CHANNEL_SLACK_{name}".upper(), value)
        run_command(first, "user", "add", ann, "--name", "Ann")
        run_command(first, "user", "role", ann, "owner")
        run_command(first, "room", "policy", platform.get_address("team"), "public")
        cluster.share_keys()
        for daemon in cluster.daemons.values():
            daemon.start()
        SCRIPT.write(cluster.shared_folder / "groups" / "home").chmod(0o644)
        yield cluster


def wait_for(platform: SlackPlatform, wanted: Callable[[ShownMessage], bool], room: str) -> ShownMessage:
    found: list[ShownMessage] = []

    def holds() -> bool:
        found[:] = [each for each in platform.list_shown(room) if wanted(each)]
        return bool(found)

    assert platform.wait_for(holds, 2 * PATIENCE_S), f"waited in vain; the bot said: {platform.texts()}"
    return found[-1]


def find_owner(cluster: Cluster) -> str:
    """Return who runs the session of the team."""
    found: list[str] = []

    def look() -> bool:
        rows = cluster.query("SELECT s.owner FROM sessions s JOIN turns t ON t.session_id = s.id ORDER BY t.begun_at")
        found[:] = [rows[-1][0]] if rows else []
        return any(found)

    block_until(look, "a gateway to run it")
    return found[0]


def find_other(name: str) -> str:
    return next(each for each in NAMES if each != name)


@pytest.mark.parametrize("answered", ["before", "after"])
def test_a_held_call_of_a_killed_gateway_runs_once_when_it_is_allowed(
    platform: SlackPlatform, cluster: Cluster, answered: str
) -> None:
    """Allowed right before the kill, or while nobody has taken over yet."""
    run_command(cluster.first, "grant", "add", "home", "hold send")
    platform.send("good morning", room="direct:ann")
    wait_for(platform, lambda each: "echo: good morning" in each.text, "direct:ann")
    platform.send("be careful", room="team", mention=True)
    card = wait_for(platform, lambda each: "wants to send" in each.text, "direct:ann")
    killed = find_owner(cluster)
    if answered == "before":
        platform.click("direct:ann", card.id, "Allow once")
    cluster[killed].kill()
    if answered == "after":
        platform.click("direct:ann", card.id, "Allow once")
    wait_for(platform, lambda each: each.text.strip() == HELD, "team")
    left = cluster[find_other(killed)]
    assert count_unaccounted(left) == 0
    assert sum(each.strip() == HELD for each in platform.texts("team")) == 1
    rows = cluster.query("SELECT state, settled_at IS NOT NULL, notified_at IS NOT NULL FROM requests")
    assert rows == [["allowed", "t", "t"]]


def test_an_answer_that_a_killed_gateway_let_grow_becomes_one_message_of_the_other(
    platform: SlackPlatform, cluster: Cluster
) -> None:
    platform.send("play", room="team", mention=True)
    wait_for(platform, lambda each: FIRST in each.text, "team")
    killed = find_owner(cluster)
    cluster[killed].kill()
    (cluster.shared_folder / "groups" / "home" / GO).touch()
    wait_for(platform, lambda each: each.text.strip() == SAID, "team")
    assert count_unaccounted(cluster[find_other(killed)]) == 0
    block_until(lambda: len(platform.texts("team")) == 1, f"what was unfinished to go: {platform.texts('team')}")
    assert platform.texts("team") == [SAID]
