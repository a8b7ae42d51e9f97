"""`gatepost` alone: how things stand, and what helps next, the most urgent first."""

from pathlib import Path

import pytest

from gatepost.cli.commands.status import PanicStatus, RequestCounts, StatusReport, read_status
from gatepost.cli.next_steps import choose_steps, render_standing
from gatepost.cli.program import run
from gatepost.core.home import Home
from gatepost.core.records import replace
from gatepost.serve.control.daemon_status import Lack


def list_commands(status: StatusReport) -> list[str]:
    return [each.command.removeprefix("gatepost ") for each in choose_steps(status)]


def test_who_begins_is_told_how_to_start(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--home", str(tmp_path / "none")]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"nothing is in {tmp_path / 'none'} yet"
    assert [each.split("  ")[1] for each in lines[1:]] == ["gatepost up", "gatepost --help"]
    assert not (tmp_path / "none").exists()


def test_one_that_is_down_is_started_before_what_waits_is_answered(store_path: Path) -> None:
    status = read_status(Home(store_path.parent))
    assert status.store is not None and list_commands(status) == ["up", "logs"]
    waiting = replace(status, store=replace(status.store, requests=RequestCounts(2, 0)))
    assert list_commands(waiting) == ["up", "logs", "permit ls"]


def test_one_that_runs_says_what_it_lacks_and_what_is_wrong(store_path: Path) -> None:
    up = replace(read_status(Home(store_path.parent)), running=True, answers=True, listen="127.0.0.1:8420")
    assert list_commands(replace(up, lacks=[Lack.AGENT, Lack.CHANNEL])) == ["connect", "login", "chat"]
    assert list_commands(replace(up, lacks=[Lack.CHANNEL])) == ["channel add", "login", "chat"]
    assert list_commands(replace(up, store_trouble="full"))[0] == "doctor"
    stopped = replace(up, store=replace(up.store, panic=PanicStatus(None, "")))
    assert list_commands(stopped)[0] == "panic --off"
    deaf = replace(up, answers=False, trouble="no answer")
    assert list_commands(deaf) == ["logs", "doctor"] and "no answer" in str(render_standing(deaf))
