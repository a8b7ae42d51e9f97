"""`gatepost prompt show`: what a turn costs before a word is said."""

import json
from pathlib import Path
from typing import Any

import pytest

from gatepost.cli import program

MOST_TOKENS = 3_000  # of a new agent of a model behind an API
MOST_IN_CLAUDE = 12_000  # bytes of ours in Claude Code


@pytest.fixture(autouse=True)
def groups(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(tmp_path, "group", "add", "acme", "--provider", "anthropic")
    capsys.readouterr()


def run(home: Path, *words: str) -> None:
    assert program.run([*words, "--home", str(home)]) == 0


def measure(home: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    run(home, "prompt", "show", "acme", "--json")
    answer: dict[str, Any] = json.loads(capsys.readouterr().out)
    return answer


def sizes(cost: dict[str, Any], section: str) -> dict[str, int]:
    return {each["name"]: each["size"] for each in cost["parts"] if each["section"] == section}


@pytest.mark.parametrize("provider", ["anthropic", "openai"])
def test_a_new_agent_of_an_api_starts_within_its_tokens(
    provider: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(tmp_path, "group", "set", "acme", f"provider={provider}")
    capsys.readouterr()
    cost = measure(tmp_path, capsys)
    assert cost["tokens"] <= MOST_TOKENS and not cost["own"]
    assert cost["size"] == sum(each["size"] for each in cost["parts"])
    assert {"AGENTS.md"} == set(sizes(cost, "file"))
    assert {"send", "find_tools", "read_file"} < set(sizes(cost, "tool"))


def test_our_part_in_claude_code_keeps_within_its_bytes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(tmp_path, "group", "set", "acme", "provider=claude")
    capsys.readouterr()
    cost = measure(tmp_path, capsys)
    assert cost["size"] <= MOST_IN_CLAUDE and cost["own"]
    run(tmp_path, "prompt", "show", "acme")
    assert "claude adds a prompt and tools of its own" in capsys.readouterr().out


def test_skills_rules_and_files_are_parts_of_their_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = measure(tmp_path, capsys)
    place = tmp_path / "groups" / "acme"
    (place / "PERSONA.md").write_text("You like plums.\n")
    skill = tmp_path.parent / f"{tmp_path.name}-skills" / "release"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text("---\ndescription: To release.\n---\nlong text" * 100)
    run(tmp_path, "skill", "add", str(skill), "--group", "acme", "--yes")
    run(tmp_path, "rule", "add", "acme", "Be kind.")
    capsys.readouterr()
    cost = measure(tmp_path, capsys)
    assert sizes(cost, "file")["PERSONA.md"] == len("You like plums.")
    assert 0 < sizes(cost, "skills")["skills/"] < 300
    assert sizes(cost, "rules")["pinned rules"] > len("Be kind.")
    assert sizes(cost, "tool") == sizes(before, "tool")


def test_a_link_that_an_agent_planted_is_not_followed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "secret").write_text("x" * 5000)
    persona = tmp_path / "groups" / "acme" / "PERSONA.md"
    persona.symlink_to(tmp_path / "secret")
    assert "PERSONA.md" not in sizes(measure(tmp_path, capsys), "file")


def test_the_whole_list_costs_more_and_a_hint_says_why(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(tmp_path, "group", "set", "acme", "options.tool_groups=all")
    (tmp_path / "groups" / "acme" / "AGENTS.md").write_text("word " * 2000)
    capsys.readouterr()
    cost = measure(tmp_path, capsys)
    assert "pin_message" in sizes(cost, "tool")
    assert any("tool_groups" in each for each in cost["hints"])
    assert any(each.startswith("AGENTS.md is long") for each in cost["hints"])


def test_group_show_has_it_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(tmp_path, "group", "show", "acme")
    (line,) = [each for each in capsys.readouterr().out.splitlines() if each.startswith("prompt ")]
    assert "tokens before the first word" in line and "gatepost prompt show acme" in line


def test_a_group_that_is_not_there_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert program.run(["prompt", "show", "nope", "--home", str(tmp_path)]) == 1
    assert "no group named 'nope'" in capsys.readouterr().err
