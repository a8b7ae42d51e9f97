"""Commands typed in the terminal of a real daemon."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from gatepost.core.home import Home
from gatepost.flow.intake.commands.conversation import BEGUN
from gatepost_testing.daemon import DaemonProcess
from gatepost_testing.provider import ScriptBuilder


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[DaemonProcess]:
    running = DaemonProcess(tmp_path / "home", sandbox_kind="process", sessions_provider="scripted")
    script = ScriptBuilder().turn("long").wait_for("go").say("done").turn("hello").say("hi <b>there</b>")
    with running:
        script.write(Home(running.home).group("home")).chmod(0o644)
        yield running


def chat(daemon: DaemonProcess, text: str) -> str:
    done = daemon.gatepost("chat", "-m", text, "--wait")
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_commands_are_answered_in_the_terminal(daemon: DaemonProcess) -> None:
    assert chat(daemon, "hello") == "hi <b>there</b>\n"
    assert "Provider: scripted\nModel: the agent's own choice\nNow: nothing\n" in chat(daemon, "/status")
    assert chat(daemon, "/pin Speak French").startswith("Pinned.")
    assert "Speak French" in chat(daemon, "/pin")
    assert chat(daemon, "\\ping") == "pong: this chat goes to Home\n"
    assert "There is no budget" in chat(daemon, "/usage")
    assert set(chat(daemon, "/new hello").splitlines()) == {"hi <b>there</b>", BEGUN}
    assert daemon.json("ledger", "check")["unaccounted"] == 0
