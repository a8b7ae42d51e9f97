"""A group that cannot move to another gateway, or not yet: why is said, it stays whole where it is, is answered there,
and nothing of it is left at the other one."""

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from gatepost_testing.daemon import DaemonProcess
from gatepost_testing.provider import ScriptBuilder
from gatepost_testing.repositories import repository
from gatepost_testing.servers.postgres import PACKAGE, find_programs
from gatepost_testing.storms.cluster import Cluster
from gatepost_testing.waiting import block_until

from .test_gateways_moved import find_session, get_other, list_kept, list_tree
from .test_gateways_place import ECHO, find_place, run_two, send, wait_for_answer
from .worktree_desk import needs_bwrap

pytestmark = [
    pytest.mark.alone,
    pytest.mark.skipif(find_programs() is None, reason=f"PostgreSQL is not installed: apt-get install {PACKAGE}"),
]
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts a small disk")
SMALL_MB = 6
SMALLEST = 10  # bytes of a file that takes a whole page of a disk
HELD = ScriptBuilder().turn("hold").wait_for("go").say("echo: {text}").otherwise().say("echo: {text}")


@contextmanager
def mounted_disks(below: str = "") -> Iterator[Callable[[Cluster], None]]:
    """A small disk for the home of `b`, or for a folder of it, for as long as the block lasts."""
    mounted: list[Path] = []

    def mount(cluster: Cluster) -> None:
        home = cluster["b"].home
        settings = (home / "gatepost.toml").read_text()
        (home / below).mkdir(mode=0o711, exist_ok=True)
        options = f"size={SMALL_MB}m,mode=0711"
        subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(home / below)], check=True)
        mounted.append(home / below)
        (home / "gatepost.toml").write_text(settings)

    try:
        yield mount
    finally:
        for each in mounted:
            subprocess.run(["umount", "-l", str(each)], check=True)


def grow_disk(place: Path) -> None:
    subprocess.run(["mount", "-o", "remount,size=200m", str(place)], check=True)


def ask_to_move(daemon: DaemonProcess, gateway: str) -> str:
    """Why it is refused."""
    refused = daemon.gatepost("group", "move", "home", gateway)
    assert refused.returncode != 0, refused.stdout
    return refused.stderr


def add_many(folder: Path) -> None:
    """Little to read, and more pages than the small disk has."""
    (folder / "many").mkdir()
    for number in range(SMALL_MB * 1024**2 // 4096 + 100):
        (folder / "many" / str(number)).write_bytes(b"x" * SMALLEST)


def add_large(folder: Path) -> None:
    (folder / "large").write_bytes(bytes((SMALL_MB + 2) * 1024**2))


@needs_root
@pytest.mark.parametrize(
    ("fill", "why"), [(add_large, f"{SMALL_MB + 2} MB are to come, and"), (add_many, "No space left on device")]
)
def test_where_the_disk_is_full_it_stays_and_it_moves_once_there_is_room(
    tmp_path: Path, fill: Callable[[Path], None], why: str
) -> None:
    with mounted_disks() as mount, run_two(tmp_path, ECHO, local=True, before=mount) as (cluster, platform):
        send(platform, "one")
        wait_for_answer(platform, "one")
        session_id, target = find_session(cluster), cluster["b"].home
        fill(cluster["a"].home / "groups" / "home")
        before, there = list_kept(cluster["a"], session_id), list_tree(target / "groups")

        told = ask_to_move(cluster["a"], "b")

        assert "home stays on a; b: the disk is unavailable" in told and why in told, told
        assert list_kept(cluster["a"], session_id) == before
        block_until(lambda: not (target / "moves").exists(), "what had come to be removed")
        assert list_tree(target / "groups") == there
        assert cluster.query("SELECT COUNT(*) FROM passed_files") == [["0"]]
        send(platform, "two")
        wait_for_answer(platform, "one", "two")
        assert cluster["b"].json("ledger", "check")["unaccounted"] == 0

        before = list_kept(cluster["a"], session_id)
        grow_disk(target)
        done = cluster["a"].gatepost("group", "move", "home", "b")
        assert done.returncode == 0, done.stderr
        assert list_kept(cluster["b"], session_id) == before
        send(platform, "three")
        wait_for_answer(platform, "one", "two", "three")


@needs_root
def test_where_groups_are_on_a_disk_of_their_own_it_is_told_before_anything_comes(tmp_path: Path) -> None:
    with mounted_disks("groups") as mount, run_two(tmp_path, ECHO, local=True, before=mount) as (cluster, platform):
        send(platform, "one")
        wait_for_answer(platform, "one")
        home = cluster["b"].home
        told = ask_to_move(cluster["a"], "b")
        assert f"home stays on a; b: {home}/groups and {home}/moves must be on one disk" in told, told
        block_until(lambda: not (home / "moves").exists(), "what was prepared to be removed")


def test_a_group_in_a_shared_folder_is_not_moved(tmp_path: Path) -> None:
    with run_two(tmp_path, ECHO, local=False) as (cluster, platform):
        send(platform, "one")
        wait_for_answer(platform, "one")
        told = ask_to_move(cluster["a"], "b")
        assert "groups lie in a folder that all gateways share (groups.place)" in told
        assert cluster.query("SELECT COUNT(*) FROM group_moves") == [["0"]]


def test_a_group_of_a_gateway_that_is_away_is_not_moved_and_comes_when_it_is_back(tmp_path: Path) -> None:
    with run_two(tmp_path, ECHO, local=True) as (cluster, platform):
        send(platform, "one")
        wait_for_answer(platform, "one")
        source, session_id = find_place(cluster), find_session(cluster)
        target = get_other(cluster, source)
        before = list_kept(cluster[source], session_id)
        cluster[source].kill()
        block_until(lambda: not is_alive(cluster[target], source), "its lease to be over")
        told = ask_to_move(cluster[target], target)
        assert f"{source} is away, and the files of home are there; start it first" in told
        assert cluster.query("SELECT COUNT(*) FROM group_moves") == [["0"]]
        send(platform, "two")
        cluster[source].start()
        wait_for_answer(platform, "one", "two")
        done = cluster[target].gatepost("group", "move", "home", target)
        assert done.returncode == 0, done.stderr
        assert before.keys() <= list_kept(cluster[target], session_id).keys()


def is_alive(asked: DaemonProcess, name: str) -> bool:
    return any(each["name"] == name and each["alive"] for each in asked.json("gateway", "list"))


@needs_bwrap
def test_a_group_with_a_worktree_moves_once_that_is_put_away(tmp_path: Path) -> None:
    tmp_path.chmod(0o711)
    shop = repository(tmp_path / "code" / "shop")
    allowed: dict[str, Any] = {"sandbox_mounts_allowed": str(shop.parent), "sandbox_kind": "bubblewrap"}
    with run_two(tmp_path, ECHO, local=True, **allowed) as (cluster, platform):
        send(platform, "one")
        wait_for_answer(platform, "one")
        source = find_place(cluster)
        target = get_other(cluster, source)
        create = ("worktree", "create", "fix", "--from", str(shop), "--folder", "home")
        elsewhere = cluster[target].gatepost(*create)
        assert elsewhere.returncode != 0 and f"on gateway {source!r}; run this there" in elsewhere.stderr
        made = cluster[source].gatepost(*create)
        assert made.returncode == 0, made.stderr
        [name] = [each["name"] for each in cluster[target].json("worktree", "list")]

        told = ask_to_move(cluster[source], target)

        assert f"home has worktrees on {source}: {name}; `gatepost worktree archive` them first" in told, told
        refused = cluster[target].gatepost("worktree", "archive", name)
        assert refused.returncode != 0 and f"on gateway {source!r}" in refused.stderr
        gone = cluster[source].gatepost("worktree", "archive", name)
        assert gone.returncode == 0, gone.stderr
        done = cluster[target].gatepost("group", "move", "home", target)
        assert done.returncode == 0, done.stderr
        send(platform, "two")
        wait_for_answer(platform, "one", "two")


def test_a_sandbox_that_does_not_end_is_ended_and_its_turn_goes_on_at_the_target(tmp_path: Path) -> None:
    with run_two(tmp_path, HELD, local=True) as (cluster, platform):
        send(platform, "hold")
        block_until(lambda: sum(map(cluster.count_open_turns, "ab")) == 1, "an open turn")
        source = find_place(cluster)
        target = get_other(cluster, source)
        done = cluster[target].gatepost("group", "move", "home", target)
        assert done.returncode == 0 and f"home is on {target} now" in done.stdout, done.stderr
        running = "SELECT COUNT(*) FROM sessions WHERE owner = '{}'"
        assert cluster.query(running.format(source)) == [["0"]]
        send(platform, "later")
        go = cluster[target].home / "groups" / "home" / "go"
        go.touch()
        wait_for_answer(platform, "hold", "later")
        assert cluster[target].json("ledger", "check")["unaccounted"] == 0
