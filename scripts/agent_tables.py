"""The table of `docs/providers.md`: how the suite graded each provider, with its real program.

`make grades-of-agents` runs the suite and writes `docs/agent-grades.json`; `make docs` prints the table from it. Slow
tests compare each cell with a fresh run.
"""

import argparse
import asyncio
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from channel_tables import fill_part
from gatepost import __version__, declarations
from gatepost_testing import programs
from gatepost_testing.agent_profiles import AgentProfile
from gatepost_testing.agent_suite import COLUMNS, list_checks, run_agent_suite
from gatepost_testing.grading import (
    Grade,
    GradeState,
    list_failures,
    parse_grade,
    render_grade,
    render_notes,
    render_table,
)

DOCS = Path(__file__).resolve().parent.parent / "docs"
GRADES = DOCS / "agent-grades.json"
NEVER_RUN = "no run is written down yet"


class ProviderGrades(msgspec.Struct):
    """The last results of one column. `version`: of the program that was driven."""

    date: str
    version: str
    grades: dict[str, str]


def read_grades() -> dict[str, ProviderGrades]:
    return msgspec.json.decode(GRADES.read_bytes(), type=dict[str, ProviderGrades])


def list_grades(stored: ProviderGrades) -> list[Grade]:
    areas = {name: area for area, name, _ in list_checks()}
    return [parse_grade(name, areas[name], stored.grades[name]) for name in areas if name in stored.grades]


def render_grades() -> str:
    stored = read_grades()
    missing = {name: ProviderGrades("", "", {}) for name in COLUMNS if name not in stored}
    columns = {**stored, **missing}
    found = {name: list_grades(each) for name, each in columns.items()}
    tried = {name: grades for name, grades in found.items() if any(_is_tried(each) for each in grades)}
    count = {name: sum(each.state is GradeState.PASS for each in grades) for name, grades in found.items()}
    lines = [render_table(found), f"| **passed, of {len(list_checks())}** | {_join(count)} |"]
    lines += [f"| run on | {_join({name: each.date for name, each in columns.items()})} |"]
    lines += [f"| program | {_join({name: each.version for name, each in columns.items()})} |"]
    notes = render_notes(tried)
    for name, grades in sorted(found.items()):
        if name not in tried:
            notes.append(f"? {name}: {grades[0].why if grades else NEVER_RUN}")
    return "\n".join([*lines, "", *(f"- {each}" for each in notes)])


def _is_tried(grade: Grade) -> bool:
    return grade.state is not GradeState.NOT_TRIED


def _join(by_column: Mapping[str, object]) -> str:
    return " | ".join(str(by_column[name]) for name in sorted(by_column))


def fill_page(text: str) -> str:
    """`docs/providers.md` with its table as it is now."""
    return fill_part(text, "grades", render_grades())


def find_version(agent: AgentProfile) -> str:
    """Return the version of what was driven; '' if it is not here."""
    if agent.missing:
        return ""
    if agent.package:
        from claude_agent_sdk._cli_version import __cli_version__

        return str(__cli_version__)
    program = programs.find(agent.program) if agent.program else None
    if program is None:
        return f"gatepost {__version__}"
    shown = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=60)
    return shown.stdout.strip().split()[-1]


async def grade_all(names: Sequence[str], only: Sequence[str] = ()) -> dict[str, list[Grade]]:
    """Grade these columns; what is found of each is written down at once. `only`: the checks; others keep their
    grades."""
    found = {}
    for name in names:
        found[name] = await run_agent_suite(COLUMNS[name], only=only)
        date, version = datetime.now(UTC).date().isoformat(), find_version(COLUMNS[name])
        stored = read_grades() if GRADES.exists() else {}
        kept = stored[name].grades if only and name in stored else {}
        stored[name] = ProviderGrades(date, version, kept | {each.check: render_grade(each) for each in found[name]})
        text = json.dumps(msgspec.to_builtins(stored), indent=1, sort_keys=True, ensure_ascii=False)
        GRADES.write_text(f"{text}\n", encoding="utf-8")
        print("\n".join([f"{name} is graded", *list_failures(found[name])]), flush=True)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description="Grade providers; those that are not named keep their grades.")
    parser.add_argument("names", nargs="*", help="columns of the table; all without any")
    parser.add_argument("--only", action="append", default=[], help="a check, by its name; several by several")
    given = parser.parse_args()
    declarations.load_package()
    found = asyncio.run(grade_all(given.names or list(COLUMNS), given.only))
    print(render_table(found))
    return 1 if any(list_failures(grades) for grades in found.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
