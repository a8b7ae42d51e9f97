"""The time of the database, which counts for all gateways that share it."""

import time

import psycopg

from gatepost.core.clock import DatabaseClock
from gatepost.core.errors import Unavailable
from gatepost.store.port import Db
from gatepost.store.postgres.connection import check_url, open_connection
from gatepost.store.postgres.postgres_db import PostgresDb
from gatepost.store.postgres.refusals import render_away
from gatepost.store.postgres.server_check import check_pooler

TIME = "SELECT CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000 AS BIGINT)"


def read_time(db: Db) -> int:
    row = db.row(TIME)
    assert row is not None
    return int(row[0])


def measure_clock(db: Db, clock: DatabaseClock) -> tuple[int, int]:
    """Set a clock by the database. The time there, and the microseconds that it is ahead of this machine's wall clock.
    The reading is dated by the middle of the question."""
    begun, wall = clock.get_ticks(), time.time_ns() // 1000
    now = read_time(db)
    took = clock.get_ticks() - begun
    clock.set_reading(begun + took // 2, now)
    return now, now - wall - took // 2


def make_database_clock(url: str) -> DatabaseClock:
    """For one who joins no gateways, such as a command."""
    clock = DatabaseClock()
    check_url(url)
    try:
        with open_connection(url, "gatepost command") as connection:
            check_pooler(url, connection)
            measure_clock(PostgresDb(connection.pgconn), clock)
    except psycopg.OperationalError as error:
        raise Unavailable("the store", render_away(url, error)) from None
    return clock
