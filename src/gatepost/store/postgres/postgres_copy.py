"""PostgreSQL's side of a copy: one transaction, in which a new store also gets its tables."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import psycopg
from psycopg import sql

from gatepost.core.clock import SystemClock
from gatepost.core.errors import SetupError
from gatepost.store.engine.readonly import check_version, get_version
from gatepost.store.engine.store_copy import SEARCH
from gatepost.store.port import Row
from gatepost.store.postgres.connection import check_url, open_connection, render_place
from gatepost.store.postgres.migrate import apply_all
from gatepost.store.postgres.postgres_db import PostgresDb
from gatepost.store.postgres.refusals import render_error, render_refusal

AT_ONCE = 1000  # rows that the server sends in one go
WRITERS = " write "  # in the names of the connections of a gateway that runs


class PostgresTables:
    def __init__(self, connection: psycopg.Connection) -> None:
        self._connection, self.db = connection, PostgresDb(connection.pgconn)
        self._removed: list[Row] = []

    def list_tables(self) -> dict[str, tuple[str, ...]]:
        rows = self._connection.execute(
            "SELECT c.table_name::text, c.column_name::text FROM information_schema.columns c"
            " JOIN information_schema.tables t USING (table_schema, table_name)"
            " WHERE c.table_schema = current_schema() AND t.table_type = 'BASE TABLE'"
            " ORDER BY c.table_name, c.ordinal_position"
        ).fetchall()
        found: dict[str, tuple[str, ...]] = {}
        for table, column in rows:
            if table not in SEARCH:
                found[table] = (*found.get(table, ()), column)
        return found

    def read_rows(self, table: str, columns: tuple[str, ...]) -> Iterator[Row]:
        names = sql.SQL(", ").join(map(sql.Identifier, columns))
        with self._connection.cursor(f"copy_{table}", binary=True) as cursor:
            cursor.itersize = AT_ONCE
            yield from cursor.execute(sql.SQL("SELECT {} FROM {}").format(names, sql.Identifier(table)))

    def read_sequences(self) -> dict[str, int]:
        return {
            table: int(row[0])
            for table, sequence in self._list_sequences().items()
            if (row := self._connection.execute(f"SELECT last_value, is_called FROM {sequence}".encode()).fetchone())
            and row[1]
        }

    def _list_sequences(self) -> dict[str, str]:
        """The sequence of each table that has one, as it is written in a statement."""
        rows = self._connection.execute(
            "SELECT table_name::text, pg_get_serial_sequence(quote_ident(table_name), column_name)"
            " FROM information_schema.columns WHERE table_schema = current_schema() AND is_identity = 'YES'"
        ).fetchall()
        return {str(table): str(sequence) for table, sequence in rows}

    def write_rows(self, table: str, columns: tuple[str, ...], rows: Iterable[Row]) -> None:
        names = sql.SQL(", ").join(map(sql.Identifier, columns))
        self._connection.execute(sql.SQL("DELETE FROM {}").format(sql.Identifier(table)))  # what migrations wrote
        copy = sql.SQL("COPY {} ({}) FROM STDIN").format(sql.Identifier(table), names)
        with self._connection.cursor() as cursor, cursor.copy(copy) as out:
            for row in rows:
                out.write_row(row)

    def write_sequences(self, last: dict[str, int]) -> None:
        for table, sequence in self._list_sequences().items():
            if table in last:
                self._connection.execute("SELECT setval(%s, %s, true)", (sequence, last[table]))

    def check_references(self) -> None:
        """They were taken off while the tables came in the order of their names; put on, each is checked."""
        try:
            for table, name, text in self._removed:
                self._connection.execute(f'ALTER TABLE {table} ADD CONSTRAINT "{name}" {text}'.encode())
        except psycopg.errors.ForeignKeyViolation as error:
            raise SetupError(f"a row names one that is not there: {render_error(error)}; nothing was kept") from None

    def remove_references(self) -> None:
        self._removed = self._connection.execute(
            "SELECT conrelid::regclass::text, conname::text, pg_get_constraintdef(oid) FROM pg_constraint"
            " WHERE contype = 'f' AND connamespace = current_schema()::regnamespace ORDER BY 1, 2"
        ).fetchall()
        for table, name, _ in self._removed:
            self._connection.execute(f'ALTER TABLE {table} DROP CONSTRAINT "{name}"'.encode())


@contextmanager
def _open(url: str, *, shared: bool = False) -> Iterator[psycopg.Connection]:
    """In a transaction. `shared`: gateways may be at work meanwhile."""
    check_url(url)
    try:
        connection = open_connection(url, "gatepost copy")
    except psycopg.OperationalError as error:
        raise SetupError(render_refusal(url, error)) from None
    with connection:
        connection.execute("SET idle_in_transaction_session_timeout = 0")
        busy = connection.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
            " AND starts_with(application_name, 'gatepost') AND strpos(application_name, %s) > 0",
            (WRITERS,),
        ).fetchone()
        if busy and busy[0] and not shared:
            raise SetupError(f"a gateway uses the {render_place(url)}; stop it first (`gatepost down`)")
        yield connection


@contextmanager
def read_postgres(url: str, *, running: bool = False) -> Iterator[PostgresTables]:
    """One snapshot. `running`: gateways write meanwhile, and none of that is in it."""
    with _open(url, shared=running) as connection:
        if connection.execute("SELECT to_regclass('schema_version')").fetchone() == (None,):
            raise SetupError(f"there is no store in the {render_place(url)}")
        connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        tables = PostgresTables(connection)
        check_version(render_place(url), get_version(tables.db))
        yield tables


@contextmanager
def write_postgres(url: str) -> Iterator[PostgresTables]:
    with _open(url) as connection:
        tables = PostgresTables(connection)
        if tables.list_tables():
            raise SetupError(
                f"the {render_place(url)} has tables already; a copy needs an empty one: CREATE DATABASE makes it"
            )
        connection.execute("BEGIN")
        try:
            apply_all(tables.db, SystemClock().now())
            tables.remove_references()
            yield tables
        except BaseException:
            connection.rollback()
            raise
        connection.execute("COMMIT")
