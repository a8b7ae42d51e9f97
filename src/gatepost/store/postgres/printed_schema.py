"""The schema on PostgreSQL as text, for `docs/schema.postgres.sql`: SQLite's, in PostgreSQL's words.

No server is needed; a test compares it with what migrations make on a real one."""

import re

from gatepost.store.postgres.dialect import TYPES, translate

HEAD = """-- What migrations make on PostgreSQL. Printed by `make docs`; do not edit.
-- Not for use: `gatepost up` makes the tables, and keeps a record of that in schema_version.

"""
# The index for searches is an engine's own: virtual tables and triggers on SQLite, this on PostgreSQL.
SEARCH = (
    "CREATE TABLE search (message_id BIGINT PRIMARY KEY REFERENCES messages (id) ON DELETE CASCADE,"
    " words TSVECTOR NOT NULL)",
    "CREATE INDEX search_words ON search USING GIN (words) WITH (fastupdate = off)",
)
_OWN = re.compile(r"CREATE (?:VIRTUAL TABLE|TRIGGER|TABLE \"?unsearched\b)")
_WORDS = (
    (re.compile(r"\bINTEGER PRIMARY KEY AUTOINCREMENT\b"), TYPES["id"]),
    (re.compile(r"\bINTEGER\b"), TYPES["int"]),
    (re.compile(r"\bTEXT\b"), TYPES["text"]),
    (re.compile(r"\bREAL\b"), TYPES["real"]),
    (re.compile(r"\bBLOB\b"), TYPES["blob"]),
    (re.compile(r"\)\s*STRICT\Z"), ")"),
)
_COMMENT = re.compile(r"(--[^\n]*|'(?:[^']|'')*')")
_NAME = re.compile(r'CREATE TABLE "?(\w+)"?')
_REFERENCES = re.compile(r'REFERENCES "?(\w+)"?')


def render_postgres_schema(statements: list[str]) -> str:
    """`statements`: those that make the schema on SQLite."""
    found = [_translate(each) for each in statements if not _OWN.match(each)]
    tables = {match[1]: each for each in found if (match := _NAME.match(each))}
    others = [each for each in found if not _NAME.match(each)]
    return HEAD + "".join(f"{each};\n" for each in (*_sort_by_references(tables), *others, *SEARCH))


def _translate(statement: str) -> str:
    """Comments and strings stay as they are."""
    text = statement.strip()
    parts = _COMMENT.split(text)
    for at in range(0, len(parts), 2):
        for pattern, word in _WORDS:
            parts[at] = pattern.sub(word, parts[at])
    return translate("".join(parts)).decode()


def _sort_by_references(tables: dict[str, str]) -> list[str]:
    """A table comes after those that it names."""
    done: dict[str, str] = {}
    while len(done) < len(tables):
        ready = {
            name: text
            for name, text in tables.items()
            if name not in done and set(_REFERENCES.findall(text)) - {name} <= done.keys()
        }
        if not ready:
            raise ValueError(f"tables name each other: {', '.join(sorted(tables.keys() - done.keys()))}")
        done |= ready
    return list(done.values())
