"""What `gatepost mcp config` prints, read by the clients themselves: each starts the bridge and reaches the gateway."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gatepost_testing.daemon import DaemonProcess
from gatepost_testing.waiting import PATIENCE_S

pytestmark = pytest.mark.slow
PROGRAMS = Path(sys.executable).parent.parent / "programs"


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    with DaemonProcess(tmp_path_factory.mktemp("mcp") / "h", sandbox_kind="process", sessions_provider="demo") as made:
        yield made


def asked(folder: Path, program: Path, *words: str) -> str:
    """In a home and a project of its own, so that it knows nothing but what was printed."""
    env = {name: value for name, value in os.environ.items() if name in ("PATH", "LANG")}
    env |= {"HOME": str(folder), "CODEX_HOME": str(folder / ".codex"), "NO_COLOR": "1", "DISABLE_AUTOUPDATER": "1"}
    done = subprocess.run(
        [str(program), *words], cwd=folder, env=env, capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def program(name: str) -> Path:
    path = PROGRAMS / name
    if not path.exists():
        pytest.skip(f"{name} is not installed; `make test-all` fetches it")
    return path


def test_claude_code_connects_by_it(daemon: DaemonProcess, tmp_path: Path) -> None:
    sdk = pytest.importorskip("claude_agent_sdk", reason="claude-agent-sdk is not installed")
    bundled = Path(sdk.__file__).parent / "_bundled" / "claude"
    if not bundled.exists():
        pytest.skip("this claude-agent-sdk brings no Claude Code")
    (tmp_path / ".mcp.json").write_text(daemon.gatepost("mcp", "config", "claude").stdout)
    (tmp_path / ".claude").mkdir()
    (tmp_path / ".claude" / "settings.local.json").write_text('{"enableAllProjectMcpServers": true}')

    told = asked(tmp_path, bundled, "mcp", "list")
    assert "gatepost: " in told and "Connected" in told


def test_codex_reads_it(daemon: DaemonProcess, tmp_path: Path) -> None:
    codex = program("codex")
    printed = daemon.gatepost("mcp", "config", "codex", "--folder", "home").stdout
    (tmp_path / ".codex").mkdir()
    (tmp_path / ".codex" / "config.toml").write_text(printed)

    (found,) = json.loads(asked(tmp_path, codex, "mcp", "list", "--json"))
    assert (found["name"], found["enabled"], found["transport"]["type"]) == ("gatepost-home", True, "stdio")
    command = [found["transport"]["command"], *found["transport"]["args"]]
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "codex", "version": "1"}}
    line = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}) + "\n"
    done = subprocess.run(command, input=line, capture_output=True, text=True, timeout=PATIENCE_S, check=True)
    assert "result" in json.loads(done.stdout)


def test_opencode_connects_by_it(daemon: DaemonProcess, tmp_path: Path) -> None:
    opencode = program("opencode")
    (tmp_path / "opencode.json").write_text(daemon.gatepost("mcp", "config", "opencode").stdout)

    told = asked(tmp_path, opencode, "mcp", "list")
    assert "✓ gatepost" in told and "connected" in told
