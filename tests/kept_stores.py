"""Connections to PostgreSQL that one test leaves to the next. A new one has to read the catalog and to plan every
statement anew, which takes several times as long as what most tests do."""

import time

import psycopg

from gatepost.store.engine.lanes import ReadLanes
from gatepost.store.postgres.connection import is_usable, open_connection
from gatepost.store.postgres.postgres_db import PostgresDb
from gatepost.store.postgres.postgres_store import PostgresStore
from gatepost_testing.waiting import PATIENCE_S


class KeptStores:
    def __init__(self, url: str) -> None:
        self._url = url
        self._stores: dict[bool, PostgresStore] = {}
        self._connection: psycopg.Connection | None = None
        self._db: PostgresDb | None = None

    def get_store(self, *, rehearse: bool) -> PostgresStore:
        found = self._stores.pop(rehearse, None) or PostgresStore(self._url, rehearse=rehearse)
        found._reading = ReadLanes()  # it has locks of a loop
        return found

    def put_back(self, store: PostgresStore, *, rehearse: bool) -> None:
        """Once nothing of the test is under way. One that was changed or closed is of no use to others."""
        is_new = not store._closed and store._waits and all(each.deadline.seconds == 5.0 for each in store._workers)
        if is_new and wait_until_idle(store) and rehearse not in self._stores:
            self._stores[rehearse] = store
        else:
            store.close()

    def get_db(self) -> PostgresDb:
        """Each statement commits by itself."""
        if self._connection is None or self._db is None or not is_usable(self._db.connection):
            self._connection = open_connection(self._url)
            self._db = PostgresDb(self._connection.pgconn)
        return self._db

    def put_db_back(self) -> None:
        if self._db is not None and is_usable(self._db.connection):
            self._db.discard()
            self._db.command(b"ROLLBACK")
            self._db.command(b"DISCARD TEMP")

    def close(self) -> None:
        for each in self._stores.values():
            each.close()
        if self._connection is not None:
            self._connection.close()


def wait_until_idle(store: PostgresStore) -> bool:
    """What was accepted is written, as `close` would wait for it."""
    until = time.monotonic() + PATIENCE_S
    lanes = store._lanes
    while lanes._waiting or lanes._working:
        if time.monotonic() > until:
            return False
        time.sleep(0.001)
    return True
