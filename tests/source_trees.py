"""The source, parsed once by a worker: several files of tests check rules on all of it."""

import ast
import gc
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import NamedTuple, TypeVar

SOURCE = Path(__file__).resolve().parent.parent / "src"
N = TypeVar("N", bound=ast.AST)


class SourceFile(NamedTuple):
    path: Path
    text: str
    tree: ast.Module


@contextmanager
def _uncollected() -> Iterator[None]:
    """Trees are a million objects and no garbage: the search for it cost more than all else."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@cache
def list_source_files(folder: Path = SOURCE) -> tuple[SourceFile, ...]:
    """In the order of their paths."""
    with _uncollected():
        texts = [(path, path.read_text(encoding="utf-8")) for path in sorted(folder.rglob("*.py"))]
        return tuple(SourceFile(path, text, ast.parse(text, str(path))) for path, text in texts)


@cache
def _group_nodes(tree: ast.AST) -> dict[type[ast.AST], list[ast.AST]]:
    found: dict[type[ast.AST], list[ast.AST]] = defaultdict(list)
    with _uncollected():
        for node in ast.walk(tree):
            found[type(node)].append(node)
    return dict(found)


def find_nodes(tree: ast.AST, *types: type[N]) -> Iterator[N]:
    """What `ast.walk` gives of these types, one type after the other."""
    groups = _group_nodes(tree)
    for each in types:
        yield from groups.get(each, ())  # type: ignore[misc]
