"""The section "By hand" of docs/agents.md, line by line as it stands there, by a real curl against a real daemon."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from gatepost_testing.daemon import DaemonProcess

PAGE = Path(__file__).resolve().parents[2] / "docs" / "agents.md"


def shown(mark: str) -> str:
    """The block behind a mark on the page."""
    page = PAGE.read_text(encoding="utf-8")
    return re.findall(rf"<!-- {mark}:.*?-->\n```sh\n(.*?)```", page, re.DOTALL)[0]


def messages(printed: str) -> list[dict[str, Any]]:
    """Answers as they came: JSON, or what stands behind `data:` in a stream."""
    lines = printed.replace("}{", "}\n{").splitlines()
    found = [re.sub(r"^data: ?", "", line) for line in lines]
    return [json.loads(line) for line in found if line.startswith("{")]


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_the_requests_of_the_page_are_answered(quick_path: Path) -> None:
    home = quick_path / ".gatepost"
    with DaemonProcess(home, sandbox_kind="process", sessions_provider="scripted") as daemon:
        script = f"set -e\n{shown('session')}\necho\n{shown('stateless')}"
        env = {**daemon.env, "HOME": str(quick_path)}
        done = subprocess.run(
            ["bash", "-c", script], cwd=quick_path, env=env, capture_output=True, text=True, timeout=60
        )
    assert done.returncode == 0, done.stderr
    opened, made, listed = messages(done.stdout)
    assert opened["result"]["serverInfo"]["name"] == "gatepost-agent-management"
    made = made["result"]["structuredContent"]
    assert (made["status"], made["lastMessage"]) == ("idle", "echo: say hello")
    (agent,) = listed["result"]["structuredContent"]["agents"]
    assert (agent["agentId"], agent["title"]) == (made["agentId"], "Greeter")
