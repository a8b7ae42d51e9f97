"""Every statement that can be read from the store's source is one that PostgreSQL takes, whether or not a test runs it.

A text that is put together from values known only at run time is not here: the suites run those on both engines.
"""

import ast
import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import gatepost.store
from gatepost.store.engine.table import Table

if TYPE_CHECKING:
    from gatepost_testing.empty_database import EmptyDatabase

FOLDER = Path(next(iter(gatepost.store.__path__)))
# About the file itself, or with a text of its own for each engine.
OF_ONE_ENGINE = frozenset(
    {
        "sqlite_store",
        "sqlite_db",
        "sqlite_full_text",
        "sqlite_copy",
        "upkeep",
        "migrate",
        "readonly",
        "backup",
        "erased_space",
        "damage_check",
    }
)
# Parts of longer texts, and one whose numbers have no type until they are given.
PARTS = (" AND mode", "{which}", "THEN ? ELSE ?")
IN_MEMORY = ("FROM found", "INTO found")  # ranking, by SQLite on both engines
PART_SAYS = ("at end of input", "missing FROM-clause entry")
STATEMENT = re.compile(r"\s*(?:SELECT|INSERT INTO|UPDATE|DELETE FROM|WITH)\b")
FEWEST = 250


def list_statements(module: ModuleType) -> Iterator[str]:
    tree = ast.parse(Path(module.__file__ or "").read_text())
    parts = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and isinstance(node.func.value, ast.Name)
        ):
            table = vars(module).get(node.func.value.id)
            if isinstance(table, Table) and node.func.attr in ("get", "list") and len(node.args) > 1:
                rest = evaluate(node.args[1], module)
                if isinstance(rest, str):
                    yield f"SELECT {table.columns} FROM {table.name} {rest}"
        elif isinstance(node, (ast.Constant, ast.JoinedStr)) and id(node) not in parts:
            text = evaluate(node, module)
            if isinstance(text, str) and STATEMENT.match(text):
                yield text


def evaluate(node: ast.expr, module: ModuleType) -> Any:
    """None: it depends on what is known only when it runs."""
    if not isinstance(node, (ast.Constant, ast.JoinedStr)):
        return None
    try:
        return eval(compile(ast.Expression(node), "statement", "eval"), dict(vars(module)))
    except (NameError, AttributeError, TypeError, KeyError, IndexError):
        return None


def test_every_statement_is_one_for_both_engines(database: "EmptyDatabase") -> None:
    from psycopg import errors, pq

    from gatepost.store.postgres.connection import open_connection
    from gatepost.store.postgres.dialect import translate

    faults, count = [], 0
    with open_connection(database.url) as opened:
        for path in sorted(FOLDER.rglob("*.py")):
            inner = path.relative_to(FOLDER).with_suffix("").parts
            if inner[0] in ("migrations", "postgres") or path.stem in OF_ONE_ENGINE or path.stem == "__init__":
                continue
            for sql in list_statements(importlib.import_module(".".join(("gatepost.store", *inner)))):
                result = opened.pgconn.prepare(b"", translate(sql))
                count += 1
                if result.status == pq.ExecStatus.COMMAND_OK or any(each in sql for each in (*PARTS, *IN_MEMORY)):
                    continue
                error = errors.error_from_result(result)
                undecided = isinstance(error, (errors.IndeterminateDatatype, errors.AmbiguousFunction))
                if not undecided and not any(each in str(error) for each in PART_SAYS):
                    faults.append(f"{path.name}: {error} in {sql}")
    assert not faults, "\n\n".join(faults)
    assert count > FEWEST
