"""The numbered migrations on PostgreSQL: one transaction each, under one lock, so that of several gateways that
start at once one does the work."""

import psycopg

from gatepost.core.clock import Clock
from gatepost.core.errors import SetupError
from gatepost.store.engine.migrate import POSTGRES, VERSIONS, list_migrations, list_pending, record
from gatepost.store.gateways.gateway_checks import check_schema
from gatepost.store.port import Db
from gatepost.store.postgres.connection import open_connection, render_place
from gatepost.store.postgres.database_time import read_time
from gatepost.store.postgres.postgres_db import PostgresDb

LOCK = b"7311960312210301"  # of everybody who changes the schema of a store


def migrate_postgres(url: str, clock: Clock, gateway: str = "", home: str = "") -> int:
    """Bring the store up to date; the version that it has afterwards. A store from a newer one is left alone, and so is
    one on which another gateway than this lives. One of the same `home` is dead, whatever it was called."""
    connection = open_connection(url, "gatepost migrate")
    db = PostgresDb(connection.pgconn)
    try:
        db.command(b"SET lock_timeout = 0; SELECT pg_advisory_lock(" + LOCK + b"); SELECT 1")
        return _migrate(db, url, clock, (gateway, home))
    finally:
        connection.close()


def apply_all(db: Db, now: int) -> None:
    """Make the tables of a new store in the caller's transaction."""
    db.define(VERSIONS)
    for each in list_pending(list_migrations(POSTGRES), (), POSTGRES):
        each.apply(db)
        record(db, each, now)


def _migrate(db: PostgresDb, url: str, clock: Clock, own: tuple[str, str]) -> int:
    db.define(VERSIONS)
    known = list_migrations(POSTGRES)
    done = {row[0] for row in db.rows("SELECT number FROM schema_version")}
    newest = known[-1].number
    if done and max(done) > newest:
        raise SetupError(
            f"the {render_place(url)} was written by a newer gatepost (schema {max(done)}, this one knows {newest});"
            " upgrade gatepost, or restore a backup"
        )
    name = ""
    pending = list_pending(known, done, POSTGRES)
    if done and pending:
        _check_nobody_else(db, own, newest)
    for together in [[each] for each in pending] if done else [pending]:
        db.command(b"BEGIN")
        try:
            for each in together:
                name = each.name
                each.apply(db)
                record(db, each, clock.now())
            db.command(b"COMMIT")
        except psycopg.Error as error:
            raise SetupError(f"the store cannot be brought to schema {name}: {error}; nothing was changed") from error
    return newest


def _check_nobody_else(db: PostgresDb, own: tuple[str, str], newest: int) -> None:
    """Check that no other gateway lives on this store. It may have another version, so only columns that all versions
    have are read."""
    if db.row("SELECT to_regclass('gateways') IS NULL") == (1,):
        return
    living = db.rows(
        "SELECT name, host, version, schema_number FROM gateways WHERE state <> 'gone' AND until >= ?"
        " AND name <> ? AND home <> ?",
        (read_time(db), *own),
    )
    for name, host, version, number in living:
        check_schema(name, host, version, number, newest)
