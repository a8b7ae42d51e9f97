"""A store of its own for tests of the store itself: what they break is nobody else's."""

from collections.abc import AsyncIterator

import pytest

from gatepost.store.postgres.postgres_store import PostgresStore
from gatepost_testing.empty_database import EmptyDatabase


@pytest.fixture
async def shared(database: EmptyDatabase) -> AsyncIterator[PostgresStore]:
    database.reset()
    opened = PostgresStore(database.url)
    yield opened
    opened.close()
