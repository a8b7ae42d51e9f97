"""The source, parsed once by a worker: several files of tests check rules on all of it."""

import ast
import gc
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import NamedTuple, TypeVar, overload

ROOT = Path(__file__).resolve().parent.parent
SOURCE, DOUBLES = ROOT / "src", ROOT / "testing"  # of the gateway, and of what plays the rest of the world in tests
N = TypeVar("N", bound=ast.AST)
M = TypeVar("M", bound=ast.AST)
L = TypeVar("L", bound=ast.AST)
K = TypeVar("K", bound=ast.AST)


class SourceFile(NamedTuple):
    path: Path
    text: str
    tree: ast.Module


@contextmanager
def _uncollected() -> Iterator[None]:
    """Trees are a million objects and no garbage: the search for it cost more than all else, most of it at the exit of
    the process. So they are searched neither while they are made nor ever after."""
    gc.collect()  # what is garbage by now must not be kept with them
    gc.disable()
    try:
        yield
        gc.freeze()
    finally:
        gc.enable()


@cache
def list_source_files(*folders: Path) -> tuple[SourceFile, ...]:
    """Return the files of both, or of the given folders, in the order of their paths."""
    with _uncollected():
        paths = [path for folder in folders or (SOURCE, DOUBLES) for path in sorted(folder.rglob("*.py"))]
        texts = [(path, path.read_text(encoding="utf-8")) for path in paths]
        found = tuple(SourceFile(path, text, ast.parse(text, str(path))) for path, text in texts)
        for each in found:
            _group_nodes(each.tree)
        return found


def get_place(path: Path) -> Path:
    """Return the path of a file from the folder that is imported from."""
    return path.relative_to(SOURCE if path.is_relative_to(SOURCE) else DOUBLES)


@cache
def _group_nodes(tree: ast.AST) -> dict[type[ast.AST], list[ast.AST]]:
    """As `ast.walk`, in half of its time, and without the contexts (Load, Store, Del) that each name has."""
    found: dict[type[ast.AST], list[ast.AST]] = defaultdict(list)
    waiting = [tree]
    for node in waiting:
        found[type(node)].append(node)
        for value in vars(node).values():
            if isinstance(value, list):
                waiting += [each for each in value if isinstance(each, ast.AST)]
            elif isinstance(value, ast.AST) and not isinstance(value, ast.expr_context):
                waiting.append(value)
    return dict(found)


@overload
def find_nodes(tree: ast.AST, first: type[N], /) -> Iterator[N]: ...
@overload
def find_nodes(tree: ast.AST, first: type[N], second: type[M], /) -> Iterator[N | M]: ...
@overload
def find_nodes(tree: ast.AST, first: type[N], second: type[M], third: type[L], /) -> Iterator[N | M | L]: ...
@overload
def find_nodes(
    tree: ast.AST, first: type[N], second: type[M], third: type[L], fourth: type[K], /
) -> Iterator[N | M | L | K]: ...
def find_nodes(tree: ast.AST, *types: type[ast.AST]) -> Iterator[ast.AST]:
    """Yield what `ast.walk` gives of these types, one type after the other."""
    groups = _group_nodes(tree)
    for each in types:
        yield from groups.get(each, ())
