"""Walls: which there are is said by everybody alike, found again while the gateway runs, and never quietly missing."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from gatepost.cli.sandbox_run import choose_kind
from gatepost.core.errors import SetupError
from gatepost.core.registry import Registry
from gatepost.core.settings import Config
from gatepost.flow.sessions.sandbox.isolation import ANYBODY
from gatepost.flow.sessions.sandbox.sandbox_plan import MakeSandboxKind
from gatepost.sandboxes.process import ProcessSandboxKind
from gatepost_testing import fork_server
from gatepost_testing.clients.terminal import PtyTerminal
from gatepost_testing.daemon import DaemonProcess

# A kind of sandbox that works as soon as a file is there, as bubblewrap does after an install.
LATER = """
from pathlib import Path

from gatepost.sandboxes.contract import sandbox
from gatepost.sandboxes.process import ProcessSandboxKind


@sandbox("later")
class Later(ProcessSandboxKind):
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
    return fork_server.run(["--home", str(home), *words], os.environ)


def answers(daemon: DaemonProcess) -> dict[str, bool]:
    """Return whether each of those who say so finds walls."""
    findings = daemon.json("doctor")["findings"]
    return {
        "status": daemon.json("status")["sandbox"]["kind"] == "later",
        "doctor": not any(each["subject"] == "sandbox" and each["level"] == "fail" for each in findings),
        "connect": daemon.json("connect")[0]["sandbox"] == "later",
    }


@pytest.mark.slow
def test_stranger_15_a_sandbox_that_is_installed_while_the_gateway_runs_is_found_by_all(home: Path) -> None:
    with DaemonProcess(home) as daemon:
        assert set(answers(daemon).values()) == {False}
        (home.parent / "installed").touch()
        assert set(answers(daemon).values()) == {True}


@pytest.mark.slow
def test_stranger_15_a_sandbox_plug_in_is_found_by_the_doctor_while_no_gateway_runs(home: Path) -> None:
    (home.parent / "installed").touch()
    told = gatepost(home, "doctor", "--json")

    assert told.stdout, told.stderr
    found = [each["text"] for each in json.loads(told.stdout)["findings"] if each["subject"] == "sandbox"]
    assert "later works" in found


@pytest.mark.slow
def test_stranger_15_the_ready_banner_says_which_walls_there_are(home: Path) -> None:
    with DaemonProcess(home) as daemon:
        assert daemon.banner[1].startswith("NO WALLS: only the demo runs; ") and "install it" in daemon.banner[1]
    (home.parent / "installed").touch()
    with DaemonProcess(home) as daemon:
        assert daemon.banner[1] == "agents run in later"
    with DaemonProcess(home, sandbox_kind="process") as daemon:
        assert daemon.banner[1].startswith("NO WALLS: agents run in 'process' with all rights")


@pytest.mark.slow
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
    registry: Registry[MakeSandboxKind] = Registry("sandbox")
    registry.add("bubblewrap", Broken, origin="test")
    registry.add("process", ProcessSandboxKind, origin="test")

    with pytest.raises(SetupError, match=r"it is broken; mend it.*--no-walls"):
        choose_kind(Config(), ANYBODY, "demo", False, registry)

    assert isinstance(choose_kind(Config(), ANYBODY, "demo", True, registry), ProcessSandboxKind)
    assert "NO WALLS" in capsys.readouterr().err


@pytest.mark.slow
def test_stranger_14_the_login_token_is_printed_on_a_terminal_alone(home: Path) -> None:
    with DaemonProcess(home) as daemon:
        assert not any("token" in line for line in daemon.banner)
        assert daemon.banner[2].startswith("`gatepost login` prints")
        assert "token=" in daemon.address
        assert "token=" not in daemon.stderr()
    with PtyTerminal({**os.environ, "GATEPOST_HOME": str(home), "GATEPOST_LISTEN": "127.0.0.1:0"}, "up") as terminal:
        terminal.expect("gatepost is ready at http://127.0.0.1:")
        terminal.expect("/#token=")
        terminal.expect("NO WALLS")
