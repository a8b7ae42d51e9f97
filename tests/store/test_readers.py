"""Readers are open from the start: nobody's crowd can keep the store from being read."""

import asyncio
import os
import resource
from contextlib import ExitStack

import pytest

from gatepost.store.engine.sqlite_store import SqliteStore
from gatepost.store.port import Db


def one(db: Db) -> int:
    row = db.row("SELECT count(*) FROM groups")
    assert row is not None
    return int(row[0])


@pytest.mark.sqlite(reason="a connection to a server may have to be opened anew")
async def test_stranger_05_the_store_is_read_without_a_descriptor_left(store: SqliteStore) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with ExitStack() as stack:
        last = os.open(os.devnull, os.O_RDONLY)
        stack.callback(os.close, last)
        resource.setrlimit(resource.RLIMIT_NOFILE, (last + 1, hard))
        stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))

        assert await asyncio.gather(*(store.read(one) for _ in range(8))) == [0] * 8
