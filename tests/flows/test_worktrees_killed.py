"""A daemon that is killed in the middle of making a worktree, or of putting one away: the next one has no half of
either, and nothing that was done is lost."""

import os
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from gatepost.core.home import Home
from gatepost_testing.daemon import DaemonProcess
from gatepost_testing.repositories import commit, git
from gatepost_testing.waiting import PATIENCE_S

from .worktree_desk import needs_bwrap, shop

__all__ = ["shop"]  # a fixture

pytestmark = needs_bwrap


@pytest.fixture
def daemon(tmp_path: Path, shop: Path) -> Iterator[DaemonProcess]:
    made = DaemonProcess(tmp_path / "h", sandbox_kind="bubblewrap", sandbox_mounts_allowed=str(shop.parent))
    with made:
        yield made


@contextmanager
def under_way(daemon: DaemonProcess, *words: str) -> Iterator[None]:
    """A command that will not see its end, because the daemon is killed meanwhile."""
    done: list[subprocess.CompletedProcess[str]] = []
    asking = threading.Thread(target=lambda: done.append(daemon.gatepost(*words)))
    asking.start()
    yield
    asking.join(PATIENCE_S)
    assert done[0].returncode != 0 and "Traceback" not in done[0].stderr, done[0].stderr


def until_there(path: Path) -> None:
    """A bounded wait for what nobody rings for."""
    deadline = time.monotonic() + PATIENCE_S
    while not path.exists():
        assert time.monotonic() < deadline, f"waited in vain for {path}"
        time.sleep(0.001)


def listed(daemon: DaemonProcess) -> list[tuple[str, str]]:
    every: list[dict[str, Any]] = daemon.json("worktree", "ls", "--all")
    return [(each["name"].partition("/")[2], each["state"]) for each in every]


def left(home: Path) -> list[str]:
    """Of worktrees and jobs."""
    place = Home(home)
    jobs = [path.name for path in place.sessions.iterdir() if path.name.startswith("job-")]
    return sorted(path.name for path in place.worktrees.glob("*/*")) + jobs


@pytest.mark.slow
def test_a_worktree_that_was_being_made_never_was(daemon: DaemonProcess, shop: Path) -> None:
    head = shop / ".git" / "HEAD"
    text = head.read_text()
    head.unlink()
    os.mkfifo(head)  # git comes to a halt there
    with under_way(daemon, "worktree", "create", "fix", "--from", str(shop)):
        with head.open("w"):  # as soon as it is there
            daemon.kill()
    head.unlink()
    head.write_text(text)
    daemon.start()
    assert listed(daemon) == [] and left(daemon.home) == []
    assert daemon.json("worktree", "create", "fix", "--from", str(shop))["name"].endswith("/fix")


@pytest.mark.slow
def test_a_worktree_that_was_being_put_away_is_whole_or_saved(daemon: DaemonProcess, shop: Path) -> None:
    commit(shop, ".gatepost.toml", "[worktree]\nteardown = 'mkfifo wait; cat wait'\n")
    place = Path(daemon.json("worktree", "create", "fix", "--from", str(shop))["worktreePath"])
    assert daemon.gatepost("worktree", "trust", "fix", "--yes").returncode == 0
    for number in range(2000):
        (place / f"work-{number}").write_text(str(number))
    with under_way(daemon, "worktree", "archive", "fix"):
        until_there(place / "wait")
        daemon.kill()
    daemon.start()
    assert listed(daemon) == [("fix", "ready")] and left(daemon.home) == ["fix"]
    (place / "wait").unlink()

    bundle = place.with_name("fix.bundle")
    with under_way(daemon, "worktree", "archive", "fix"):
        until_there(place / "wait")
        (place / "wait").write_text("go on")  # and the teardown ends
        until_there(bundle)
        daemon.kill()
    daemon.start()
    ((_, state),) = listed(daemon)
    assert (state, left(daemon.home)) in [("ready", ["fix", "fix.bundle"]), ("archived", ["fix.bundle"])]
    git(shop, "fetch", "-q", "--no-tags", str(bundle), "+refs/*:refs/agents/*")
    assert git(shop, "show", "refs/agents/gatepost/uncommitted:work-1999") == "1999"
    assert state == "archived" or (place / "work-1999").read_text() == "1999"


@pytest.mark.slow
def test_a_daemon_that_is_stopped_ends_what_runs_in_worktrees(daemon: DaemonProcess, shop: Path) -> None:
    commit(shop, ".gatepost.toml", "[worktree]\nsetup = 'mkfifo wait; exec cat wait'\n")
    place = Path(daemon.json("worktree", "create", "fix", "--from", str(shop))["worktreePath"])
    with under_way(daemon, "worktree", "trust", "fix", "--yes"):
        until_there(place / "wait")
        assert daemon.stop() == 0
    assert "Traceback" not in daemon.stderr()
    daemon.start()
    assert listed(daemon) == [("fix", "ready")] and left(daemon.home) == ["fix"]
    (place / "wait").unlink()
    assert "gatepost worktree setup" in daemon.gatepost("worktree", "show", "fix").stdout, "it was not run to its end"
