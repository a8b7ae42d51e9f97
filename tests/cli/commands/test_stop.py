"""`gatepost stop` against a running gateway whose agent ignores everything."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from gatepost_testing.daemon import DaemonProcess
from gatepost_testing.provider import ScriptBuilder


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[DaemonProcess]:
    daemon = DaemonProcess(tmp_path / "home", sandbox_kind="process", sessions_provider="scripted")
    script = ScriptBuilder().turn(when="hang").say("starting").hang().turn(when="quick").say("done")
    script.write(tmp_path / "home" / "groups" / "home")
    with daemon as running:
        yield running


def hang(daemon: DaemonProcess, room: str) -> None:
    daemon.gatepost("chat", "-m", "hang", "--room", room, "--wait", "--timeout", "3")


@pytest.mark.slow
def test_a_turn_that_ignores_everything_is_ended_and_said_so(daemon: DaemonProcess) -> None:
    hang(daemon, "main")
    (session,) = daemon.json("stop", "--all")
    rows = daemon.json("ledger", "list")

    assert session["stopped"] is True
    assert [row["state"] for row in rows if row["text"] == "hang"] == ["cancelled"]
    assert "Stopped." in [row["text"] for row in rows if row["direction"] == "out"]
    assert daemon.gatepost("chat", "-m", "quick", "--wait").stdout.strip() == "done"
    assert daemon.gatepost("stop", session["id"][:-4]).stdout.strip() == "nothing was running"


def test_what_is_named_must_be_one_live_session(daemon: DaemonProcess) -> None:
    unknown = daemon.gatepost("stop", "s-nobody")
    nothing = daemon.gatepost("stop")

    assert (unknown.returncode, nothing.returncode) == (1, 2)
    assert "no live session named" in unknown.stderr and "`gatepost session list`" in unknown.stderr
    assert "--all" in nothing.stderr
