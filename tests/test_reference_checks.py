"""`reference_checks.toml` lists every acceptance check and confirmed defect of the references; here it is compared with
the tests' names and with its own count of them."""

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
STATEMENTS = {
    frozenset({"about", "tests"}),
    frozenset({"about", "tests", "missing"}),
    frozenset({"about", "shown_by"}),
    frozenset({"about", "shown_by", "missing"}),
    frozenset({"about", "reason"}),
}
Counts = dict[str, dict[str, int]]  # document, `checks` or `defects`, how many the document has


def read_list() -> dict[str, Any]:
    return tomllib.loads((TESTS / "reference_checks.toml").read_text(encoding="utf-8"))


def counted() -> Counts:
    counts: Counts = read_list()["documents"]
    return counts


def listed() -> Checks:
    return {document: checks for document, checks in read_list().items() if document != "documents"}


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
    """Return what the list and the names of the tests contradict each other in."""
    found, all_names = [], set(names)
    named: dict[tuple[str, str], str] = {}
    for name in sorted(all_names):
        if OLD_FORM.match(name):
            found.append(f"{name}: names a check without the form test_<document>_<number>_")
        named |= dict.fromkeys(checks_of(name, checks), name)
    entries = {(document, number): entry for document, all_ in checks.items() for number, entry in all_.items()}
    for (document, number), name in named.items():
        if (document, number) not in entries:
            found.append(f"{document}.{number}: is not listed, and {name} is named after it")
    shown = all_names | {".".join(check) for check in named}
    for check, entry in entries.items():
        found += [f"{'.'.join(check)}: {fault}" for fault in faults_of(entry, named.get(check), shown)]
    return found


def faults_of(entry: dict[str, Any], test: str | None, shown: set[str]) -> Iterator[str]:
    """`shown`: the names of all tests, and the checks that a test is named after."""
    if frozenset(entry) not in STATEMENTS:
        yield "has `about` and either `tests` or `shown_by` (perhaps `missing`) or `reason`, nothing else"
    elif not all(map(says_something, entry, entry.values())):
        yield "has a value that says nothing"
    elif "tests" in entry and test is None:
        yield "no test is named after it"
    elif "tests" not in entry and test is not None:
        yield f"says that no test is named after it, and {test} is"
    yield from (f"there is no {each}" for each in entry.get("shown_by", ()) if each not in shown)


def says_something(key: str, value: object) -> bool:
    if key == "tests":
        return value is True
    if key == "shown_by":
        return isinstance(value, list) and bool(value) and all(isinstance(each, str) for each in value)
    return isinstance(value, str) and bool(value)


def gaps(checks: Checks, counts: Counts) -> list[str]:
    """Return where the list has not exactly the checks and defects of a document, in their order."""
    found = [f"{document}: is not counted" for document in checks if document not in counts]
    for document, count in counts.items():
        wanted = [str(each + 1) for each in range(count["checks"])]
        wanted += [f"d{each + 1}" for each in range(count["defects"])]
        numbers = list(checks.get(document, {}))
        found += [f"{document}.{each}: is not listed" for each in wanted if each not in numbers]
        found += [f"{document}.{each}: the document has no such check" for each in numbers if each not in wanted]
        if not found and numbers != wanted:
            found.append(f"{document}: is not in order")
    return found


def test_the_list_and_the_names_of_the_tests_agree() -> None:
    assert faults(listed(), names_of_tests()) == []


def test_every_check_and_defect_of_the_three_documents_is_listed() -> None:
    assert sorted(counted()) == ["arizuko", "nanoclaw", "paseo"]
    assert gaps(listed(), counted()) == []


@pytest.mark.parametrize(
    ("numbers", "said"),
    [
        (["1", "2", "d1"], []),
        (["1", "d1"], ["doc.2: is not listed"]),
        (["1", "2"], ["doc.d1: is not listed"]),
        (["1", "2", "3", "d1"], ["doc.3: the document has no such check"]),
        (["1", "2", "d1", "x"], ["doc.x: the document has no such check"]),
        (["2", "1", "d1"], ["doc: is not in order"]),
        ([], ["doc.1: is not listed", "doc.2: is not listed", "doc.d1: is not listed"]),
    ],
)
def test_a_gap_is_found(numbers: list[str], said: list[str]) -> None:
    assert gaps({"doc": dict.fromkeys(numbers, TESTED)}, {"doc": {"checks": 2, "defects": 1}}) == said


def test_a_document_that_is_not_counted_is_found() -> None:
    assert gaps({"doc": {"1": TESTED}}, {}) == ["doc: is not counted"]


TESTED = {"about": "It works.", "tests": True}
UNTESTED = {"about": "It will work.", "reason": "Not built."}
SHOWN = {"about": "It works.", "shown_by": ["test_it_works"]}


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
        ({"1": UNTESTED}, ["test_doc_1_it_works"], "doc.1: says that no test is named after it"),
        ({"1": SHOWN}, ["test_it_works", "test_doc_1_it_works"], "doc.1: says that no test is named after it"),
        ({"1": SHOWN}, ["test_something_else"], "doc.1: there is no test_it_works"),
        ({"1": UNTESTED, "2": {**SHOWN, "shown_by": ["doc.1"]}}, [], "doc.2: there is no doc.1"),
        ({"1": {**SHOWN, "shown_by": []}}, [], "doc.1: has a value that says nothing"),
        ({"1": {**SHOWN, "reason": "Not built."}}, ["test_it_works"], "doc.1: has `about` and either"),
        ({}, ["test_check_1_it_works"], "test_check_1_it_works: names a check"),
        ({}, ["test_doc_check_1_it_works"], "test_doc_check_1_it_works: names a check"),
        ({}, ["test_d1_it_works"], "test_d1_it_works: names a check"),
    ],
)
def test_a_contradiction_is_found(checks: dict[str, dict[str, Any]], names: list[str], said: str) -> None:
    (fault,) = faults({"doc": checks}, names)
    assert fault.startswith(said)


def test_what_agrees_has_no_fault() -> None:
    shown = {**SHOWN, "shown_by": ["doc.1", "test_5000_bytes_are_taken"]}
    checks: Checks = {
        "doc": {"1": TESTED, "2": {**TESTED, "missing": "The rest."}, "3": UNTESTED},
        "other": {"d4": TESTED, "d5": shown, "d6": {**shown, "missing": "The rest."}},
    }
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
