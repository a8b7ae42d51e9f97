"""Grades that a suite gives: one for each check of each thing that it judges, a channel or a provider.

A check is a function `check_…` of a file in the suite's package `checks`, with a sentence for a docstring; the folder
is listed. It ends by returning its note (pass), by one of the exceptions below, or by any other (fail).
"""

import importlib
import inspect
import pkgutil
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from types import ModuleType
from typing import Any, TypeAlias

from msgspec import Struct

LONGEST_WHY = 300
SuiteCheck: TypeAlias = Callable[[Any], Awaitable[None]]


class GradeState(StrEnum):
    PASS = "pass"
    UNCERTAIN = "uncertain"  # nothing came twice, and the message is labelled: nobody can know whether it arrived
    PARTLY = "partly"  # it works as far as the program of others lets it, and its reason says how far
    NOT_OFFERED = "not offered"  # the channel does not declare it, and it was seen that it is refused or degrades
    NOT_TRIED = "not tried"  # it cannot be brought about here, so nothing is known
    FAIL = "fail"


MARKS: Mapping[GradeState, str] = {
    GradeState.PASS: "✔",
    GradeState.UNCERTAIN: "~",
    GradeState.PARTLY: "~",
    GradeState.NOT_OFFERED: "–",
    GradeState.NOT_TRIED: "?",
    GradeState.FAIL: "✘",
}


class Grade(Struct, frozen=True, kw_only=True):
    check: str  # its name, "edits in"
    area: str  # the file that it is in: receiving, sending …
    state: GradeState
    why: str = ""  # of a pass: what was left out


class GradeEnd(Exception):
    """Raised by a check that ends in another way than by passing or failing."""

    state: GradeState

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


class FeatureMissing(GradeEnd):
    state = GradeState.NOT_OFFERED


class OutcomeUnknown(GradeEnd):
    state = GradeState.UNCERTAIN


class WorksPartly(GradeEnd):
    state = GradeState.PARTLY


class CheckImpossible(GradeEnd):
    state = GradeState.NOT_TRIED


def load_checks(package: ModuleType) -> list[tuple[str, str, SuiteCheck]]:
    """Return area, name and function of each check, in the order of files and of lines."""
    found = []
    for info in sorted(pkgutil.iter_modules(package.__path__), key=lambda info: info.name):
        module = importlib.import_module(f"{package.__name__}.{info.name}")
        for name, check in vars(module).items():
            if name.startswith("check_") and inspect.iscoroutinefunction(check) and check.__module__ == module.__name__:
                found.append((info.name, name.removeprefix("check_").replace("_", " "), check))
    return found


async def grade_check(area: str, name: str, running: Awaitable[str]) -> Grade:
    """Wait for a check, which returns the note to its pass, and grade how it ends."""
    try:
        note = await running
    except GradeEnd as end:
        return Grade(check=name, area=area, state=end.state, why=end.why)
    except Exception as error:  # noqa: BLE001  whatever is raised by what is judged, or its emulator, is its grade
        why = str(error) if isinstance(error, AssertionError) and str(error) else repr(error)
        return Grade(check=name, area=area, state=GradeState.FAIL, why=" ".join(why.split())[:LONGEST_WHY])
    return Grade(check=name, area=area, state=GradeState.PASS, why=note)


def list_failures(grades: Iterable[Grade]) -> list[str]:
    """One line each."""
    return [f"{each.check}: {each.why}" for each in grades if each.state is GradeState.FAIL]


def render_table(by_kind: Mapping[str, Sequence[Grade]]) -> str:
    """A row a check, a column a channel or provider, in markdown."""
    kinds = sorted(by_kind)
    found = {kind: {each.check: each for each in by_kind[kind]} for kind in kinds}
    rows = list(dict.fromkeys((each.area, each.check) for kind in kinds for each in by_kind[kind]))
    lines = [f"| check | {' | '.join(kinds)} |", f"|---{'|---' * len(kinds)}|"]
    for _, check in rows:
        cells = [MARKS[found[kind][check].state if check in found[kind] else GradeState.NOT_TRIED] for kind in kinds]
        lines.append(f"| {check} | {' | '.join(cells)} |")
    return "\n".join(lines)


def render_notes(by_kind: Mapping[str, Sequence[Grade]]) -> list[str]:
    """Return what lies behind each mark that is no plain pass and no missing feature; the same words for several in
    one."""
    found: dict[tuple[str, GradeState, str], list[str]] = {}
    for kind in sorted(by_kind):
        for each in by_kind[kind]:
            if is_noted(each):
                found.setdefault((each.check, each.state, each.why), []).append(kind)
    return [f"{MARKS[state]} {check} ({', '.join(kinds)}): {why}" for (check, state, why), kinds in found.items()]


def is_noted(grade: Grade) -> bool:
    return grade.state is not GradeState.NOT_OFFERED and (bool(grade.why) or grade.state is not GradeState.PASS)


def parse_grade(check: str, area: str, written: str) -> Grade:
    state, _, why = written.partition(": ")
    return Grade(check=check, area=area, state=GradeState(state), why=why)


def render_grade(grade: Grade) -> str:
    """As a file of grades has it: the state, and why where that is told."""
    return f"{grade.state}: {grade.why}" if is_noted(grade) and grade.state is not GradeState.FAIL else grade.state
