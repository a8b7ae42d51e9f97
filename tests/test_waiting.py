"""No test fails because a machine is slow: what bounds a wait, and how a test opens a file that another writes."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from gatepost_testing.waiting import PATIENCE_S

from .source_trees import find_nodes

TESTS = Path(__file__).parent
# Run inside a sandbox, where nothing of ours can be imported, or are themselves what is waited for.
APART = ("flows/escapes/inside.py", "flows/escapes/table.py")


MAY_WAIT = re.compile(r"(timeout|fail_after)\s*[=(]\s*[\d.]|asyncio\s*\.\s*wait_for\(")


def _bound(call: ast.Call) -> ast.expr | None:
    """The bound of a wait, where the call is one that fails when it is over."""
    name, first = ast.unparse(call.func), next(iter(call.args), None)
    named = {each.arg: each.value for each in call.keywords}
    if name in ("asyncio.timeout", "anyio.fail_after") or name.endswith(".settimeout"):
        return first
    if name == "asyncio.wait_for":
        return call.args[1] if len(call.args) > 1 else named.get("timeout")
    if name.startswith(("subprocess.", "httpx2.", "socket.")) or name.endswith((".communicate", ".wait", ".wait_for")):
        return named.get("timeout")
    return None


def short_waits(tree: ast.AST) -> Iterator[int]:
    """Lines with a bound below our patience. A wait for what is not to happen has a name for its length instead."""
    for node in find_nodes(tree, ast.Call):
        given = (*node.args[:2], *(each.value for each in node.keywords if each.arg == "timeout"))
        if not any(isinstance(each, ast.Constant) for each in given):  # most of them: no need to spell their names
            continue
        bound = _bound(node)
        if isinstance(bound, ast.Constant) and isinstance(bound.value, int | float) and bound.value < PATIENCE_S:
            yield bound.lineno


def impatient_connections(tree: ast.AST) -> Iterator[int]:
    """Lines that open SQLite without saying how long to wait for a lock. `store.sqlite_db.connect` says it."""
    for scope in ast.walk(tree):
        if isinstance(scope, ast.FunctionDef | ast.AsyncFunctionDef):
            calls = [node for node in ast.walk(scope) if isinstance(node, ast.Call)]
            opened = [node.lineno for node in calls if ast.unparse(node.func) == "apsw.Connection"]
            if not any(ast.unparse(node.func).endswith(".set_busy_timeout") for node in calls):
                yield from opened


def test_a_wait_of_a_test_is_bounded_by_our_patience_and_by_nothing_shorter() -> None:
    found = []
    for path in sorted(TESTS.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if path.relative_to(TESTS).as_posix() not in APART and MAY_WAIT.search(text):  # the others need not be parsed
            found += [f"{path}:{line}" for line in short_waits(ast.parse(text))]
    assert found == []


@pytest.mark.parametrize(
    ("code", "count"),
    [
        ("asyncio.timeout(10)", 1),
        ("asyncio.wait_for(task, 5)", 1),
        ("asyncio.wait_for(task, timeout=0.5)", 1),
        ("anyio.fail_after(10)", 1),
        ("subprocess.run(command, timeout=30)", 1),
        ("process.communicate(timeout=10)", 1),
        ("channel.wait_for(1, timeout=10)", 1),
        ("sock.settimeout(2)", 1),
        ("asyncio.timeout(PATIENCE_S)", 0),
        ("asyncio.wait_for(task, 90)", 0),
        ("asyncio.timeout(A_MOMENT_S)", 0),
        ("channel.wait_for(10)", 0),
    ],
)
def test_a_short_wait_is_seen(code: str, count: int) -> None:
    assert len(list(short_waits(ast.parse(code)))) == count
    assert not count or MAY_WAIT.search(code)


def test_a_test_waits_for_the_lock_of_a_file_that_another_process_writes() -> None:
    found = []
    for folder in ("flow", "flows", "serve", "cli", "contracts", "tools", "gate"):
        for path in sorted((TESTS / folder).rglob("*.py")):
            text = path.read_text(encoding="utf-8")
            if "apsw.Connection" in text:
                found += [f"{path}:{line}" for line in impatient_connections(ast.parse(text))]
    assert found == []


def test_a_connection_that_does_not_wait_is_seen() -> None:
    opens = "def f():\n    db = apsw.Connection(path)\n"
    assert list(impatient_connections(ast.parse(opens))) == [2]
    assert list(impatient_connections(ast.parse(opens + "    db.set_busy_timeout(5000)\n"))) == []
