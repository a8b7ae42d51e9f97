"""A name means one thing: every public class of the package has a name of its own."""

import ast
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

SOURCE = Path(__file__).resolve().parent.parent / "src" / "gatepost"
DICTATED: frozenset[str] = frozenset()  # names that a protocol dictates in more than one place


def duplicates(sources: Iterable[tuple[str, str]]) -> list[str]:
    """Public class names that occur more than once, with where. `sources`: (path, text)."""
    found: dict[str, list[str]] = defaultdict(list)
    for path, text in sources:
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(f"{path}:{node.lineno}")
    return [f"{name}: {', '.join(at)}" for name, at in sorted(found.items()) if len(at) > 1 and name not in DICTATED]


def test_no_two_public_classes_share_a_name() -> None:
    sources = [(str(path.relative_to(SOURCE)), path.read_text(encoding="utf-8")) for path in SOURCE.rglob("*.py")]
    assert len(sources) > 400
    assert duplicates(sources) == []


def test_a_second_class_of_one_name_is_found_also_within_another_class() -> None:
    planted = [("a.py", "class Answer: ...\nclass _Private: ..."), ("b.py", "class Outer:\n    class Answer: ...")]
    assert duplicates([*planted, ("c.py", "class _Private: ...")]) == ["Answer: a.py:1, b.py:2"]
