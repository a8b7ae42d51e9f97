"""The grades of every provider: each cell, run anew with the real program, is as `docs/agent-grades.json` says."""

import json
import pkgutil
from pathlib import Path
from typing import Any

import pytest

from gatepost.inside import providers
from gatepost_testing.agent_profiles import AGENTS
from gatepost_testing.agent_suite import COLUMNS, list_checks, run_agent_suite
from gatepost_testing.grading import GradeState, parse_grade

STORED: dict[str, Any] = json.loads(
    (Path(__file__).parents[2] / "docs" / "agent-grades.json").read_text(encoding="utf-8")
)
EVERY_DAY = {("tool", "anthropic"), ("tool", "openai"), ("tool", "claude"), ("401", "anthropic"), ("401", "openai")}


def list_cells() -> list[Any]:
    found = []
    for name in STORED:
        agent = COLUMNS[name]
        for _, check, _ in list_checks():
            marks = [pytest.mark.skipif(bool(agent.missing), reason=agent.missing or "it is there")]
            marks += [] if (check, name) in EVERY_DAY else [pytest.mark.slow]
            found.append(pytest.param(name, check, id=f"{name}-{check}".replace(" ", "-"), marks=marks))
    return found


def test_every_provider_that_asks_a_model_is_graded() -> None:
    """But for goose: an emulator stands in for it in test_gemini_and_goose.py."""
    others = {"contract", "demo", "scripted", "goose"}
    assert {each.provider for each in COLUMNS.values()} == {
        info.name for info in pkgutil.iter_modules(providers.__path__)
    } - others
    assert set(AGENTS) < set(COLUMNS) >= set(STORED)


@pytest.mark.parametrize("name", sorted(STORED))
def test_each_check_has_its_grade_and_none_is_a_failure(name: str) -> None:
    grades = {check: parse_grade(check, "", written) for check, written in STORED[name]["grades"].items()}

    assert set(grades) == {check for _, check, _ in list_checks()}
    assert [check for check, grade in grades.items() if grade.state is GradeState.FAIL] == []
    assert all(grade.why for grade in grades.values() if grade.state is not GradeState.PASS)


@pytest.mark.parametrize(("name", "check"), list_cells())
async def test_a_fresh_run_is_as_written_down(name: str, check: str) -> None:
    (grade,) = await run_agent_suite(COLUMNS[name], only=[check])

    kept = parse_grade(check, "", STORED[name]["grades"][check])
    assert (grade.state, grade.why) == (kept.state, kept.why), "make grades-of-agents writes it down anew"
