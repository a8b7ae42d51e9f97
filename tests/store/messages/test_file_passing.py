"""Files that pass from one gateway to another through the store."""

import asyncio
from pathlib import Path

import pytest
from tests.store.conftest import Desk

from gatepost.core.clock import DAY, SECOND
from gatepost.core.errors import Unavailable
from gatepost.messages.outbound import OutboundFile
from gatepost.store.gateways import gateways
from gatepost.store.gateways.gateways import GatewayIdentity
from gatepost.store.messages import inbox, passed_files
from gatepost.store.messages.file_passing import FilePassing
from gatepost.store.messages.inbox import InboxState
from gatepost.store.messages.passed_files import CHUNK
from gatepost.store.port import Db, Store
from gatepost_testing.clock import NOON, FixedClock

NAME = "in/f-1/picture.png"


def make_two(store: Store, folder: Path) -> tuple[FilePassing, FilePassing]:
    for name in "ab":
        (folder / name / "in" / "f-1").mkdir(parents=True)
    (folder / "b" / "in" / "f-1").rmdir()
    return FilePassing(store, FixedClock(), folder / "a"), FilePassing(store, FixedClock(), folder / "b")


def count(db: Db) -> int:
    row = db.row("SELECT COUNT(*) FROM passed_files")
    return row[0] if row else 0


def register(db: Db, name: str) -> None:
    identity = GatewayIdentity(name=name, home=name, host="host", version="1", schema_number=49)
    gateways.register(db, identity, 6_000_000, 1, NOON)


@pytest.mark.parametrize("size", [0, 5, CHUNK, 2 * CHUNK + 1])
async def test_a_file_arrives_as_it_was(store: Store, tmp_path: Path, size: int) -> None:
    a, b = make_two(store, tmp_path)
    data = bytes(number % 251 for number in range(size))
    (tmp_path / "a" / NAME).write_bytes(data)
    await a.put([NAME])
    await b.fetch([NAME])
    assert (tmp_path / "b" / NAME).read_bytes() == data
    assert [each.name for each in (tmp_path / "b" / "in" / "f-1").iterdir()] == ["picture.png"]


async def test_a_file_that_has_not_come_is_waited_for(store: Store, tmp_path: Path) -> None:
    _, b = make_two(store, tmp_path)
    with pytest.raises(Unavailable, match="it has not come"):
        await b.fetch([NAME])
    assert not (tmp_path / "b" / NAME).exists()


async def test_nothing_outside_of_what_was_received_is_written(store: Store, tmp_path: Path) -> None:
    _, b = make_two(store, tmp_path)
    for name in ("in/../../x", "/etc/x", "web/x"):
        await store.write(passed_files.put, name, 0, b"x", NOON)
        await b.fetch([name])
    assert not (tmp_path / "x").exists()


async def test_a_file_is_sent_by_another_gateway_and_then_gone(store: Store, tmp_path: Path) -> None:
    a, b = make_two(store, tmp_path)
    path = tmp_path / "a" / "out" / "k1" / "0"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"report")
    file = OutboundFile(name="report.txt", mime="text/plain", path=str(path), size=6)
    await a.put_sent([file])
    assert await store.read(count) == 0  # there is no other gateway
    for name in "ab":
        await store.write(register, name)
    await a.put_sent([file])
    assert await a.fetch_sent((file,)) == (file,)
    path.unlink()
    (found,) = await b.fetch_sent((file,))
    assert found.name == "report.txt" and Path(found.path).read_bytes() == b"report"
    await b.remove_sent([file.path])
    assert not Path(found.path).exists() and await store.read(count) == 0


def test_files_stay_while_anybody_is_to_get_their_message(desk: Desk) -> None:
    row = desk.hear()
    for name in ("in/f-1/x", "in/f-2/left"):
        passed_files.put(desk.db, name, 0, b"x", desk.now)
    passed_files.put(desk.db, "/media/out/k/0", 0, b"x", desk.now)
    passed_files.set_message(desk.db, ["in/f-1/x"], desk.entry(row).message_id)
    assert passed_files.remove_arrived(desk.db, desk.now + DAY) == 0
    assert passed_files.remove_arrived(desk.db, desk.now + DAY + SECOND) == 1  # its message never came
    inbox.set_state(desk.db, row, InboxState.ANSWERED, "", None, desk.now)
    assert passed_files.remove_arrived(desk.db, desk.now + DAY + SECOND) == 1
    assert passed_files.get(desk.db, "/media/out/k/0", 0) == b"x"
    assert passed_files.remove_arrived(desk.db, desk.now + 8 * DAY) == 1


async def test_two_sessions_may_fetch_a_file_at_once(store: Store, tmp_path: Path) -> None:
    a, b = make_two(store, tmp_path)
    (tmp_path / "a" / NAME).write_bytes(b"x" * (CHUNK + 1))
    await a.put([NAME])
    await asyncio.gather(b.fetch([NAME]), b.fetch([NAME]))
    assert (tmp_path / "b" / NAME).stat().st_size == CHUNK + 1
