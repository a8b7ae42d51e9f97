"""Names: every public class of the package has a name of its own, and functions use the common verbs."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

SOURCE = Path(__file__).resolve().parent.parent / "src" / "gatepost"
DICTATED: frozenset[str] = frozenset()  # names that a protocol dictates in more than one place
VERBS = re.compile(
    r"hear[ds]?|hearing|tells?|telling|told|says?|saying|said|look(s|ed|ing)?|takes?|taken|taking|took|leads?|led"
)
# Functions that may have such a verb, and why.
OPEN_FUNCTIONS = {
    "look_up": "the method of a channel that plug-ins implement; a lookup is the standard term",
    "_look_up_effect": "calls it",
    "testing/channel.py say": "not renamed yet: at least 32 test files call it",
    "testing/outbox_harness.py say": "named like that of the channel",
    "testing/platform.py say": "named like that of the channel",
    "testing/provider.py say": "the script's own word for the step that it adds",
}


def duplicates(sources: Iterable[tuple[str, str]]) -> list[str]:
    """Public class names that occur more than once, with where. `sources`: (path, text)."""
    found: dict[str, list[str]] = defaultdict(list)
    for path, text in sources:
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(f"{path}:{node.lineno}")
    return [f"{name}: {', '.join(at)}" for name, at in sorted(found.items()) if len(at) > 1 and name not in DICTATED]


def private_verbs(path: str, text: str) -> list[str]:
    """Functions with a verb that is not of the common stock, by path and name."""
    functions = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return [
        f"{path} {each.name}"
        for each in functions
        if each.name not in OPEN_FUNCTIONS and any(map(VERBS.fullmatch, each.name.split("_")))
    ]


def test_no_two_public_classes_share_a_name() -> None:
    sources = [(str(path.relative_to(SOURCE)), path.read_text(encoding="utf-8")) for path in SOURCE.rglob("*.py")]
    assert len(sources) > 400
    assert duplicates(sources) == []


def test_no_function_has_a_verb_that_is_not_of_the_common_stock() -> None:
    found = [
        each
        for path in sorted(SOURCE.rglob("*.py"))
        for each in private_verbs(str(path.relative_to(SOURCE)), path.read_text(encoding="utf-8"))
    ]
    assert sorted(set(found) - OPEN_FUNCTIONS.keys()) == []
    assert sorted(each for each in OPEN_FUNCTIONS if " " in each and each not in found) == []


def test_a_second_class_of_one_name_is_found_also_within_another_class() -> None:
    planted = [("a.py", "class Answer: ...\nclass _Private: ..."), ("b.py", "class Outer:\n    class Answer: ...")]
    assert duplicates([*planted, ("c.py", "class _Private: ...")]) == ["Answer: a.py:1, b.py:2"]


def test_such_a_verb_is_found_also_in_a_method_or_within_a_function() -> None:
    planted = "class A:\n    async def _hear(self): ...\ndef start():\n    def told(): ...\ndef find_or_say(): ...\n"
    fine = "def look_up(): ...\ndef essay(): ...\ndef leader(): ...\n"
    assert sorted(private_verbs("a.py", planted + fine)) == ["a.py _hear", "a.py find_or_say", "a.py told"]
