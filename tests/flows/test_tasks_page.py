"""The commands of docs/tasks.md, line by line as they stand there, against a real daemon."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gatepost_testing.daemon import DaemonProcess
from gatepost_testing.waiting import block_until

PAGE = Path(__file__).resolve().parents[2] / "docs" / "tasks.md"


@pytest.fixture
def daemon(quick_path: Path) -> Iterator[DaemonProcess]:
    with DaemonProcess(quick_path / "home", sandbox_kind="process", sessions_provider="scripted") as running:
        assert running.gatepost("chat", "-m", "hello", "--wait").returncode == 0
        yield running


def list_lines() -> list[list[str]]:
    """The words of each `gatepost task` of the first block."""
    block = re.findall(r"```sh\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)[0]
    return [shlex.split(line, comments=True)[1:] for line in block.splitlines()]


def read_log(daemon: DaemonProcess, task: str, state: str) -> dict[str, Any]:
    """Its newest run, once it has come so far."""
    found: list[dict[str, Any]] = []

    def read() -> bool:
        found[:] = daemon.json("task", "show", task)["log"]
        return bool(found) and found[0]["state"] == state

    block_until(read, f"a run of {task} that is {state}")
    return found[0]


@pytest.mark.slow
def test_each_line_of_the_page_does_what_it_says(daemon: DaemonProcess) -> None:
    said: dict[str, str] = {}
    task = ""
    for words in list_lines():
        done = daemon.gatepost(*(task if word == "TASK" else word for word in words))
        assert done.returncode == 0, (words, done.stderr)
        said[words[1]] = done.stdout
        if words[1] == "add":
            task = done.stdout.partition(":")[0]
        if words[1] == "run":
            assert read_log(daemon, task, "answered")["duration_ms"] is not None
    assert {*said} == {"add", "preview", "list", "next", "show", "run", "set", "pause", "resume", "cancel"}
    assert said["preview"].startswith("every 1st of the month at 8:00 (UTC), exactly: 0 8 1 * *")
    assert "Take the bread out." in said["list"] and len(said["next"].splitlines()) == 51
    assert "08:00:00  Europe/Berlin" in said["next"] and "it has not run yet" in said["show"]
    assert said["cancel"] == f"{task} is cancelled\n"


@pytest.mark.slow
def test_a_reminder_of_two_seconds_is_delivered_and_the_status_counts_what_comes(daemon: DaemonProcess) -> None:
    assert daemon.json("status")["store"]["tasks"] == {"active": 0, "next_at": None, "broken": []}
    soon = daemon.json("task", "add", "home", "--text", "Now!", "--at", "+2s")
    later = daemon.json("task", "add", "home", "--text", "Later.", "--at", "tomorrow 9:00", "--tz", "Asia/Tokyo")
    assert read_log(daemon, soon["id"], "sent")["reason"] == ""
    tasks = daemon.json("status")["store"]["tasks"]
    assert (tasks["active"], tasks["next_at"]) == (1, later["next_at"])
    assert f"the next at {later['next_at'][:16]}" in daemon.gatepost("doctor").stdout


def test_a_script_that_finds_nothing_leaves_the_agent_asleep(daemon: DaemonProcess, tmp_path: Path) -> None:
    page = PAGE.read_text(encoding="utf-8")
    script = tmp_path / "check.sh"
    script.write_text(re.findall(r"<<'END'\n(.*?)END\n", page, re.DOTALL)[0])
    made = daemon.json("task", "add", "home", "--prompt", "look", "--every", "1h", "--script", str(script))
    daemon.gatepost("task", "run", made["id"])
    assert read_log(daemon, made["id"], "silent")["cost"] == 0
