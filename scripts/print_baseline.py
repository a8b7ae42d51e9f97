"""Prints `store/migrations/baseline.sql` anew: the schema of a new store, as the folded steps make it.

For a release, whose steps are put into a file of `FOLDED`. What is for PostgreSQL alone is kept as it was written.
"""

import re
import tempfile
from pathlib import Path

import apsw

from gatepost.store import migrations
from gatepost.store.engine.migrate import list_migrations
from gatepost.store.engine.sqlite_db import TYPES, SqliteDb, connect

BASELINE = Path(migrations.__path__[0], "baseline.sql")
HEAD = """-- A new store, as the folded steps ({last} is the last) leave it on an empty one; later steps follow.
-- Printed by scripts/print_baseline.py, but for the section of PostgreSQL. Types are those of `Db.define`.

"""
_OWN = re.compile(r"CREATE (?:VIRTUAL TABLE|TRIGGER|TABLE unsearched)")
_QUOTED = re.compile(r"(--[^\n]*|'(?:[^']|'')*')")


def render_template(sql: str) -> str:
    """Return a definition with types in braces. Comments and strings stay as they are."""
    parts = _QUOTED.split(sql.replace("{", "{{").replace("}", "}}"))
    for at in range(0, len(parts), 2):
        for name, word in TYPES.items():
            parts[at] = re.sub(rf"\b{word}\b", f"{{{name}}}", parts[at])
    return "".join(parts)


def list_definitions(connection: apsw.Connection) -> list[str]:
    rows = connection.execute(
        "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_%'"
        " AND name NOT IN (SELECT name FROM pragma_table_list WHERE type = 'shadow') ORDER BY rowid"
    ).fetchall()
    return [render_template(sql) for (sql,) in rows]


def list_seeds(connection: apsw.Connection) -> list[str]:
    """Return the rows that steps have written."""
    found = []
    tables = connection.execute(
        "SELECT name FROM pragma_table_list WHERE schema = 'main' AND type = 'table'"
    ).fetchall()
    for (table,) in tables:
        if not table.startswith("sqlite_"):
            names = [row[0] for row in connection.execute("SELECT name FROM pragma_table_info(?)", (table,)).fetchall()]
            values = ", ".join(f"quote({name})" for name in names)
            rows = connection.execute(f"SELECT {values} FROM {table}").fetchall()
            found += [f"INSERT INTO {table} ({', '.join(names)}) VALUES ({', '.join(row)})" for row in rows]
    return found


def render_baseline(postgres: str) -> str:
    last = ""
    with tempfile.TemporaryDirectory() as folder:
        connection = connect(Path(folder, "steps.db"))
        for each in list_migrations()[: sum(map(len, migrations.FOLDED.values()))]:
            each.apply(SqliteDb(connection))
            last = each.name
        found, seeds = list_definitions(connection), list_seeds(connection)
        connection.close()
    both = [each for each in found if not _OWN.match(each)] + seeds
    # By itself the index merges a whole segment as soon as a tenth of it is deleted.
    sqlite = [each for each in found if _OWN.match(each)] + [
        "INSERT INTO search (search, rank) VALUES ('deletemerge', 0)"
    ]
    sections = {"both": "".join(f"{each};\n" for each in both), "sqlite": "".join(f"{each};\n" for each in sqlite)}
    return HEAD.format(last=last) + "\n".join(
        f"-- [{name}]\n{text}" for name, text in (*sections.items(), ("postgres", postgres))
    )


if __name__ == "__main__":
    _, _, kept = BASELINE.read_text(encoding="utf-8").partition("-- [postgres]\n")
    BASELINE.write_text(render_baseline(kept), encoding="utf-8")
