"""A group moves from one of two gateways to the other, each with folders of its own: every file comes with it, the
conversation goes on there, and whoever is killed meanwhile, it is on one of them."""

import hashlib
import os
import random
import stat
from pathlib import Path

import pytest

from gatepost_testing.daemon import DaemonProcess
from gatepost_testing.provider import ScriptBuilder
from gatepost_testing.servers.postgres import PACKAGE, find_programs
from gatepost_testing.storms.cluster import Cluster
from gatepost_testing.waiting import block_until

from .test_gateways_place import find_place, run_two, send, wait_for_answer

pytestmark = [
    pytest.mark.alone,
    pytest.mark.skipif(find_programs() is None, reason=f"PostgreSQL is not installed: apt-get install {PACKAGE}"),
]

REMEMBERS = ScriptBuilder().turn(once=True).say("echo: begun").otherwise().say("echo: continued")
HELD = ScriptBuilder().turn("hold").wait_for("go").say("echo: {text}").otherwise().say("echo: {text}")


def list_tree(top: Path) -> dict[str, tuple[str, int, str]]:
    """By path: what it is, its mode and a hash of its content, or where a link leads."""
    found = {}
    for folder, folders, files in os.walk(top):
        for name in (*folders, *files):
            path = Path(folder) / name
            mode = path.lstat().st_mode
            if stat.S_ISLNK(mode):
                entry = ("link", 0, str(path.readlink()))
            elif stat.S_ISDIR(mode):
                entry = ("folder", mode & 0o777, "")
            elif stat.S_ISREG(mode):
                entry = ("file", mode & 0o777, hashlib.sha256(path.read_bytes()).hexdigest())
            else:
                continue
            found[str(path.relative_to(top))] = entry
    return found


def list_kept(daemon: DaemonProcess, session_id: str) -> dict[str, tuple[str, int, str]]:
    """The files of the group, and what the provider remembers."""
    state = list_tree(daemon.home / "sessions" / session_id / "state")
    return list_tree(daemon.home / "groups" / "home") | {f"state/{path}": entry for path, entry in state.items()}


def add_files(folder: Path) -> None:
    (folder / "deep" / "er").mkdir(parents=True)
    (folder / "deep" / "er" / "large.bin").write_bytes(random.Random(1).randbytes(5_000_000))
    (folder / "empty").touch()
    (folder / "run.sh").write_text("#!/bin/sh\n")
    (folder / "run.sh").chmod(0o755)
    (folder / "out").symlink_to("/etc/passwd")
    (folder / "lost").symlink_to("nowhere")
    (folder / "name with \n in it").write_text("x")
    (folder / os.fsdecode(b"no-\xff-text")).write_text("x")
    os.mkfifo(folder / "pipe")


def find_session(cluster: Cluster) -> str:
    return cluster.query("SELECT id FROM sessions WHERE folder = 'home' AND closed_at IS NULL ORDER BY id LIMIT 1")[0][
        0
    ]


def get_other(cluster: Cluster, name: str) -> str:
    return next(each for each in cluster.daemons if each != name)


def test_a_moved_group_has_every_file_and_its_conversation_goes_on(tmp_path: Path) -> None:
    with run_two(tmp_path, REMEMBERS, local=True) as (cluster, platform):
        send(platform, "one")
        wait_for_answer(platform, "begun")
        place, session_id = find_place(cluster), find_session(cluster)
        other = get_other(cluster, place)
        add_files(cluster[place].home / "groups" / "home")
        before = list_kept(cluster[place], session_id)
        there = list_tree(cluster[other].home / "groups" / "home")  # what somebody put there, and no group of it

        done = cluster[other].gatepost("group", "move", "home", other)

        assert done.returncode == 0, done.stderr
        assert f"home is on {other} now, with" in done.stdout
        assert find_place(cluster) == other
        after = list_kept(cluster[other], session_id)
        assert after == before
        kept = next((cluster[other].home / "moves").iterdir()) / "before" / "groups" / "home"
        assert list_tree(kept) == there and str(kept.parents[1]) in done.stdout
        send(platform, "two")
        wait_for_answer(platform, "begun", "continued")
        assert cluster.query("SELECT owner FROM turns ORDER BY id")[-1] == [other]
        block_until(lambda: not (cluster[place].home / "groups" / "home").exists(), "the old files to be removed")
        block_until(lambda: not (cluster[place].home / "sessions" / session_id).exists(), "the old state, too")
        assert cluster.query("SELECT COUNT(*) FROM passed_files") == [["0"]]

        back = cluster[other].gatepost("group", "move", "home", place)
        assert back.returncode == 0, back.stderr
        send(platform, "three")
        wait_for_answer(platform, "begun", "continued", "continued")
        assert find_place(cluster) == place
        assert [each["action"] for each in cluster[place].read_audit("group.move", 2)] == ["group.move"] * 2
        assert cluster[place].json("ledger", "check")["unaccounted"] == 0


def test_what_cannot_be_moved_is_named(tmp_path: Path) -> None:
    with run_two(tmp_path, HELD, local=True, groups_move_mb="1") as (cluster, platform):
        send(platform, "one")
        wait_for_answer(platform, "one")
        place = find_place(cluster)
        other = get_other(cluster, place)
        ask = cluster[place].gatepost
        for command, told in (
            (("nothing", other), "no group named 'nothing'"),
            (("home", "third"), "no gateway named 'third'"),
            (("home", place), f"home is on {place} already"),
        ):
            refused = ask("group", "move", *command)
            assert refused.returncode != 0 and told in refused.stderr, refused.stderr
        large = cluster[place].home / "groups" / "home" / "large.bin"
        large.write_bytes(bytes(2_000_000))
        refused = ask("group", "move", "home", other)
        assert refused.returncode != 0
        assert f"home stays on {place}" in refused.stderr and "groups.move_mb" in refused.stderr, refused.stderr
        large.unlink()
        send(platform, "two")  # it is run where it was
        wait_for_answer(platform, "one", "two")
        cluster[other].stop()
        refused = ask("group", "move", "home", other)
        assert refused.returncode != 0 and f"{other} is away" in refused.stderr, refused.stderr


def test_a_turn_that_runs_may_end_before_its_group_moves(tmp_path: Path) -> None:
    with run_two(tmp_path, HELD, local=True) as (cluster, platform):
        send(platform, "hold")
        block_until(lambda: sum(map(cluster.count_open_turns, "ab")) == 1, "an open turn")
        place = find_place(cluster)
        other = get_other(cluster, place)
        begun = cluster[place].gatepost("group", "move", "home", other, "--wait-s", "0")
        assert begun.returncode == 0 and "is on its way" in begun.stdout, begun.stderr
        send(platform, "later")
        (cluster[place].home / "groups" / "home" / "go").touch()
        done = cluster[place].gatepost("group", "move", "home", other)
        assert done.returncode == 0 and f"home is on {other} now" in done.stdout, done.stderr
        wait_for_answer(platform, "hold", "later")


@pytest.mark.parametrize("victim", ["source", "target"])
@pytest.mark.parametrize("state", ["wanted", "packed", "arrived"])
def test_whoever_is_killed_the_group_is_on_one_gateway_and_moves_when_asked_again(
    tmp_path: Path, victim: str, state: str
) -> None:
    """Killed as soon as the move is in a state; some of the steps are over by then, which must not matter."""
    with run_two(tmp_path, REMEMBERS, local=True) as (cluster, platform):
        send(platform, "one")
        wait_for_answer(platform, "begun")
        source, session_id = find_place(cluster), find_session(cluster)
        target = get_other(cluster, source)
        folder = cluster[source].home / "groups" / "home"
        add_files(folder)
        (folder / "pipe").unlink()
        before = list_kept(cluster[source], session_id)
        states = "SELECT state FROM group_moves ORDER BY created_at DESC LIMIT 1"
        order = ["wanted", "packed", "arrived", "done", "failed"]
        begun = cluster[source].gatepost("group", "move", "home", target, "--wait-s", "0")
        assert begun.returncode == 0, begun.stderr
        block_until(lambda: order.index(cluster.query(states)[0][0]) >= order.index(state), f"it to be {state}")
        killed = source if victim == "source" else target
        cluster[killed].kill()
        place = find_place(cluster)
        cluster[killed].start()
        block_until(lambda: is_alive(cluster, killed), "it to be back")
        left = get_other(cluster, killed)
        again = cluster[left].gatepost("group", "move", "home", target)
        if again.returncode:
            assert f"home is on {target} already" in again.stderr, again.stderr
        assert place in (source, target) and find_place(cluster) == target
        assert list_kept(cluster[target], session_id) == before
        block_until(lambda: cluster.query(states) == [["done"]], "the move to end")
        assert not folder.exists() and not (cluster[source].home / "sessions" / session_id).exists()
        send(platform, "two")
        wait_for_answer(platform, "begun", "continued")
        assert cluster.query("SELECT COUNT(*) FROM passed_files") == [["0"]]


def is_alive(cluster: Cluster, name: str) -> bool:
    return any(each["name"] == name and each["alive"] for each in cluster[name].json("gateway", "list"))
