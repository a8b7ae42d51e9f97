"""The text of MEMORY.md: what somebody changed in it, and what it is written as."""

from collections.abc import Sequence
from typing import Any

import pytest

from gatepost.core.errors import Invalid
from gatepost.flow.memory import view_text
from gatepost.flow.memory.view_text import (
    MOST_LINES,
    OPEN,
    ViewChanges,
    ViewLine,
    find_changes,
    make_digest,
    parse_view,
    render_changes,
    render_conflicts,
    render_entry,
    render_view,
    split_changes,
)
from gatepost.store.memory.memories import LONGEST_TEXT, Memory, MemoryScope, MemoryTrust

NOW = 1_800_000_000_000_000


def entry(number: int, text: str, **more: Any) -> Memory:
    given = {"scope": MemoryScope.AGENT, "trust": MemoryTrust.MEMBER, "created_at": NOW, **more}
    return Memory(id=number, folder="acme", text=text, **given)


BINS, ANN = entry(1, "The bins go on Tuesday."), entry(2, "Leads the garden team.", about="Ann")
TEXT = render_view([ANN, BINS]).text


def compare(text: str, rows: Sequence[Memory] = (BINS, ANN), written: Sequence[Memory] = (BINS, ANN)) -> ViewChanges:
    last = {each.id: make_digest(render_entry(each)) for each in written}
    known = [render_entry(each) for each in rows if each.ended_at is None]
    return find_changes(parse_view(text), last, {each.id: each for each in rows}, known, NOW)


def wish(text: str, rows: Sequence[Memory] = (BINS, ANN), **more: Any) -> list[str]:
    found = compare(text, rows, **more)
    return render_changes(found) + [f"! {each}" for each in render_conflicts(found)]


def test_the_file_has_a_line_for_each_entry_the_oldest_first() -> None:
    lines = [line for line in TEXT.splitlines() if line.startswith("- ")]
    assert lines == ["- The bins go on Tuesday. <!-- 1 -->", "- **Ann**: Leads the garden team. <!-- 2 -->"]
    assert wish(TEXT) == []


@pytest.mark.parametrize(
    ("before", "after", "wished"),
    [
        ("- The bins", "- New.\n- The bins", ["+ New."]),
        ("Tuesday", "Wednesday", ["- 1: The bins go on Tuesday.", "+ The bins go on Wednesday."]),
        ("- The bins go on Tuesday. <!-- 1 -->\n", "", ["- 1: The bins go on Tuesday."]),
        ("**Ann**: ", "", ["- 2: **Ann**: Leads the garden team.", "+ Leads the garden team."]),
        ("- The bins", "* New\n  and longer.\n\n- The bins", ["+ New and longer."]),
        ("- The bins", "A paragraph\nof two lines.\n\n- The bins", ["+ A paragraph of two lines."]),
        ("- The bins", "## A heading\n- The bins", ["+ ## A heading"]),
        ("<!-- 2 -->\n", "<!-- 2 -->\nbelow it\n", ["+ below it"]),
        ("- The bins", "- New. <!-- also below -->\n- The bins", ["+ New. (agents below, too)"]),
        ("- The bins", f"{view_text.BELOW}\n- New.\n- The bins", ["+ New."]),
        ("- The bins", "- New. <!-- 77 -->\n- The bins", ["+ New."]),
        ("- The bins", "- New. <!-- forget 1 -->\n- The bins", ["- 1: The bins go on Tuesday."]),
        ("- The bins", "- New.\n- New.\n- The bins", ["+ New."]),
        ("- The bins", "- **Ann**: Leads the garden team.\n- The bins", []),
        ("- The bins", "-\n\n\n-   The   bins", []),
        ("\n", "\r\n", []),
        (" <!-- 1 -->", " <!-- 1, as it was -->", []),
        ("- The bins go on Tuesday. <!-- 1 -->", "- <!-- 1 -->", ["- 1: The bins go on Tuesday."]),
        ("- The", "- \N{ZERO WIDTH SPACE}New.\n- The", ["+ ⟨U+200B⟩New."]),
    ],
)
def test_each_change_of_somebody_is_a_wish(before: str, after: str, wished: list[str]) -> None:
    assert before in TEXT
    assert wish(TEXT.replace(before, after, 1 if before != "\n" else -1)) == wished


def test_wishes_stay_in_the_file_as_what_nobody_has_agreed_to_and_are_the_same_when_it_is_read_again() -> None:
    changed = TEXT.replace("Tuesday", "Friday").replace("- **Ann**: Leads the garden team. <!-- 2 -->", "- New.")
    found = compare(f"{changed}\n- For all. <!-- also below -->\n")
    written = render_view([ANN, BINS], found).text

    remembered, _, open_ones = written.partition(OPEN)
    assert "Tuesday" in remembered and "garden" in remembered and "New." not in remembered
    assert open_ones.split("\n")[2:-1] == [
        "- New.",
        "- For all. <!-- also below -->",
        "- The bins go on Friday. <!-- instead of 1 -->",
        "- **Ann**: Leads the garden team. <!-- forget 2 -->",
    ]
    assert render_changes(compare(written)) == render_changes(found)
    assert render_view([ANN, BINS], compare(written)).text == written


def test_a_file_without_lines_forgets_all_of_them() -> None:
    assert wish(view_text.TITLE) == ["- 1: The bins go on Tuesday.", "- 2: **Ann**: Leads the garden team."]


def test_a_line_that_was_changed_on_both_sides_is_a_conflict_which_stays_in_the_file() -> None:
    over, after = entry(1, BINS.text, ended_at=NOW), entry(3, "The bins go on Monday.", replaces=1)
    rows = (over, ANN, after)
    found = compare(TEXT.replace("Tuesday", "Friday"), rows)
    assert found.count == 0
    assert render_conflicts(found) == ["1 has changed or is over: The bins go on Friday."]

    written = render_view([after, ANN], found).text
    assert "- The bins go on Friday. <!-- instead of 1, which has changed meanwhile -->" in written
    assert wish(written, rows, written=(after, ANN)) == ["! 1 has changed or is over: The bins go on Friday."]


def test_both_sides_that_came_to_the_same_agree() -> None:
    rows = (entry(1, BINS.text, ended_at=NOW), ANN, entry(3, "The bins go on Friday.", replaces=1))
    assert wish(TEXT.replace("Tuesday", "Friday"), rows) == []


@pytest.mark.parametrize("over", [{"ended_at": NOW - 1}, {"expires_at": NOW}])
def test_an_unchanged_line_of_what_is_over_and_one_that_was_taken_out_are_no_wishes(over: dict[str, int]) -> None:
    rows = (entry(1, BINS.text, **over), ANN)
    assert wish(TEXT, rows) == []
    assert wish(TEXT.replace("- The bins go on Tuesday. <!-- 1 -->\n", ""), rows) == []


def test_the_line_of_somebody_who_was_forgotten_comes_back_as_no_wish() -> None:
    assert wish(TEXT, (ANN,)) == []
    assert wish(TEXT, (ANN,), written=()) == ["+ The bins go on Tuesday."]  # nobody knows that it stood there


def test_several_changes_of_one_line_are_all_kept() -> None:
    text = TEXT.replace("- The bins go on Tuesday. <!-- 1 -->", "- One. <!-- 1 -->\n- Two. <!-- 1 -->")
    assert wish(text) == ["+ Two.", "- 1: The bins go on Tuesday.", "+ One."]


@pytest.mark.parametrize(
    "text",
    [
        "Several\nlines\u2028of one",
        "- a bullet",
        "# a heading",
        view_text.INTRO[0],
        OPEN,
        "ends like a line <!-- 2 -->",
        "<!-- forget 2 -->",
        "**a**: b",
        "x" * LONGEST_TEXT,
    ],
)
@pytest.mark.parametrize("about", ["", "a topic"])
def test_whatever_an_entry_says_it_is_one_line_and_no_wish(text: str, about: str) -> None:
    odd = entry(1, text, about=about)
    written = render_view([ANN, odd]).text
    assert wish(written, (odd, ANN), written=(odd, ANN)) == []
    assert wish(written.replace("garden", "kitchen"), (odd, ANN), written=(odd, ANN)) == [
        "- 2: **Ann**: Leads the garden team.",
        "+ **Ann**: Leads the kitchen team.",
    ]


def test_where_an_entry_comes_from_stands_behind_it_unless_people_of_the_group_said_it() -> None:
    trusts = [*MemoryTrust]
    text = render_view([entry(number, "x", trust=trust) for number, trust in enumerate(trusts, 1)]).text
    named = {trust for number, trust in enumerate(trusts, 1) if f"<!-- {number}, {trust} -->" in text}
    assert named == {MemoryTrust.STRANGER, MemoryTrust.READ, MemoryTrust.CONCLUDED}


def test_a_file_shows_the_newest_and_what_it_does_not_show_is_not_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(view_text, "MOST_SHOWN", 1)
    written = render_view([ANN, BINS])
    assert "bins" not in written.text and [*written.lines] == [2]
    assert compare(written.text, written=(ANN,)).count == 0


@pytest.mark.parametrize(
    "text",
    [
        "- x\n" * (MOST_LINES + 1),
        "".join(f"- fact {number}\n" for number in range(view_text.MOST_CHANGES + 1)),
        f"- {'x' * (LONGEST_TEXT + 1)}",
        "x " * 200_000,
    ],
)
def test_more_than_somebody_could_look_at_is_refused(text: str) -> None:
    with pytest.raises(Invalid, match=r"MEMORY\.md"):
        for each in compare(text).added:
            view_text.split_line(each.text)


def test_changes_are_taken_over_in_parts_without_conflicts() -> None:
    lines = [ViewLine(str(number)) for number in range(5)]
    found = ViewChanges(added=lines, changed=[(BINS, lines[0])], forgotten=[ANN], conflicts=lines)
    parts = split_changes(found, 2)
    assert [each.count for each in parts] == [2, 2, 1, 1, 1]
    assert not any(each.conflicts for each in parts)
