"""Where groups lie among two gateways: on one of them, whose messages wait while it is away; or in a shared folder,
where a conversation goes on elsewhere."""

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gatepost.flow.gateways.duties import channel_duty
from gatepost.flow.gateways.group_place import AWAY_NOTICE
from gatepost_testing.platforms.base import GivenFile
from gatepost_testing.platforms.telegram import TelegramPlatform
from gatepost_testing.provider import ScriptBuilder
from gatepost_testing.servers.postgres import PACKAGE, find_programs
from gatepost_testing.storms.cluster import Cluster
from gatepost_testing.storms.storm import list_answers, prepare, render_settings
from gatepost_testing.waiting import PATIENCE_S, block_until

from .channel_desk import SETTINGS

pytestmark = pytest.mark.skipif(
    find_programs() is None, reason=f"PostgreSQL is not installed: apt-get install {PACKAGE}"
)

ECHO = ScriptBuilder().otherwise().say("echo: {text}")


@contextmanager
def run_two(
    folder: Path,
    script: ScriptBuilder,
    *,
    local: bool,
    before: Callable[[Cluster], None] = lambda cluster: None,
    **settings: str,
) -> Iterator[tuple[Cluster, TelegramPlatform]]:
    """`before`: what is done to their homes before they start."""
    with (
        TelegramPlatform() as platform,
        Cluster(folder, ("a", "b"), render_settings(platform), local=local, **{**SETTINGS, **settings}) as cluster,
    ):
        before(cluster)
        prepare(cluster, platform)
        for daemon in cluster.daemons.values():
            daemon.start()
            place = daemon.home / "groups" / "home"
            place.mkdir(mode=0o711, exist_ok=True)  # where the group lies elsewhere, nobody has made it
            script.write(place).chmod(0o644)
        block_until(lambda: bool(cluster.find_holder(channel_duty("telegram"))), "a gateway to listen")
        yield cluster, platform


def send(platform: TelegramPlatform, text: str) -> None:
    platform.send(text, room="direct:ann", sender="ann")


def wait_for_answer(platform: TelegramPlatform, *texts: str) -> None:
    assert platform.wait_for(lambda: list_answers(platform) == list(texts), 2 * PATIENCE_S), list_answers(platform)


def count_notices(platform: TelegramPlatform) -> int:
    with platform.changed:
        return sum(AWAY_NOTICE in each.text for each in platform.record)


def find_place(cluster: Cluster) -> str:
    return cluster.query("SELECT gateway FROM group_places WHERE world = 'home'")[0][0]


@pytest.mark.alone
def test_a_group_waits_for_its_gateway_and_its_people_are_told_once(tmp_path: Path) -> None:
    with run_two(tmp_path, ECHO, local=True, groups_away_notice_s="1") as (cluster, platform):
        send(platform, "one")
        wait_for_answer(platform, "one")
        place = find_place(cluster)
        settled = "it to be settled: else the agent is told of an answer that may have been sent"
        block_until(lambda: cluster[place].json("ledger", "check")["in_flight"] == 0, settled)
        cluster[place].kill()
        for text in ("two", "three"):
            send(platform, text)
        assert platform.wait_for(lambda: count_notices(platform) == 1, 2 * PATIENCE_S)
        left = next(each for name, each in cluster.daemons.items() if name != place)
        assert list_answers(platform) == ["one"]
        assert left.json("ledger", "check")["unaccounted"] == 0
        cluster[place].start()
        assert platform.wait_for(lambda: len(list_answers(platform)) >= 2, 2 * PATIENCE_S)
        block_until(lambda: left.json("ledger", "check")["in_flight"] == 0, "everything to be settled")
        assert count_notices(platform) == 1
        assert cluster.query("SELECT COUNT(*) FROM inbox WHERE state = 'answered'") == [["3"]]


@pytest.mark.alone
def test_a_gateway_that_sees_another_folder_does_not_start(tmp_path: Path) -> None:
    with Cluster(tmp_path, ("a", "b"), **SETTINGS) as cluster:
        cluster["a"].start()
        other = tmp_path / "not mounted"
        other.mkdir()
        done = cluster["b"].gatepost("up", env={"GATEPOST_GROUPS_SHARED_FOLDER": str(other)})
        assert done.returncode == 1
        assert f"{other} is not the shared folder: gateway 'b' does not see there what gateway 'a' put" in done.stderr


@pytest.mark.alone
def test_a_conversation_in_a_shared_folder_goes_on_elsewhere(tmp_path: Path) -> None:
    remembers = ScriptBuilder().turn(once=True).say("echo: begun").otherwise().say("echo: continued")
    with run_two(tmp_path, remembers, local=False) as (cluster, platform):
        send(platform, "one")
        wait_for_answer(platform, "begun")
        sessions = cluster.query("SELECT id, owner FROM sessions WHERE owner <> ''")
        assert len(sessions) == 1
        [(session_id, owner)] = sessions
        cluster[owner].kill()
        send(platform, "two")
        wait_for_answer(platform, "begun", "continued")
        left = next(name for name in cluster.daemons if name != owner)
        assert [row[0] for row in cluster.query("SELECT DISTINCT owner FROM turns ORDER BY owner")] == ["a", "b"]
        assert (cluster.shared_folder / "sessions" / session_id / "state").is_dir()
        assert not (cluster.shared_folder / "sessions" / session_id / "in" / "inbound.db").exists()
        assert (cluster[left].home / "mailboxes" / session_id / "in" / "inbound.db").exists()


@pytest.mark.alone
@pytest.mark.parametrize("size", [1000, 20_000_000])
def test_files_come_and_go_where_the_agent_is_not(tmp_path: Path, size: int) -> None:
    gives_back = ScriptBuilder().otherwise().call("send_file", filepath="report.bin").say("echo: sent")
    data = random.Random(size).randbytes(size)
    with run_two(tmp_path, gives_back, local=True, delivery_timeout_s="20") as (cluster, platform):
        holder = cluster.find_holder(channel_duty("telegram"))
        place = next(name for name in cluster.daemons if name != holder)
        cluster.query(
            f"INSERT INTO group_places (world, gateway, since) VALUES ('home', '{place}', 0)"
            " ON CONFLICT (world) DO UPDATE SET gateway = excluded.gateway"
        )
        report = cluster[place].home / "groups" / "home" / "report.bin"
        report.write_bytes(data[::-1])
        report.chmod(0o644)
        given = GivenFile("given.bin", data)
        platform.send("take this", room="direct:ann", sender="ann", files=[given])
        wait_for_answer(platform, "sent")
        with platform.changed:
            sent = [file.data for each in platform.record if each.sender == "bot" for file in each.files]
        assert sent == [data[::-1]]
        assert cluster.find_holder(channel_duty("telegram")) == holder
        received = [path.read_bytes() for path in (cluster[place].home / "media" / "in").glob("*/given.bin")]
        assert received == [data]
        left = "SELECT COUNT(*) FROM passed_files WHERE name >= '/' AND name < '0'"
        block_until(lambda: cluster.query(left) == [["0"]], "the pieces that were sent to be removed")


@pytest.mark.alone
def test_a_home_that_starts_under_another_name_answers_for_the_groups_that_it_has(tmp_path: Path) -> None:
    """As a container that is made anew with the same volume: its host name is another one."""
    with run_two(tmp_path, ECHO, local=True, groups_away_notice_s="1") as (cluster, platform):
        send(platform, "one")
        wait_for_answer(platform, "one")
        place = find_place(cluster)
        daemon = cluster[place]
        block_until(lambda: daemon.json("ledger", "check")["in_flight"] == 0, "everything to be settled")
        daemon.kill()
        daemon.env["GATEPOST_GATEWAY_NAME"] = "anew"
        assert daemon.gatepost("group", "show", "home").returncode == 0
        daemon.start()
        send(platform, "two")
        wait_for_answer(platform, "one", "two")
        assert find_place(cluster) == "anew"
        known = {each["name"]: each["alive"] for each in daemon.json("gateway", "list")}
        assert known == {name: True for name in (*cluster.daemons, "anew") if name != place}
        assert daemon.gatepost("audit", "verify").returncode == 0
        assert count_notices(platform) == 0
