"""Opens the two sides of a copy where they are. PostgreSQL's library is loaded here, if one of them is a database."""

from collections.abc import Callable
from contextlib import AbstractContextManager

from gatepost.store.engine.place import StorePlace, check_library
from gatepost.store.engine.sqlite_copy import read_sqlite, write_sqlite
from gatepost.store.engine.store_copy import CopiedTable, CopySource, CopyTarget, copy_tables


def copy_store_rows(old: StorePlace, new: StorePlace, report: Callable[[CopiedTable], None]) -> None:
    """`report` gets each table that is whole on both sides. Nothing is kept before all of them are."""
    copy_tables(_open_source(old), _open_target(new), report)


def _open_source(place: StorePlace) -> AbstractContextManager[CopySource]:
    check_library(place)
    if place.url:
        from gatepost.store.postgres.postgres_copy import read_postgres

        return read_postgres(place.url)
    return read_sqlite(place.path)


def _open_target(place: StorePlace) -> AbstractContextManager[CopyTarget]:
    check_library(place)
    if place.url:
        from gatepost.store.postgres.postgres_copy import write_postgres

        return write_postgres(place.url)
    return write_sqlite(place.path)
