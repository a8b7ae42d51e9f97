"""Each module has a test that a stranger finds: one of its name, one that imports it, or one that the table names."""

import re
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from .source_trees import SOURCE

TESTS = Path(__file__).parent
PACKAGE = "gatepost"
TABLE = TESTS / "mirrors.toml"
LONGEST_REASON = 40  # characters
# To parse the tests as Python takes ten seconds.
IMPORT = re.compile(rf"^ *(?:from ({PACKAGE}[\w.]*) import (\([^)]*\)|[^\n]*)|import ({PACKAGE}[\w.]*))", re.MULTILINE)
NAME = re.compile(r"\w+")


def name_module(path: str) -> str:
    """Return how a file below the package is imported: `flow/pairing` as `gatepost.flow.pairing`."""
    return ".".join([PACKAGE, *path.removesuffix("__init__").strip("/").split("/")]).rstrip(".")


def list_mirrors(path: str) -> list[str]:
    """Return the names that a test file of its own may have. That of a package lies beside its folder."""
    folder, _, name = path.removesuffix("/__init__").rpartition("/")
    return [f"{folder}/test_{name.lstrip('_')}".lstrip("/")]


def list_imported(text: str) -> Iterator[str]:
    """Yield all that may be a module among the names that a test imports, also within functions."""
    for source, names, module in IMPORT.findall(text):
        yield source or module
        yield from (f"{source}.{each}" for each in NAME.findall(names))


def find_tests(modules: Iterable[str], tests: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the test files that mirror or import each module, by its path below the package."""
    importing: dict[str, list[str]] = defaultdict(list)
    for name, text in tests.items():
        for module in {*list_imported(text)}:
            importing[module].append(name)
    return {
        each: [name for name in list_mirrors(each) if name in tests] + sorted(importing[name_module(each)])
        for each in modules
    }


def find_faults(
    found: Mapping[str, Sequence[str]], covered: Mapping[str, str], untested: Mapping[str, str], tests: Iterable[str]
) -> list[str]:
    """Return what a stranger would look for in vain: modules without a test, and lines of the table that are wrong."""
    known, listed = set(tests), {**covered, **untested}
    lacking = [f"{each}: no test mirrors or imports it" for each, at in found.items() if not at and each not in listed]
    gone = [f"{each}: there is no such module" for each in listed if each not in found]
    needless = [f"{each}: {found[each][0]} is its test" for each in listed if found.get(each)]
    wrong = [f"{each}: there is no {at}" for each, at in covered.items() if at not in known]
    twice = [f"{each}: stands in both parts" for each in covered if each in untested]
    wordy = [f"{each}: say it shorter" for each, why in untested.items() if not 0 < len(why) <= LONGEST_REASON]
    return [*lacking, *gone, *needless, *wrong, *twice, *wordy]


def read_modules() -> list[str]:
    root = SOURCE / PACKAGE
    return sorted(path.relative_to(root).with_suffix("").as_posix() for path in root.rglob("*.py"))


def read_tests() -> dict[str, str]:
    paths = sorted(TESTS.rglob("test_*.py"))
    return {each.relative_to(TESTS).with_suffix("").as_posix(): each.read_text("utf-8") for each in paths}


def test_every_module_has_a_test_that_can_be_found() -> None:
    table, tests = tomllib.loads(TABLE.read_text("utf-8")), read_tests()
    found = find_tests(read_modules(), tests)
    assert len(found) > 700
    assert not {*table["covered"]} & {*table["unproven"]}
    assert find_faults(found, table["covered"] | table["unproven"], table["no_test"], tests) == []


def test_the_table_is_in_order() -> None:
    for part in tomllib.loads(TABLE.read_text("utf-8")).values():
        assert [*part] == sorted(part)


TEXTS = {
    "flow/test_pairing": "",
    "flows/test_life": "from gatepost.flow import (\n    codes,  # all\n    x,\n)\nfrom .conftest import lost",
    "test_app": "def test_it():\n    import gatepost.core.home",
}
MODULES = ["flow/pairing", "flow/codes", "core/home", "flow/__init__", "flow/lost", "core/empty"]


def test_a_module_without_a_test_is_found() -> None:
    found = find_tests(MODULES, TEXTS)
    assert found["flow/pairing"] == ["flow/test_pairing"] and found["flow/codes"] == ["flows/test_life"]
    assert found["core/home"] == ["test_app"] and found["flow/__init__"] == ["flows/test_life"]
    faults = find_faults(found, {}, {"core/empty": "a docstring"}, TEXTS)
    assert faults == ["flow/lost: no test mirrors or imports it"]


@pytest.mark.parametrize(
    ("covered", "untested", "fault"),
    [
        ({"flow/lost": "flows/test_gone"}, {}, "flow/lost: there is no flows/test_gone"),
        ({"flow/lost": "test_app", "flow/old": "test_app"}, {}, "flow/old: there is no such module"),
        ({"flow/lost": "test_app", "flow/codes": "test_app"}, {}, "flow/codes: flows/test_life is its test"),
        ({"flow/lost": "test_app"}, {"flow/lost": "empty"}, "flow/lost: stands in both parts"),
        ({}, {"flow/lost": ""}, "flow/lost: say it shorter"),
        ({}, {"flow/lost": "x" * (LONGEST_REASON + 1)}, "flow/lost: say it shorter"),
    ],
)
def test_a_wrong_line_of_the_table_is_found(covered: dict[str, str], untested: dict[str, str], fault: str) -> None:
    found = find_tests([each for each in MODULES if each != "core/empty"], TEXTS)
    assert find_faults(found, covered, untested, TEXTS) == [fault]
