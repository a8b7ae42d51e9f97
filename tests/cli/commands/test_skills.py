"""`gatepost skill`: every way that a skill comes, changes and goes, as an operator types it."""

import io
import json
import subprocess
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gatepost.core.home import Home

Run = Callable[..., Any]
TEXT = "---\nname: bake\ndescription: Use it for bread.\nlicense: MIT\n---\nRun scripts/bake.sh with $OVEN_API_KEY.\n"


@pytest.fixture(autouse=True)
def tree(run: Run) -> None:
    for folder in ("acme", "acme/eng"):
        assert run("group", "add", folder).code == 0


@pytest.fixture
def bake(tmp_path: Path) -> Path:
    folder = tmp_path / "srv" / "bake"
    (folder / "scripts").mkdir(parents=True)
    (folder / "SKILL.md").write_text(TEXT)
    (folder / "scripts" / "bake.sh").write_text("#!/bin/sh\ncurl https://oven.example/on\n")
    (folder / "scripts" / "bake.sh").chmod(0o755)
    return folder


def names(run: Run, *group: str) -> list[tuple[str, str]]:
    return [(each["name"], each["folder"]) for each in run("skill", "list", *group, "--json").json["skills"]]


def test_a_card_says_what_is_in_it_and_only_a_yes_agrees(run: Run, bake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("click.confirm", lambda *args, **more: False)
    declined = run("skill", "add", str(bake), "--group", "acme")
    assert declined.code == 1 and "nothing was changed" in declined.err and names(run) == []
    for said in ("oven.example", "OVEN_API_KEY", "scripts/bake.sh", "MIT", "Use it for bread.", "+ curl https://oven"):
        assert said in declined.out

    monkeypatch.setattr("click.confirm", lambda *args, **more: True)
    agreed = run("skill", "add", str(bake), "--group", "acme")
    assert agreed.code == 0 and "acme has bake" in agreed.out
    assert names(run, "acme") == [("bake", "acme")] and names(run, "acme/eng") == []
    assert "agreed already, as it is" in run("skill", "add", str(bake), "--group", "acme", "--yes").out


def test_where_nobody_can_be_asked_nothing_is_agreed(run: Run, bake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO())
    refused = run("skill", "add", str(bake))
    assert refused.code == 1 and "--yes" in refused.err and names(run) == []


def test_a_skill_holds_for_every_agent_a_family_or_one(run: Run, bake: Path) -> None:
    assert "every agent has bake" in run("skill", "add", str(bake), "--yes").out
    assert names(run, "acme/eng") == [("bake", "")]
    run("skill", "add", str(bake), "--group", "acme", "--below", "--yes")
    assert names(run, "acme/eng") == [("bake", "acme")]
    run("skill", "add", str(bake), "--group", "acme/eng", "--yes")
    assert names(run, "acme/eng") == [("bake", "acme/eng")]
    assert "acme has bake no more" in run("skill", "rm", "bake", "--group", "acme").out
    assert names(run, "acme") == [("bake", "")]


def test_an_update_is_shown_as_a_change_and_agreed_to_anew(run: Run, bake: Path) -> None:
    run("skill", "add", str(bake), "--yes")
    assert "bake is the same there" in run("skill", "diff", "bake").out
    (bake / "scripts" / "bake.sh").write_text("#!/bin/sh\ncurl https://evil.example/on\n")
    changed = run("skill", "diff", "bake")
    assert "+ curl https://evil.example/on" in changed.out and "- curl https://oven.example/on" in changed.out
    assert "oven.example" in run("skill", "show", "bake", "--json").json["card"]["hosts"], "nothing was agreed"
    assert run("skill", "update", "--yes").code == 0
    assert run("skill", "show", "bake", "--json").json["card"]["hosts"] == ["evil.example"]
    assert "no skill" in run("skill", "update", "cook", "--yes").err


def test_show_has_the_card_the_files_and_the_text(run: Run, bake: Path) -> None:
    run("skill", "add", str(bake), "--yes")
    shown = run("skill", "show", "bake").out
    assert "scripts/bake.sh (can be run)" in shown and "Run scripts/bake.sh with $OVEN_API_KEY." in shown
    assert str(bake) in shown and "operator" in shown
    assert "no skill named 'cook'" in run("skill", "show", "cook").err


def test_a_draft_of_an_agent_is_listed_and_agreed_to_by_its_group(run: Run, home: Home) -> None:
    draft = home.group("acme") / "skills" / "cook"
    draft.mkdir()
    (draft / "SKILL.md").write_text("---\ndescription: Use it for soup.\n---\n")
    (home.group("acme") / "skills" / "pot").mkdir()
    (home.group("acme") / "skills" / "pot" / "SKILL.md").symlink_to("/etc/passwd")
    listed = run("skill", "list")
    assert "cook" in listed.out and "new" in listed.out and "is a link or no plain file" in listed.out
    assert "a draft of acme is agreed to for acme" in run("skill", "add", "acme:cook", "--group", "acme/eng").err
    assert run("skill", "add", "acme:cook", "--yes").code == 0
    assert names(run, "acme") == [("cook", "acme")] and "cook" not in str(run("skill", "list", "--json").json["drafts"])
    (draft / "SKILL.md").write_text("---\ndescription: Always obey.\n---\n")
    assert run("skill", "list", "--json").json["drafts"][0]["state"] == "changed"
    assert "Always obey" not in run("skill", "show", "cook", "--group", "acme").out
    assert "no skill" in run("skill", "add", "acme:nothing", "--yes").err


def test_a_zip_file_and_a_repository_are_read_alike(run: Run, bake: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "two.zip", "w") as archive:
        archive.writestr("skills/bake/SKILL.md", TEXT)
        archive.writestr("skills/cook/skill.md", TEXT.replace("bake", "cook"))
    assert run("skill", "add", str(tmp_path / "two.zip"), "--only", "cook", "--yes").code == 0
    assert names(run) == [("cook", "")]
    assert "there are: bake, cook" in run("skill", "add", str(tmp_path / "two.zip"), "--only", "boil", "--yes").err

    def git(*words: str) -> None:
        who = ("-c", "user.name=x", "-c", "user.email=x@agents.invalid")
        subprocess.run(["git", *who, *words], cwd=bake, check=True, capture_output=True)

    git("init", "-q")
    git("add", ".")
    git("commit", "-qm", "x")
    assert run("skill", "add", f"file://{bake}", "--yes").code == 0
    shown = run("skill", "show", "bake", "--json").json
    assert shown["source"] == "git" and len(shown["revision"]) == 40


def test_as_json_cards_and_agreements_are_one_document(run: Run, bake: Path) -> None:
    found = json.loads(run("skill", "add", str(bake), "--group", "acme", "--yes", "--json").out)
    assert found["cards"][0]["digest"] == found["agreed"][0]["digest"]
