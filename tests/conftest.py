"""Shared fixtures. Tests use real SQLite files, the doubles of `gatepost.testing`, and a clock that stands still."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import apsw
import pytest

from gatepost.core.clock import SystemClock
from gatepost.store.migrate import migrate
from gatepost.store.port import Db
from gatepost.store.writer import Sqlite, SqliteStore, connect

NOON = 1_800_000_000_000_000  # a fixed moment, microseconds


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def store_path(tmp_path: Path) -> Path:
    path = tmp_path / "gatepost.db"
    migrate(path, SystemClock())
    return path


@pytest.fixture
async def store(store_path: Path) -> AsyncIterator[SqliteStore]:
    opened = SqliteStore(store_path)
    yield opened
    opened.close()


@pytest.fixture
def db(store_path: Path) -> Iterator[Db]:
    """A transaction-less connection for entity tests: each statement commits by itself."""
    connection: apsw.Connection = connect(store_path)
    yield Sqlite(connection)
    connection.close()
