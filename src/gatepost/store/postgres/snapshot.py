"""The database as seen from outside the daemon: read-only, one snapshot, whether the daemon runs or not."""

from collections.abc import Callable
from typing import TypeVar, TypeVarTuple

import psycopg
from msgspec import Struct

from gatepost.core.clock import Clock
from gatepost.core.errors import SetupError, Unavailable
from gatepost.store.engine.readonly import check_version, get_version
from gatepost.store.port import Db
from gatepost.store.postgres.connection import check_url, open_connection, render_place
from gatepost.store.postgres.database_time import make_database_clock
from gatepost.store.postgres.postgres_db import PostgresDb
from gatepost.store.postgres.refusals import render_away
from gatepost.store.postgres.server_check import check_pooler

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

BEGIN = b"SET idle_in_transaction_session_timeout = 0; BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY"


class DatabaseReader(Struct, frozen=True):
    """The database at an address, as a command reads it."""

    url: str

    def read(self, fn: Callable[[Db, *Ts], T], *args: *Ts) -> T:
        return read_postgres_snapshot(self.url, fn, *args)

    def read_clock(self) -> Clock:
        return make_database_clock(self.url)


def read_postgres_snapshot(url: str, fn: Callable[[Db, *Ts], T], *args: *Ts) -> T:
    """Run `fn` on one snapshot of a store of this version. It may compute between two statements."""
    check_url(url)
    try:
        connection = open_connection(url, "gatepost command")
    except psycopg.OperationalError as error:
        raise Unavailable("the store", render_away(url, error)) from None
    with connection:
        check_pooler(url, connection)
        db = PostgresDb(connection.pgconn)
        if db.row("SELECT to_regclass('schema_version') IS NULL") == (1,):
            raise SetupError(f"there is no store in the {render_place(url)}; `gatepost up` makes one")
        db.command(BEGIN)
        check_version(render_place(url), get_version(db))
        return fn(db, *args)
