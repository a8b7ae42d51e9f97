"""A connector of a real daemon: declared in its file, asked in the background, called by an agent, ended with it."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gatepost_testing.daemon import DaemonProcess
from gatepost_testing.waiting import block_until

TOKEN = "tok-0123456789-abcdef"
SERVER = r"""
import json, os, subprocess, sys, time

for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    result = {}
    if asked["method"] == "initialize":
        result = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "s"}}
    elif asked["method"] == "tools/list":
        result = {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in ("open-issue", "hang")]}
    elif asked["params"]["name"] == "hang":
        open(sys.argv[1], "w").write(str(os.getpid()))
        time.sleep(600)
    else:
        seen = str("SECRET_OF_HOST" in os.environ)
        said = asked["params"]["arguments"]["title"] + " by " + os.environ["HUB_TOKEN"] + seen
        result = {"content": [{"type": "text", "text": said}], "structuredContent": {"title": said}}
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
"""


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[DaemonProcess]:
    running = DaemonProcess(
        tmp_path / "h", sandbox_kind="process", sandbox_least_free_mb="0", sessions_provider="scripted"
    )
    running.env["SECRET_OF_HOST"] = "x"
    running.home.mkdir()
    (tmp_path / "server.py").write_text(SERVER)
    command = json.dumps([sys.executable, str(tmp_path / "server.py"), str(tmp_path / "pid")])
    (running.home / "gatepost.toml").write_text(
        f'[connectors.hub]\ncommand = {command}\nenv_secrets = ["HUB_TOKEN"]\ntier = "world"\n'
        '[connectors.gone]\ncommand = ["/no/such/server"]\n'
    )
    with running:
        block_until(lambda: "hub_open-issue" in names(running), "the connector's tools")
        yield running


def names(daemon: DaemonProcess, folder: str = "home") -> set[str]:
    return {each["name"] for each in daemon.json("tools", "--folder", folder)}


def done(daemon: DaemonProcess, *args: str) -> str:
    ran = daemon.gatepost(*args)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def play(daemon: DaemonProcess, tool: str, **arguments: object) -> None:
    script = {"default": [{"call": tool, "with": arguments}, {"say": "{result}"}]}
    done(daemon, "group", "set", "home", f"options.script={json.dumps(script)}")


@pytest.mark.slow
def test_an_agent_uses_it_with_a_secret_that_it_never_sees(daemon: DaemonProcess) -> None:
    play(daemon, "hub_open-issue", title="a leak")
    missing = done(daemon, "chat", "-m", "go", "--wait")
    done(daemon, "secret", "set", "HUB_TOKEN", TOKEN)
    said = done(daemon, "chat", "-m", "go", "--wait")
    done(daemon, "grant", "add", "home", "!hub_*-issue")
    refused = done(daemon, "chat", "-m", "go", "--wait")

    assert "gatepost secret set HUB_TOKEN" in missing
    assert "a leak by [secret]False" in said and TOKEN not in said
    assert "Unknown tool: hub_open-issue" in refused and names(daemon) & {"hub_open-issue", "hub_hang"} == {"hub_hang"}
    rows = daemon.read_audit("hub_open-issue", 3)
    assert [row["verdict"] for row in rows] == ["failed", "allowed", "refused"]
    logs = b"".join(path.read_bytes() for path in (daemon.home / "logs").iterdir())
    assert TOKEN.encode() not in logs and b"/no/such/server cannot be started" in logs
    assert done(daemon, "audit", "verify")


def test_the_doctor_tells_of_those_that_work_and_those_that_do_not(daemon: DaemonProcess) -> None:
    found = [each for each in daemon.json("doctor")["findings"] if each["subject"] == "connectors"]

    assert [each["level"] for each in found] == ["ok", "warn"]
    assert found[0]["text"] == "hub has 2 tools"
    assert "/no/such/server cannot be started" in found[1]["text"] and "[connectors.gone]" in found[1]["remedy"]


@pytest.mark.slow
def test_what_it_runs_ends_with_the_gateway(daemon: DaemonProcess, tmp_path: Path) -> None:
    done(daemon, "secret", "set", "HUB_TOKEN", TOKEN)
    play(daemon, "hub_hang")
    done(daemon, "chat", "-m", "go")
    pid = tmp_path / "pid"
    block_until(lambda: pid.exists() and pid.read_text() != "", "the call")

    daemon.stop()

    block_until(lambda: not Path("/proc", pid.read_text()).exists(), "its end")
