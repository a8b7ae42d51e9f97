"""`reference_checks.toml` lists every acceptance check of the references; here it is compared with the tests' names."""

import re
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

TESTS = Path(__file__).parent
Checks = dict[str, dict[str, dict[str, Any]]]  # document, number, what the list says of it

DEFINED = re.compile(r"^ *(?:async )?def (test_\w+)", re.MULTILINE)
OLD_FORM = re.compile(r"test_(?:\w+_)?check_\d|test_d\d+_")
STATEMENTS = {frozenset({"about", "tests"}), frozenset({"about", "tests", "missing"}), frozenset({"about", "reason"})}


def listed() -> Checks:
    return tomllib.loads((TESTS / "reference_checks.toml").read_text(encoding="utf-8"))


def names_of_tests() -> Iterator[str]:
    for path in TESTS.rglob("test_*.py"):
        yield from DEFINED.findall(path.read_text(encoding="utf-8"))


def checks_of(name: str, documents: Iterable[str]) -> Iterator[tuple[str, str]]:
    """The (document, number) of each check that a test is named after; a number without a document repeats the last."""
    one = rf"(?:({'|'.join(documents)})_)?(d?\d+)_"
    document, rest = "", name.removeprefix("test_")
    while (found := re.match(one, rest)) and (document := found[1] or document):
        yield document, found[2]
        rest = rest[found.end() :]
        if not rest.startswith("and_"):
            return
        rest = rest.removeprefix("and_")


def faults(checks: Checks, names: Iterable[str]) -> list[str]:
    """What the list and the names of the tests contradict each other in."""
    found = []
    named: dict[tuple[str, str], str] = {}
    for name in names:
        if OLD_FORM.match(name):
            found.append(f"{name}: names a check without the form test_<document>_<number>_")
        named |= dict.fromkeys(checks_of(name, checks), name)
    entries = {(document, number): entry for document, all_ in checks.items() for number, entry in all_.items()}
    for (document, number), name in named.items():
        if (document, number) not in entries:
            found.append(f"{document}.{number}: is not listed, and {name} is named after it")
    for check, entry in entries.items():
        found += [f"{'.'.join(check)}: {fault}" for fault in faults_of(entry, named.get(check))]
    return found


def faults_of(entry: dict[str, Any], test: str | None) -> Iterator[str]:
    if frozenset(entry) not in STATEMENTS:
        yield "has `about` and either `tests` (perhaps `missing`) or `reason`, nothing else"
    elif not all(value is True if key == "tests" else isinstance(value, str) and value for key, value in entry.items()):
        yield "has a value that says nothing"
    elif "tests" in entry and test is None:
        yield "no test is named after it"
    elif "reason" in entry and test is not None:
        yield f"has a reason for having no test, and {test} is named after it"


def test_the_list_and_the_names_of_the_tests_agree() -> None:
    assert faults(listed(), names_of_tests()) == []


def test_the_numbers_of_each_document_have_no_gap() -> None:
    for document, checks in listed().items():
        for letter in ("", "d"):
            numbers = [number for number in checks if number.startswith("d") is bool(letter)]
            assert numbers == [f"{letter}{each}" for each in range(1, len(numbers) + 1)], document


TESTED = {"about": "It works.", "tests": True}
UNTESTED = {"about": "It will work.", "reason": "Not built."}


@pytest.mark.parametrize(
    ("checks", "names", "said"),
    [
        ({"1": TESTED, "2": TESTED}, ["test_doc_1_it_works"], "doc.2: no test is named after it"),
        ({"1": TESTED}, ["test_doc_1_it_works", "test_doc_2_so_does_this"], "doc.2: is not listed"),
        ({"1": TESTED}, ["test_doc_1_and_d9_it_works"], "doc.d9: is not listed"),
        ({"1": {"about": "It works."}}, [], "doc.1: has `about` and either"),
        ({"1": {"tests": True}}, ["test_doc_1_it_works"], "doc.1: has `about` and either"),
        ({"1": TESTED | UNTESTED}, ["test_doc_1_it_works"], "doc.1: has `about` and either"),
        ({"1": {**UNTESTED, "missing": "All."}}, [], "doc.1: has `about` and either"),
        ({"1": {**TESTED, "tests": False}}, [], "doc.1: has a value that says nothing"),
        ({"1": {**UNTESTED, "reason": ""}}, [], "doc.1: has a value that says nothing"),
        ({"1": UNTESTED}, ["test_doc_1_it_works"], "doc.1: has a reason for having no test"),
        ({}, ["test_check_1_it_works"], "test_check_1_it_works: names a check"),
        ({}, ["test_doc_check_1_it_works"], "test_doc_check_1_it_works: names a check"),
        ({}, ["test_d1_it_works"], "test_d1_it_works: names a check"),
    ],
)
def test_a_contradiction_is_found(checks: dict[str, dict[str, Any]], names: list[str], said: str) -> None:
    (fault,) = faults({"doc": checks}, names)
    assert fault.startswith(said)


def test_what_agrees_has_no_fault() -> None:
    checks = {"doc": {"1": TESTED, "2": {**TESTED, "missing": "The rest."}, "3": UNTESTED}, "other": {"d4": TESTED}}
    assert faults(checks, ["test_doc_1_and_2_and_other_d4_they_work", "test_5000_bytes_are_taken"]) == []


@pytest.mark.parametrize(
    ("name", "checks"),
    [
        ("test_doc_7_it_works", ["doc.7"]),
        ("test_doc_d7_and_8_it_works", ["doc.d7", "doc.8"]),
        ("test_doc_7_and_other_d8_and_9_it_works", ["doc.7", "other.d8", "other.9"]),
        ("test_doc_7_and_it_works", ["doc.7"]),
        ("test_doc_7_200_bytes_are_taken", ["doc.7"]),
        ("test_200_bytes_are_taken", []),
        ("test_docs_7_are_there", []),
    ],
)
def test_a_name_tells_its_checks(name: str, checks: list[str]) -> None:
    assert [".".join(each) for each in checks_of(name, ["doc", "other"])] == checks
