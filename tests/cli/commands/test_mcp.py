"""`gatepost mcp config`, `gatepost bridge --url` and `gatepost tools`, as commands."""

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from gatepost.cli import program
from gatepost_testing.waiting import PATIENCE_S

PLUGIN = '''
"""A tool from outside."""

from gatepost.access.tiers import Tier
from gatepost.tools.call import ToolCall
from gatepost.tools.contract import tool


@tool(tier=Tier.WORLD, group="outside", effects=())
async def open_window(call: ToolCall) -> str:
    """Let some air in."""
    return "open"
'''


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


def listed(home: Path, folder: str, capsys: pytest.CaptureFixture[str]) -> set[str]:
    assert program.run(["tools", "--home", str(home), "--folder", folder, "--json"]) == 0
    return {each["name"] for each in json.loads(capsys.readouterr().out)}


@pytest.fixture(autouse=True)
def groups(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for folder in ("acme", "a/b", "a/b/c"):
        assert program.run(["group", "add", folder, "--home", str(tmp_path)]) == 0
    capsys.readouterr()


def test_a_group_that_is_not_there_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert program.run(["tools", "--home", str(tmp_path), "--folder", "nope"]) == 1
    assert "no group named 'nope'" in capsys.readouterr().err


def test_a_worker_sees_less_than_an_agent(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    worker, agent = listed(tmp_path, "a/b/c", capsys), listed(tmp_path, "a/b", capsys)
    assert "reply" in worker and "send" not in worker
    assert worker < agent


def test_the_table_tells_what_each_is_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert program.run(["tools", "--home", str(tmp_path), "--folder", "acme"]) == 0
    assert "Say something new in a room" in capsys.readouterr().out


def test_the_group_is_named_once_or_is_home(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert program.run(["tools", "--home", str(tmp_path), "a/b/c"]) == 0
    worker = capsys.readouterr().out
    assert program.run(["tools", "--home", str(tmp_path)]) == 0
    root = capsys.readouterr().out

    assert "reply" in worker and "\nsend " not in worker
    assert "\nsend " in root and "…" not in root
    assert program.run(["tools", "--home", str(tmp_path), "acme", "--folder", "acme"]) == 2


def test_a_bad_folder_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert program.run(["tools", "--home", str(tmp_path), "--folder", "../x"]) == 1
    assert "folder: '..' in '../x'" in capsys.readouterr().err


def test_a_tool_from_outside_is_listed_for_its_tiers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from gatepost.tools.contract import TOOLS

    (tmp_path / "plugins" / "tools" / "window.py").write_text(PLUGIN)
    try:
        assert "open_window" in listed(tmp_path, "acme", capsys)
    finally:
        TOOLS.drop("open_window")
