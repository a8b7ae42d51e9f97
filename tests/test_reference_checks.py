"""Every acceptance check of the reference for agents as a service has a test that is named after it."""

import re
from pathlib import Path

TESTS = Path(__file__).parent
CHECKS = range(1, 41)
NAMED = re.compile(r"^(?:async )?def (test_paseo_(\d+)_(?:and_(\d+)_)?\w*)", re.MULTILINE)


def named_after_checks() -> dict[int, list[str]]:
    """The number of each check, and the tests that are named after it."""
    found: dict[int, list[str]] = {}
    for path in TESTS.rglob("test_*.py"):
        for name, *said in NAMED.findall(path.read_text(encoding="utf-8")):
            for number in filter(None, said):
                found.setdefault(int(number), []).append(f"{path.relative_to(TESTS)}::{name}")
    return found


def test_each_of_the_forty_checks_has_a_test_of_its_name() -> None:
    found = named_after_checks()
    assert [number for number in CHECKS if number not in found] == []


def test_no_test_is_named_after_a_check_that_there_is_not() -> None:
    assert {number: names for number, names in named_after_checks().items() if number not in CHECKS} == {}
