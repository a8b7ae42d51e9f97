"""MCP Inspector's own command line manages agents of a real daemon through the bridge, in both eras of MCP."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gatepost_testing import programs
from gatepost_testing.daemon import DaemonProcess

INSPECTOR = programs.find("mcp-inspector")
TOOL_FAILED = 5  # Inspector's exit code for a tool that says isError

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(INSPECTOR is None, reason="MCP Inspector is not installed: make test-all does it"),
]


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[DaemonProcess]:
    with DaemonProcess(tmp_path / "h", sandbox_kind="process", sessions_provider="scripted") as daemon:
        (tmp_path / "mcp.json").write_text(daemon.gatepost("mcp", "config", "claude").stdout)
        yield daemon


class Inspector:
    """Each question is a run of its own: it starts the bridge, asks, and ends it."""

    def __init__(self, folder: Path, era: str) -> None:
        self._server = ["--config", str(folder / "mcp.json"), "--server", "gatepost", "--protocol-era", era]
        self._env = {"HOME": str(folder), "PATH": os.environ["PATH"], "MCP_INSPECTOR_SECRET_STORE": "memory"}

    def ask(self, method: str, *more: str, code: int = 0) -> dict[str, Any]:
        words = [str(INSPECTOR), "--cli", *self._server, "--method", method, *more]
        done = subprocess.run(words, env=self._env, capture_output=True, text=True, timeout=90, check=False)
        assert done.returncode == code, done.stderr
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    def call(self, name: str, code: int = 0, **arguments: object) -> dict[str, Any]:
        return self.ask("tools/call", "--tool-name", name, "--tool-args-json", json.dumps(arguments), code=code)


@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_mcp_inspector_lists_and_calls_tools_through_the_bridge(
    daemon: DaemonProcess, tmp_path: Path, era: str
) -> None:
    inspector = Inspector(tmp_path, era)

    listed = {tool["name"] for tool in inspector.ask("tools/list")["tools"]}
    made = inspector.call("create_agent", initialPrompt="sweep", title="Sweeper", labels={"a": "b"})
    nobody = inspector.call("get_agent_status", agentId="Nobody", code=TOOL_FAILED)

    assert {"create_agent", "wait_for_agent", "respond_to_permission"} <= listed
    assert made["structuredContent"]["lastMessage"] == "echo: sweep"
    assert json.loads(made["content"][0]["text"]) == made["structuredContent"]
    assert nobody["isError"] is True and "no agent named 'Nobody'" in nobody["content"][0]["text"]
    (agent,) = daemon.json("agent", "ls")
    assert (agent["title"], agent["labels"], agent["status"]) == ("Sweeper", {"a": "b"}, "idle")
