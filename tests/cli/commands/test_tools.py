"""`gatepost tools` shows what a group would see."""

import json
from pathlib import Path

import pytest

from gatepost.cli import program

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
    assert "Say something new, such as news" in capsys.readouterr().out


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
