"""Walls: which there are is said by everybody alike, found again while the gateway runs, and never quietly missing."""

import os
import subprocess
from pathlib import Path

import pytest

from gatepost.cli.commands.sandbox import kind_for
from gatepost.core.errors import SetupError
from gatepost.core.registry import Registry
from gatepost.core.settings import Config
from gatepost.flow.sessions.plan import Make
from gatepost.flow.sessions.walls import ANYBODY
from gatepost.sandboxes.process import Process
from gatepost.testing import forked
from gatepost.testing.daemon import Daemon
from gatepost.testing.terminal import Terminal

# A kind of sandbox that works as soon as a file is there, as bubblewrap does after an install.
LATER = """
from pathlib import Path

from gatepost.sandboxes.contract import sandbox
from gatepost.sandboxes.process import Process


@sandbox("later")
class Later(Process):
    isolated = True

    def trouble(self):
        return None if Path({file!r}).exists() else "it is not installed; install it"
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    plugins = tmp_path / "home" / "plugins" / "sandboxes"
    plugins.mkdir(parents=True)
    (plugins / "later.py").write_text(LATER.format(file=str(tmp_path / "installed")))
    (tmp_path / "home" / "gatepost.toml").write_text('sandbox.kind = "later"\n')
    return tmp_path / "home"


def gatepost(home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return forked.run(["--home", str(home), *words], os.environ)


def answers(daemon: Daemon) -> dict[str, bool]:
    """Whether each of those who say so finds walls."""
    findings = daemon.json("doctor")["findings"]
    return {
        "status": daemon.json("status")["sandbox"]["kind"] == "later",
        "doctor": not any(each["subject"] == "sandbox" and each["level"] == "fail" for each in findings),
        "connect": daemon.json("connect")[0]["sandbox"] == "later",
    }


def test_stranger_15_a_sandbox_that_is_installed_while_the_gateway_runs_is_found_by_all(home: Path) -> None:
    with Daemon(home) as daemon:
        assert set(answers(daemon).values()) == {False}
        (home.parent / "installed").touch()
        assert set(answers(daemon).values()) == {True}


def test_stranger_15_the_ready_banner_says_which_walls_there_are(home: Path) -> None:
    with Daemon(home) as daemon:
        assert daemon.banner[1].startswith("NO WALLS: only the demo runs; ") and "install it" in daemon.banner[1]
    (home.parent / "installed").touch()
    with Daemon(home) as daemon:
        assert daemon.banner[1] == "agents run in later"
    with Daemon(home, sandbox_kind="process") as daemon:
        assert daemon.banner[1].startswith("NO WALLS: agents run in 'process' with all rights")


@pytest.mark.parametrize("kind", ["auto", "process"])
def test_stranger_15_sandbox_run_refuses_without_walls_unless_told(
    home: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    gatepost(home, "group", "add", "acme")
    monkeypatch.setenv("GATEPOST_SANDBOX_KIND", "later" if kind == "auto" else kind)

    refused = gatepost(home, "sandbox", "run", "acme", "--", "touch", str(home / "ran"))
    told = gatepost(home, "sandbox", "run", "--no-walls", "acme", "--", "touch", str(home / "ran"))

    assert refused.returncode == 1 and "--no-walls" in refused.stderr
    assert told.returncode == 0 and told.stderr.startswith("gatepost: NO WALLS: ")
    assert (home / "ran").exists()


class Broken:
    isolated = True

    def __init__(self, config: Config) -> None:
        pass

    def trouble(self) -> str:
        return "it is broken; mend it"


def test_stranger_15_sandbox_run_never_takes_the_demos_way_without_walls(capsys: pytest.CaptureFixture[str]) -> None:
    registry: Registry[Make] = Registry("sandbox")
    registry.add("bubblewrap", Broken, origin="test")
    registry.add("process", Process, origin="test")

    with pytest.raises(SetupError, match=r"it is broken; mend it.*--no-walls"):
        kind_for(Config(), ANYBODY, "demo", False, registry)

    assert isinstance(kind_for(Config(), ANYBODY, "demo", True, registry), Process)
    assert "NO WALLS" in capsys.readouterr().err


def test_stranger_14_the_login_token_is_printed_on_a_terminal_alone(home: Path) -> None:
    with Daemon(home) as daemon:
        assert not any("token" in line for line in daemon.banner)
        assert daemon.banner[2].startswith("`gatepost login` prints")
        assert "token=" in daemon.address
        assert "token=" not in daemon.stderr()
    with Terminal({**os.environ, "GATEPOST_HOME": str(home), "GATEPOST_LISTEN": "127.0.0.1:0"}, "up") as terminal:
        terminal.expect("gatepost is ready at http://127.0.0.1:")
        terminal.expect("/#token=")
        terminal.expect("NO WALLS")
