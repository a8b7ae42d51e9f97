"""Findings of the suite about a channel: one grade a check."""

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum

from msgspec import Struct


class GradeState(StrEnum):
    PASS = "pass"
    UNCERTAIN = "uncertain"  # nothing came twice, and the message is labelled: nobody can know whether it arrived
    NOT_OFFERED = "not offered"  # the channel does not declare it, and it was seen that it is refused or degrades
    NOT_TRIED = "not tried"  # this platform cannot bring it about, so nothing is known
    FAIL = "fail"


MARKS: Mapping[GradeState, str] = {
    GradeState.PASS: "✔",
    GradeState.UNCERTAIN: "~",
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


class CheckImpossible(GradeEnd):
    state = GradeState.NOT_TRIED


def list_failures(grades: Iterable[Grade]) -> list[str]:
    """One line each."""
    return [f"{each.check}: {each.why}" for each in grades if each.state is GradeState.FAIL]


def render_table(by_kind: Mapping[str, Sequence[Grade]]) -> str:
    """A row a check, a column a channel, in markdown."""
    kinds = sorted(by_kind)
    found = {kind: {each.check: each for each in by_kind[kind]} for kind in kinds}
    rows = list(dict.fromkeys((each.area, each.check) for kind in kinds for each in by_kind[kind]))
    lines = [f"| check | {' | '.join(kinds)} |", f"|---{'|---' * len(kinds)}|"]
    for _, check in rows:
        cells = [MARKS[found[kind][check].state] if check in found[kind] else "" for kind in kinds]
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
