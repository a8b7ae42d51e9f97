"""A store with 100,000 messages goes to PostgreSQL and back, and the conversation goes on in each place."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gatepost.app import Gateway
from gatepost.store.engine.open_store import copy_store_rows
from gatepost.store.engine.place import StorePlace
from gatepost.store.engine.sqlite_db import connect
from gatepost.store.engine.store_copy import CopiedTable
from gatepost.store.port import Db
from gatepost_testing.channel import FakeChannel
from gatepost_testing.gateway import open_room, running_gateway, wait_until_settled
from gatepost_testing.servers.postgres import PACKAGE, PostgresServer, find_programs

pytestmark = pytest.mark.skipif(
    find_programs() is None, reason=f"PostgreSQL is not installed: apt-get install {PACKAGE}"
)
MESSAGES = 100_000
ROOM, USER = "fake:room/1", "fake:user/1"


def fill(path: Path) -> None:
    """What was said before, in a room of its own."""
    connection = connect(path)
    connection.execute("BEGIN")
    names = [row[1] for row in connection.execute("PRAGMA table_info(messages)")]
    columns = ", ".join(each for each in names if each not in ("id", "address", "platform_id", "text"))
    connection.execute(
        f"WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {MESSAGES})"
        f" INSERT INTO messages (address, platform_id, text, {columns})"
        f" SELECT 'fake:room/old', 'old ' || i, 'word' || i || ' ✓ 漢字', {columns}"
        " FROM n, (SELECT * FROM messages WHERE direction = 'in' LIMIT 1) one"
    )
    connection.execute("COMMIT")
    connection.close()


def copy(old: StorePlace, new: StorePlace) -> dict[str, CopiedTable]:
    found: list[CopiedTable] = []
    copy_store_rows(old, new, found.append)
    return {each.name: each for each in found}


async def talk(path: Path, text: str, **settings: Any) -> list[str]:
    """Say one thing and wait for its answer; the sessions that there are then."""
    channel = FakeChannel()
    async with running_gateway(path, {"fake": (channel.kind, channel)}, **settings) as gateway:
        await open_room_once(gateway)
        await channel.say(text, address=ROOM, sender=USER, platform_id=text)
        await channel.wait_for(lambda sent: bool(sent) and sent[-1].message.text == f"echo: {text}")
        await wait_until_settled(gateway)
        return await gateway.store.read(list_sessions)


async def open_room_once(gateway: Gateway) -> None:
    if not await gateway.store.read(lambda db: db.rows("SELECT 1 FROM rooms WHERE address = ?", (ROOM,))):
        await open_room(gateway, "fake", ROOM)


def list_sessions(db: Db) -> list[str]:
    return [
        f"{row[0]} {row[1]}"
        for row in db.rows("SELECT session_id, conversation FROM conversations ORDER BY session_id")
    ]


@pytest.mark.slow
async def test_a_hundred_thousand_messages_there_and_back(tmp_path: Path, figures: Callable[[str], None]) -> None:
    home = tmp_path / "home"
    first = await talk(home, "one")
    path = home / "gatepost.db"
    fill(path)
    with PostgresServer() as server:
        database = StorePlace(tmp_path / "none", server.add_database("there"))
        there = copy(StorePlace(path), database)
        back = copy(database, StorePlace(tmp_path / "back.db"))
        assert there == back and there["messages"].rows > MESSAGES
        figures(f"store copy: {sum(each.rows for each in there.values())} rows there and back, equal")
        assert await talk(home, "two", store__url=database.url, store__unsafe=True) == first
        copy(database, StorePlace(tmp_path / "later.db"))
    shutil.copy(tmp_path / "later.db", path)
    for each in (home / "gatepost.db-wal", home / "gatepost.db-shm"):
        each.unlink(missing_ok=True)
    assert await talk(home, "three") == first
    connection = connect(path, readonly=True)
    said = connection.execute("SELECT text FROM messages WHERE direction = 'in' AND address = ? ORDER BY id", (ROOM,))
    assert [row[0] for row in said] == ["one", "two", "three"]
    connection.close()
