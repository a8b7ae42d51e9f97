"""`gatepost mcp config` and `gatepost bridge --url`, as commands."""

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from gatepost_testing.waiting import PATIENCE_S


def gatepost(home: Path, *words: str, given: str = "") -> "subprocess.CompletedProcess[str]":
    env = {**os.environ, "GATEPOST_HOME": str(home)}
    command = [sys.executable, "-m", "gatepost", *words]
    return subprocess.run(command, env=env, input=given, capture_output=True, text=True, timeout=PATIENCE_S)


def started_by(client: str, text: str, name: str) -> list[str]:
    """The command that a client reads from its configuration."""
    if client == "codex":
        entry = tomllib.loads(text)["mcp_servers"][name]
    elif client == "opencode":
        command: list[str] = json.loads(text)["mcp"][name]["command"]
        return command
    else:
        entry = json.loads(text)["mcpServers"][name]
    return [entry["command"], *entry["args"]]


@pytest.mark.slow
def test_for_a_program_it_is_one_object(tmp_path: Path) -> None:
    done = gatepost(tmp_path, "mcp", "config", "codex", "--json")
    found = json.loads(done.stdout)
    assert (found["client"], found["name"], found["belongs_in"]) == ("codex", "gatepost", "~/.codex/config.toml")
    assert started_by("codex", found["text"], "gatepost") == found["command"] and done.stderr == ""


@pytest.mark.slow
@pytest.mark.parametrize("client", ["claude", "codex", "opencode", "cursor"])
def test_what_is_printed_starts_a_bridge_to_this_home(client: str, tmp_path: Path) -> None:
    done = gatepost(tmp_path, "mcp", "config", client)
    assert done.returncode == 0
    command = started_by(client, done.stdout, "gatepost")
    assert command[-2:] == ["--url", f"unix:{tmp_path}/run/control.sock:/mcp/agents"]

    asked = '{"jsonrpc":"2.0","id":1,"method":"tools/list"}\n'
    bridge = subprocess.run(command, input=asked, capture_output=True, text=True, timeout=PATIENCE_S)
    assert json.loads(bridge.stdout)["error"]["message"].startswith("no gateway answers at unix:")
    assert bridge.returncode == 0


def test_a_group_has_an_entry_of_its_own(tmp_path: Path) -> None:
    done = gatepost(tmp_path, "mcp", "config", "codex", "--folder", "acme/ß")
    command = started_by("codex", done.stdout, "gatepost-acme-ß")
    assert command[-1] == f"unix:{tmp_path}/run/control.sock:/mcp/groups/acme/%C3%9F"


@pytest.mark.slow
def test_over_tcp_the_token_stays_in_its_file(tmp_path: Path) -> None:
    words = ("mcp", "config", "--url", "http://127.0.0.1:8420/", "--token-file", str(tmp_path / "token"))
    command = started_by("claude", gatepost(tmp_path, *words).stdout, "gatepost")
    assert command[-4:] == ["--url", "http://127.0.0.1:8420/mcp/agents", "--token-file", str(tmp_path / "token")]


@pytest.mark.parametrize(
    "words",
    [(), ("--socket", "x", "--url", "unix:/y"), ("--socket", "x", "--token-file", "t"), ("--token-file", "t")],
)
def test_a_bridge_has_one_other_end(words: tuple[str, ...], tmp_path: Path) -> None:
    done = gatepost(tmp_path, "bridge", *words)
    assert done.returncode == 2
    assert "--url" in done.stderr


@pytest.mark.parametrize("order", [0, 1])
def test_options_of_a_bridge_stand_in_any_order(order: int, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("t")
    token.chmod(0o644)
    words = [["--url", "unix:/x:/y"], ["--token-file", str(token)]]
    done = gatepost(tmp_path, "bridge", *words[order], *words[1 - order])
    assert (done.returncode, done.stdout) == (2, "")
    assert "others can read" in done.stderr
