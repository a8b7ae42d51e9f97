"""Names that look alike to people."""

from itertools import combinations

import pytest

from gatepost.flow.people.name_likeness import is_disguised, make_plain


@pytest.mark.parametrize(
    "name",
    [
        "BOSS",
        "  boss ",
        "B0ss",
        "Bo\u0323ss",  # a dot below
        "\U0001d401oss",  # a bold letter
        "\u0412\u043e\u0455\u0455",  # Cyrillic
        "\u0392\u039f\u0405\u0405",  # Greek and Cyrillic
        "Bo\u200bss",  # a space of no width
    ],
)
def test_a_name_that_looks_like_another_one_is_the_same_at_a_glance(name: str) -> None:
    assert make_plain(name) == make_plain("Boss")


@pytest.mark.parametrize(("one", "other"), [("lan", "Ian"), ("Will", "WiIl"), ("Arnie", "Amie"), ("vvim", "wim")])
def test_ascii_letters_that_look_alike_are_the_same_at_a_glance(one: str, other: str) -> None:
    assert make_plain(one) == make_plain(other)


def test_names_that_differ_are_not_taken_for_each_other() -> None:
    names = ["Ann", "Anna", "Ann 2", "Юлия", "Юрий", "Γιάννης", "Γιώργος", "李明", "李华", "محمد", "Müller", "Miller"]
    assert [each for each in combinations(names, 2) if make_plain(each[0]) == make_plain(each[1])] == []
    assert not any(map(is_disguised, [*names, "Юлия Miller", "李Ann", "Zoë", "O’Neil"]))


@pytest.mark.parametrize("name", ["B\u043eris", "\u0392oss", "The \u13aaapital", "p\u0561ul"])
def test_letters_of_two_alphabets_in_one_word_are_a_disguise(name: str) -> None:
    assert is_disguised(name)
