"""A gateway with folders of its own never comes back: another runs its groups without the files that it had, answers
what waited, and goes on alone if the machine should come back after all."""

from pathlib import Path

import pytest

from gatepost_testing.daemon import DaemonProcess
from gatepost_testing.provider import ScriptBuilder
from gatepost_testing.servers.postgres import PACKAGE, find_programs
from gatepost_testing.storms.cluster import Cluster
from gatepost_testing.waiting import block_until

from .test_gateways_moved import get_other, list_tree
from .test_gateways_place import find_place, run_two, send, wait_for_answer

pytestmark = [
    pytest.mark.alone,
    pytest.mark.skipif(find_programs() is None, reason=f"PostgreSQL is not installed: apt-get install {PACKAGE}"),
]

HELD = (
    ScriptBuilder()
    .turn("first", once=True)
    .say("echo: begun")
    .turn("hold")
    .wait_for("go")
    .say("echo: {text}")
    .otherwise()
    .say("echo: {text}")
)


def refuse(daemon: DaemonProcess, *command: str) -> str:
    """Why it is refused."""
    done = daemon.gatepost(*command)
    assert done.returncode != 0, done.stdout
    return done.stderr


def lose(cluster: Cluster, name: str) -> None:
    cluster[name].kill()
    gone = f"SELECT state FROM gateways WHERE name = '{name}'"
    block_until(lambda: cluster.query(gone) == [["gone"]], "somebody to take over from it")


def test_a_group_of_a_lost_gateway_is_answered_elsewhere_and_by_nobody_else(tmp_path: Path) -> None:
    with run_two(tmp_path, HELD, local=True) as (cluster, platform):
        send(platform, "first")
        wait_for_answer(platform, "begun")
        source = find_place(cluster)
        target = get_other(cluster, source)
        left, move = cluster[target], ("group", "move", "home", target)
        assert f"{source} runs and has the files of home; move it with them" in refuse(left, *move, "--without-files")
        send(platform, "hold")
        block_until(lambda: cluster.count_open_turns(source) == 1, "an open turn")

        lose(cluster, source)
        before = list_tree(cluster[source].home / "groups"), list_tree(cluster[source].home / "sessions")
        send(platform, "later")
        assert "--without-files moves the group without them" in refuse(left, *move)
        told = refuse(left, "gateway", "forget", source)
        assert f"groups lie on {source}: home" in told and "group move home GATEWAY --without-files" in told
        done = left.gatepost(*move, "--without-files")

        assert done.returncode == 0, done.stderr
        assert f"home is on {target} now, with what lies in its folder there" in done.stdout
        assert f"its files stayed on {source}, and its conversations begin anew" in done.stdout
        made = left.home / "groups" / "home"
        (made / "go").touch()
        wait_for_answer(platform, "begun", "hold", "later")
        send(platform, "first")  # which is new to a conversation that began anew
        wait_for_answer(platform, "begun", "hold", "later", "begun")
        [row] = left.read_audit("group.move")
        assert row["details"]["without_files"] is True and row["details"]["source"] == source

        cluster[source].start()
        for text in ("again", "thrice"):
            send(platform, text)
        wait_for_answer(platform, "begun", "hold", "later", "begun", "again", "thrice")
        block_until(lambda: left.json("ledger", "check")["in_flight"] == 0, "everything to be settled")
        answered = "inbox i JOIN messages m ON m.id = i.message_id WHERE i.state = 'answered' AND m.kind = 'chat'"
        assert cluster.query(f"SELECT COUNT(*) FROM {answered}") == [["6"]]
        assert find_place(cluster) == target
        after = list_tree(cluster[source].home / "groups"), list_tree(cluster[source].home / "sessions")
        assert after == before
        assert left.json("ledger", "check")["unaccounted"] == 0


def test_a_lost_gateway_is_forgotten_once_its_groups_lie_elsewhere(tmp_path: Path) -> None:
    with run_two(tmp_path, HELD, local=True) as (cluster, platform):
        send(platform, "one")
        wait_for_answer(platform, "one")
        source = find_place(cluster)
        target = get_other(cluster, source)
        left = cluster[target]
        assert cluster[source].gatepost("group", "add", "acme").returncode == 0
        assert cluster[source].gatepost("group", "add", "acme/eng", "--name", "Eng").returncode == 0
        kept = left.home / "groups" / "acme"
        kept.mkdir()
        (kept / "AGENTS.md").write_text("of a backup")
        lose(cluster, source)
        for world in [row[0] for row in cluster.query(f"SELECT world FROM group_places WHERE gateway = '{source}'")]:
            assert world in refuse(left, "gateway", "forget", source)
            done = left.gatepost("group", "move", world, target, "--without-files")
            assert done.returncode == 0, done.stderr

        assert left.gatepost("gateway", "forget", source).returncode == 0
        assert (kept / "AGENTS.md").read_text() == "of a backup"
        assert "Eng" in (kept / "eng" / "AGENTS.md").read_text() and (kept / "eng" / "work.md").exists()
        send(platform, "two")
        wait_for_answer(platform, "one", "two")
