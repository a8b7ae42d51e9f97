"""Patterns that are compiled when they are first used."""

import re

import pytest

from gatepost.core.late_pattern import late_pattern


def test_it_finds_what_the_pattern_finds() -> None:
    numbers = late_pattern(r"(?P<whole>\d+)(?:\.\d+)?")

    assert numbers.fullmatch("12.5") is not None
    assert numbers.fullmatch("x") is None
    assert [each["whole"] for each in numbers.finditer("3.1 and 4")] == ["3", "4"]
    assert numbers.sub("n", "3.1 and 4") == "n and n"


def test_the_flags_hold() -> None:
    assert late_pattern("yes", re.IGNORECASE).search("Oh YES") is not None
    assert late_pattern("yes").search("Oh YES") is None


def test_it_is_compiled_when_it_is_used_and_not_before() -> None:
    broken = late_pattern("(")

    with pytest.raises(re.error):
        broken.search("")


def test_what_was_asked_for_once_is_kept() -> None:
    pattern = late_pattern("a+")

    assert pattern.search is pattern.search
    assert pattern.pattern == "a+"
