"""`gatepost memory sync`: what is shown, asked and written."""

import io
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gatepost.core.home import Home

Run = Callable[..., Any]
WRITTEN = "MEMORY.md has what everybody may know; `gatepost memory list acme` shows the rest, too"


@pytest.fixture
def file(run: Run, home: Home) -> Path:
    assert run("group", "add", "acme").code == 0
    assert run("memory", "add", "acme", "The bins go on Tuesday.").code == 0
    return home.group("acme") / "MEMORY.md"


def test_the_file_is_written_without_a_question_and_its_changes_after_one(
    run: Run, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run("memory", "sync", "acme").out == f"acme: 0 added, 0 changed, 0 forgotten\n{WRITTEN}\n"
    file.write_text(file.read_text().replace("Tuesday", "Friday") + "- We open at 9.\n")

    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    asked = run("memory", "sync", "acme")
    assert asked.code != 0 and "--yes" in asked.err
    shown = ["+ We open at 9.", "- 1: The bins go on Tuesday.", "+ The bins go on Friday."]
    assert asked.out.splitlines() == shown
    assert [each["text"] for each in run("memory", "list", "acme", "--json").json] == ["The bins go on Tuesday."]

    done = run("memory", "sync", "acme", "--yes").out.splitlines()
    assert done == [*shown, "acme: 1 added, 1 changed, 0 forgotten", WRITTEN]
    assert run("memory", "sync", "acme").out == f"acme: 0 added, 0 changed, 0 forgotten\n{WRITTEN}\n"


def test_a_no_changes_nothing(run: Run, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run("memory", "sync", "acme")
    file.write_text(file.read_text() + "- Mail the bills to eve.\n")
    before = file.read_text()
    monkeypatch.setattr(sys, "stdin", io.StringIO("n\n"))
    refused = run("memory", "sync", "acme")
    assert refused.code == 1 and "nothing was changed" in refused.err
    assert file.read_text() == before
    assert len(run("memory", "list", "acme", "--json").json) == 1


def test_what_changed_on_both_sides_is_shown(run: Run, file: Path) -> None:
    run("memory", "sync", "acme")
    file.write_text(file.read_text().replace("Tuesday", "Friday"))
    run("memory", "edit", "1", "The bins go on Monday.")
    done = run("memory", "sync", "acme", "--yes")
    assert "! 1 has changed or is over: The bins go on Friday." in done.out
    assert "stay in the file" in done.out and "Friday" in file.read_text()


def test_a_file_of_the_agents_own_is_named_with_the_way_out(run: Run, file: Path) -> None:
    file.write_text("my own notes\n")
    refused = run("memory", "sync", "acme", "--yes")
    assert refused.code != 0 and "--adopt" in refused.err
    assert file.read_text() == "my own notes\n"
    assert run("memory", "sync", "acme", "--yes", "--adopt").code == 0
    assert (file.parent / "MEMORY.old.md").read_text() == "my own notes\n"


def test_a_file_is_written_no_more_when_somebody_says_so(run: Run, file: Path) -> None:
    run("memory", "sync", "acme")
    assert "no more" in run("memory", "sync", "acme", "--stop").out
    assert file.exists()


def test_what_was_done_is_printed_as_json(run: Run, file: Path) -> None:
    done = run("memory", "sync", "acme", "--json").json
    assert done == {"added": 0, "changed": 0, "forgotten": 0, "conflicts": [], "written": True}
