"""Names: every public class of the package has a name of its own, and functions use the common verbs."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator

from .source_trees import find_nodes, get_place, list_source_files

DICTATED: frozenset[str] = frozenset()  # names that a protocol dictates in more than one place
VERBS = re.compile(
    r"hear[ds]?|hearing|tells?|telling|told|says?|saying|said|look(s|ed|ing)?|takes?|taken|taking|took|leads?|led"
)
# Functions that may have such a verb, and why.
OPEN_FUNCTIONS = {
    "look_up": "the method of a channel that plug-ins implement; a lookup is the standard term",
    "_look_up_effect": "calls it",
    "gatepost_testing/channel.py say": "not renamed yet: at least 32 test files call it",
    "gatepost_testing/outbox_harness.py say": "named like that of the channel",
    "gatepost_testing/platform.py say": "named like that of the channel",
    "gatepost_testing/provider.py say": "the script's own word for the step that it adds",
}


def trees() -> Iterator[tuple[str, ast.Module]]:
    return ((get_place(each.path).as_posix().removeprefix("gatepost/"), each.tree) for each in list_source_files())


def duplicates(sources: Iterable[tuple[str, ast.Module]]) -> list[str]:
    """Public class names that occur more than once, with where. `sources`: (path, tree)."""
    found: dict[str, list[str]] = defaultdict(list)
    for path, tree in sources:
        for node in find_nodes(tree, ast.ClassDef):
            if not node.name.startswith("_"):
                found[node.name].append(f"{path}:{node.lineno}")
    return [f"{name}: {', '.join(at)}" for name, at in sorted(found.items()) if len(at) > 1 and name not in DICTATED]


def private_verbs(path: str, tree: ast.Module) -> list[str]:
    """Functions with a verb that is not of the common stock, by path and name."""
    return [
        f"{path} {each.name}"
        for each in find_nodes(tree, ast.FunctionDef, ast.AsyncFunctionDef)
        if each.name not in OPEN_FUNCTIONS and any(map(VERBS.fullmatch, each.name.split("_")))
    ]


def test_no_two_public_classes_share_a_name() -> None:
    sources = list(trees())
    assert len(sources) > 400
    assert duplicates(sources) == []


def test_no_function_has_a_verb_that_is_not_of_the_common_stock() -> None:
    found = [each for path, tree in trees() for each in private_verbs(path, tree)]
    assert sorted(set(found) - OPEN_FUNCTIONS.keys()) == []
    assert sorted(each for each in OPEN_FUNCTIONS if " " in each and each not in found) == []


def test_a_second_class_of_one_name_is_found_also_within_another_class() -> None:
    planted = {
        "a.py": "class Answer: ...\nclass _Private: ...",
        "b.py": "class Outer:\n    class Answer: ...",
        "c.py": "class _Private: ...",
    }
    assert duplicates((path, ast.parse(text)) for path, text in planted.items()) == ["Answer: a.py:1, b.py:2"]


def test_such_a_verb_is_found_also_in_a_method_or_within_a_function() -> None:
    planted = "class A:\n    async def _hear(self): ...\ndef start():\n    def told(): ...\ndef find_or_say(): ...\n"
    fine = "def look_up(): ...\ndef essay(): ...\ndef leader(): ...\n"
    assert sorted(private_verbs("a.py", ast.parse(planted + fine))) == ["a.py _hear", "a.py find_or_say", "a.py told"]
