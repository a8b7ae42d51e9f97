"""What goes to PostgreSQL comes back as it does from SQLite."""

import pytest

from gatepost.store.port import Db
from gatepost.store.postgres.dialect import translate


@pytest.mark.parametrize(
    "value", [0, 1, -1, 2**63 - 1, -(2**63), "", "ä'\"\\?$1", "\U0001f600", b"", b"\0\xff", 1.5, None]
)
def test_a_value_comes_back_as_it_went(db: Db, value: object) -> None:
    column = {int: "i", str: "t", bytes: "b", float: "r"}.get(type(value), "i")
    db.define("CREATE TABLE values_of (i {int}, t {text}, b {blob}, r {real}) {strict}")
    try:
        db.run(f"INSERT INTO values_of ({column}) VALUES (?)", (value,))
        assert db.row(f"SELECT {column} FROM values_of") == (value,)
    finally:
        db.run("DROP TABLE values_of")


@pytest.mark.parametrize("total", [0, 7, 9_999, 10_000, 123_456_789_012_345, 40_000_000, -5, -70_000])
def test_a_sum_is_an_integer(db: Db, total: int) -> None:
    assert db.row("SELECT SUM(n) FROM (SELECT CAST(? AS BIGINT) AS n) AS numbers", (total,)) == (total,)


def test_a_comparison_is_a_number(db: Db) -> None:
    assert db.row("SELECT 1 < 2, 2 < 1") == (1, 0)


def test_text_is_compared_byte_by_byte(db: Db) -> None:
    db.define("CREATE TABLE words_of (t {text} NOT NULL) {strict}")
    try:
        for each in ("b", "a", "B", "ä", "_"):
            db.run("INSERT INTO words_of VALUES (?)", (each,))
        assert [row[0] for row in db.rows("SELECT t FROM words_of ORDER BY t")] == ["B", "_", "a", "b", "ä"]
    finally:
        db.run("DROP TABLE words_of")


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("SELECT ? WHERE a = ?", "SELECT $1 WHERE a = $2"),
        ("SELECT '?', ?", "SELECT '?', $1"),
        ("SELECT 'it''s ?', ?", "SELECT 'it''s ?', $1"),
        ("SELECT ? -- really?\n, ?", "SELECT $1 -- really?\n, $2"),
        ("WHERE ? IS NULL OR a = ?", "WHERE CAST($1 AS TEXT) IS NULL OR a = $2"),
        ("CHECK (only = 1)", 'CHECK ("only" = 1)'),
    ],
)
def test_placeholders_are_numbered_where_they_are_placeholders(ours: str, theirs: str) -> None:
    assert translate(ours).decode() == theirs


@pytest.mark.parametrize("number", [2**63, -(2**63) - 1, 10**400])
def test_a_number_that_is_too_large_is_refused_alike(db: Db, number: int) -> None:
    with pytest.raises(OverflowError):
        db.rows("SELECT CAST(? AS BIGINT)", (number,))


def test_half_a_character_is_refused_alike(db: Db) -> None:
    with pytest.raises(UnicodeEncodeError):
        db.rows("SELECT CAST(? AS TEXT)", ("\ud800",))
