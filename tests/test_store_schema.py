"""`docs/schema.sql` is the store's schema, printed: an empty file that was migrated has exactly that."""

from pathlib import Path

from gatepost.core.clock import SystemClock
from gatepost.store.migrate import migrate, render_schema
from gatepost.store.sqlite_store import SqliteDb, connect

PAGE = Path(__file__).resolve().parent.parent / "docs" / "schema.sql"


def test_an_empty_store_is_migrated_to_exactly_the_printed_schema(tmp_path: Path) -> None:
    migrate(tmp_path / "gatepost.db", SystemClock())
    assert PAGE.read_text(encoding="utf-8") == render_schema(tmp_path / "gatepost.db"), "`make docs` prints it anew"


def test_the_printed_schema_makes_the_same_store(tmp_path: Path) -> None:
    printed = tmp_path / "printed.db"
    connection = connect(printed)
    connection.execute(PAGE.read_text(encoding="utf-8"))
    connection.close()
    assert render_schema(printed) == PAGE.read_text(encoding="utf-8")


def test_every_table_is_strict_and_every_working_row_can_be_leased(store_path: Path) -> None:
    connection = connect(store_path, readonly=True)
    db = SqliteDb(connection)
    loose = db.rows("SELECT name FROM pragma_table_list WHERE schema = 'main' AND type = 'table' AND strict = 0")
    leased = {"owner", "lease_until", "epoch", "next_at"}
    columns = {
        table: {row[0] for row in db.rows(f"SELECT name FROM pragma_table_info('{table}')")}
        for table in ("turns", "inbox", "outbox")
    }
    connection.close()

    assert [name for (name,) in loose if not name.startswith("sqlite_")] == []
    assert all(found >= leased for found in columns.values())
