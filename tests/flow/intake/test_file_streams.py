"""Files that a platform streams: fetched for those who may speak, bounded, whole or not at all."""

import asyncio
import os
import tracemalloc
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from gatepost.core.errors import NotFound, Unavailable
from gatepost.core.event_bus import EventBus
from gatepost.core.home import Home
from gatepost.core.settings import Config
from gatepost.flow.delivery.outgoing_messages import ChannelInstances
from gatepost.flow.intake import file_streams
from gatepost.flow.intake import intake as intakes
from gatepost.flow.intake.file_streams import PATIENCE
from gatepost.flow.intake.intake import FIRST_OF_A_STRANGER, Intake
from gatepost.messages.inbound import Attachment, Inbound, Receipt
from gatepost.store.engine.sqlite_store import SqliteStore
from gatepost.store.messages import awaited_files, inbox, messages
from gatepost.store.messages.messages import Message
from gatepost.store.people import users
from gatepost.store.port import Db
from gatepost.store.rooms import rooms, routes
from gatepost.store.rooms.rooms import RoomPolicy
from gatepost.store.schedule import retention
from gatepost.store.sessions import groups, sessions
from gatepost_testing.clock import NOON, FixedClock
from gatepost_testing.waiting import PATIENCE_S, until

MEMBER, STRANGER, ROOM = "tg:user/3", "tg:user/666", "tg:group/7"
CHUNK = 64 * 1024


class Source:
    """A file on the platform: `size` bytes in chunks, and what happens behind them."""

    def __init__(
        self, size: int, then: Exception | None = None, chunk: int = CHUNK, stalls: bool = False, fails: int = 1000
    ) -> None:
        self.size, self.then, self.chunk, self.stalls, self.fails = size, then, chunk, stalls, fails
        self.opened = self.given = self.closed = 0
        self.stalled, self.go = asyncio.Event(), asyncio.Event()

    async def stream(self) -> AsyncIterator[bytes]:
        self.opened += 1
        try:
            left = self.size
            while left:
                piece = min(left, self.chunk)
                left -= piece
                self.given += piece
                yield os.urandom(1) * piece
            if self.stalls:
                self.stalled.set()
                await self.go.wait()
            if self.then is not None and self.opened <= self.fails:
                raise self.then
        finally:
            self.closed += 1

    def attach(self, name: str = "a.bin", size: int | None = None) -> Attachment:
        return Attachment(name=name, open=self.stream, size=size)


class World:
    def __init__(self, store: SqliteStore, home: Home) -> None:
        self.store, self.home, self.clock = store, home, FixedClock()
        self.settings: dict[str, Any] = {}
        self.number = 0
        self._made: Intake | None = None

    @property
    def intake(self) -> Intake:
        async def stop(session_id: str, by: str) -> bool:
            return False

        if self._made is None:
            config, channels = Config(self.settings), ChannelInstances({})
            self._made = Intake(self.store, self.clock, config, EventBus(), channels, self.home, stop)
        return self._made

    async def send(
        self, *files: Attachment, text: str = "look", sender: str = MEMBER, id: str = "", room: str = ROOM
    ) -> Receipt:
        self.number += 1
        inbound = Inbound(
            address=room, platform_id=id or f"m{self.number}", sender=sender, text=text, attachments=files
        )
        return await self.intake.receive("tg", inbound)

    async def list_messages(self, room: str = ROOM) -> list[Message]:
        return await self.store.read(messages.list_in_room, "tg", room, 0, 1000)

    async def list_sessions(self, message: Message) -> list[str | None]:
        return [each.session_id for each in await self.store.read(inbox.list_for_message, message.id)]

    async def message(self, receipt: Receipt) -> Message:
        found = await self.store.read(messages.get, receipt.message_id)
        assert found is not None
        return found

    async def set_policy(self, policy: RoomPolicy) -> None:
        await self.store.write(lambda db: rooms.add(db, "tg", ROOM, "", False, policy, NOON))

    def files(self) -> list[Path]:
        return sorted(path for path in self.home.media.rglob("*") if path.is_file())

    def folders(self) -> list[str]:
        return os.listdir(self.home.media / "in") if (self.home.media / "in").exists() else []


@pytest.fixture
async def world(store: SqliteStore, tmp_path: Path) -> World:
    def people(db: Db) -> None:
        groups.add(db, "home", "Home", "scripted", NOON)
        users.add(db, MEMBER, "", NOON)
        users.add_member(db, MEMBER, "home", "test", NOON)
        route = {"seq": 10, "match": "", "target": "home", "folder": "home", "mode": "per-thread", "also": False}
        routes.add(db, routes.Route(**route, created_by="test", created_at=NOON))  # type: ignore[arg-type]

    await store.write(people)
    home = Home(tmp_path / "home")
    home.prepare()
    return World(store, home)


async def test_a_streamed_file_is_on_the_disk_when_its_message_is_accepted(world: World) -> None:
    source = Source(300_000)
    receipt = await world.send(
        source.attach("../photo.jpg"), source.attach("photo.jpg"), Attachment(name="", data=b"x")
    )

    attached = (await world.message(receipt)).content["attachments"]
    assert (receipt.state, [each["name"] for each in attached]) == ("queued", ["photo.jpg", "photo-2.jpg", "file.bin"])
    assert [each["size"] for each in attached] == [300_000, 300_000, 1]
    assert [(world.home.media / each["path"]).stat().st_size for each in attached] == [300_000, 300_000, 1]
    assert (source.opened, source.closed) == (2, 2)


async def test_what_a_stranger_attaches_is_not_fetched(world: World) -> None:
    source = Source(1000)
    for _ in range(FIRST_OF_A_STRANGER + 2):
        receipt = await world.send(source.attach(), sender=STRANGER)
        assert receipt.state == "refused"
    assert (source.opened, world.folders()) == (0, [])


async def test_what_came_before_is_not_fetched_again(world: World) -> None:
    source = Source(1000)
    await world.send(source.attach(), id="m1")
    receipt = await world.send(source.attach(), id="m1")
    assert (receipt.new, source.opened, len(world.files())) == (False, 1, 1)


async def test_the_files_of_somebody_about_whom_people_are_asked_wait_with_the_message(world: World) -> None:
    await world.set_policy(RoomPolicy.REQUEST_APPROVAL)
    receipt = await world.send(Source(1000).attach(), sender=STRANGER)
    assert (receipt.state, len(world.files())) == ("held", 1)


async def test_who_is_let_in_between_the_look_and_the_write_has_her_files_fetched(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = Source(1000)

    def see_nobody(db: Db, *_: object) -> bool:
        return False

    monkeypatch.setattr(intakes, "wants_files", see_nobody)
    receipt = await world.send(source.attach())
    assert (receipt.state, source.opened, len(world.files())) == ("queued", 1, 1)
    assert len((await world.message(receipt)).content["attachments"]) == 1


async def test_a_declared_size_over_the_limit_is_refused_before_one_byte_is_fetched(world: World) -> None:
    source = Source(1000)
    receipt = await world.send(source.attach(size=21 * 1024 * 1024))
    assert (receipt.state, receipt.reason, source.opened) == ("refused", "attachments_too_large", 0)


@pytest.mark.parametrize("declared", [None, 5, -1])
async def test_more_than_the_limit_is_noticed_while_it_comes(world: World, declared: int | None) -> None:
    world.settings = {"intake.max_attachment_mb": 1}
    first, second = Source(900_000), Source(10_000_000)
    receipt = await world.send(first.attach(), second.attach(size=declared))

    assert (receipt.state, receipt.reason) == ("refused", "attachments_too_large")
    assert second.given < 400_000  # what is left of the megabyte, and the chunk that was too much
    assert (world.folders(), second.closed) == ([], 1)


BROKEN: list[Callable[[], Exception]] = [
    lambda: Unavailable("the platform", "it broke off"),
    lambda: ConnectionResetError("gone"),
    lambda: ValueError("a mistake of the adapter"),
]


@pytest.mark.parametrize("make", BROKEN)
async def test_a_stream_that_breaks_off_leaves_nothing_and_is_tried_again(
    world: World, make: Callable[[], Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_streams, "FIRST_PAUSE_S", 0.0)
    source = Source(300_000, make(), fails=2)
    receipt = await world.send(Source(1000).attach("whole"), source.attach(), id="m1")

    assert (receipt.state, receipt.new, len(world.files()), len(world.folders())) == ("queued", True, 2, 1)
    assert (source.opened, len((await world.message(receipt)).content["attachments"])) == (3, 2)


async def test_a_file_that_is_slow_holds_up_nothing_and_follows_its_message(world: World) -> None:
    world.settings = {"intake.attachment_wait_s": 0.01}
    source = Source(1000, stalls=True)
    receipt = await world.send(source.attach("a.csv"))
    await world.send(text="and this")
    source.go.set()
    await world.intake.late_files.drain()
    first, second, late = await world.list_messages()

    assert (receipt.state, first.text) == ("queued", "look\n[1 file is still coming: a.csv]")
    assert (second.text, late.event, late.reply_to) == ("and this", "files", first.platform_id)
    assert [each["name"] for each in late.content["attachments"]] == ["a.csv"]
    assert await world.list_sessions(late) == await world.list_sessions(first)
    assert (len(world.files()), await world.store.read(awaited_files.list_overdue, 2**60, 9)) == (1, [])


async def test_the_many_files_of_one_room_are_not_before_those_of_another(world: World) -> None:
    world.settings = {"intake.attachment_wait_s": 1.0}  # for the first alone: a room waits once
    source = Source(10, stalls=True)
    texts = [(await world.message(await world.send(source.attach()))).text for _ in range(60)]
    await world.send(Source(10).attach("b.txt"), room="tg:group/8")
    await until(lambda: "b.txt" in [each.name for each in world.files()])

    assert source.opened == 2, "so many of one room at once"
    assert ["too many files" in text for text in texts] == [False] * 50 + [True] * 10
    source.go.set()
    await world.intake.late_files.drain()
    assert len([each for each in await world.list_messages() if each.event == "files"]) == 50


async def test_a_room_that_has_waited_for_files_does_not_wait_again_at_once(world: World) -> None:
    world.settings = {"intake.attachment_wait_s": 0.01}
    slow = Source(10, stalls=True)
    await world.send(slow.attach())
    slow.go.set()
    await world.intake.late_files.drain()
    quick = await world.message(await world.send(Source(10).attach("b.txt")))
    await world.intake.late_files.drain()

    assert "still coming: b.txt" in quick.text
    assert [each.event for each in await world.list_messages()] == ["message", "files", "message", "files"]


async def test_after_a_restart_a_file_that_was_still_coming_is_said_to_be_missing(world: World) -> None:
    world.settings = {"intake.attachment_wait_s": 0.01}
    source = Source(10, stalls=True)
    await world.send(source.attach("a.csv"))
    ending = asyncio.create_task(world.intake.late_files.run())
    await asyncio.wait_for(source.stalled.wait(), PATIENCE_S)
    ending.cancel()
    await asyncio.wait((ending,))
    world.clock.advance(PATIENCE / 1_000_000 + 61)
    for _ in range(2):
        await world.intake.late_files.give_up_overdue()
    first, told, late = await world.list_messages()

    assert late.text == "[file: a.csv, which did not come]"
    assert await world.list_sessions(late) == await world.list_sessions(first)
    assert told.direction == "out" and "a.csv, which did not come" in told.text
    assert (world.folders(), source.closed) == ([], 1)


async def test_a_slow_trickle_ends_with_its_time(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_streams, "FIRST_PAUSE_S", 0.0)
    monkeypatch.setattr(file_streams, "PATIENCE", 0)
    world.settings = {"intake.attachment_timeout_s": 0.05}
    source = Source(1000, stalls=True)
    receipt = await world.send(source.attach())
    assert "too slowly" in (await world.message(receipt)).text
    assert (world.folders(), source.closed) == ([], 1)


async def test_a_file_that_fails_for_good_costs_the_file_and_not_the_message(world: World) -> None:
    gone = Source(300_000, NotFound("file", "F1"))
    receipt = await world.send(gone.attach("report.pdf"), Source(10).attach("b.txt"))

    message = await world.message(receipt)
    assert receipt.state == "queued"
    assert message.text == "look\n[file: report.pdf, which could not be fetched: no file named 'F1']"
    assert [each["name"] for each in message.content["attachments"]] == ["b.txt"]
    assert [path.name for path in world.files()] == ["b.txt"]
    _, told = await world.list_messages()
    assert told.text == (
        "I did not get everything that you sent:\nfile: report.pdf, which could not be fetched: no file named 'F1'"
    )


async def test_a_file_that_breaks_off_for_ten_minutes_is_given_up(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_streams, "FIRST_PAUSE_S", 0.0)
    world.settings = {"intake.attachment_wait_s": 0.01}
    source = Source(10, Unavailable("the platform", "it broke off"))
    await world.send(source.attach(), id="m1")
    world.clock.advance(PATIENCE / 1_000_000)
    await world.intake.late_files.drain()
    texts = [each.text for each in await world.list_messages()]
    assert "still coming" in texts[0] and "which could not be fetched" in texts[-1]
    assert world.folders() == []


async def test_a_channel_that_is_stopped_in_the_middle_leaves_nothing(world: World) -> None:
    source = Source(1000, stalls=True)
    sending = asyncio.create_task(world.send(source.attach()))
    await asyncio.wait_for(source.stalled.wait(), PATIENCE_S)
    sending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await sending
    assert (world.folders(), source.closed) == ([], 1)


@pytest.mark.slow
async def test_a_large_file_passes_through_a_few_chunks_of_memory(world: World) -> None:
    world.settings = {"intake.max_attachment_mb": 100}
    source = Source(64 * 1024 * 1024)
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        await world.send(source.attach())
        peak = tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()
    assert world.files()[0].stat().st_size == 64 * 1024 * 1024
    assert peak < 24 * CHUNK


def count_messages(db: Db) -> int:
    row = db.row("SELECT COUNT(*) FROM messages")
    assert row is not None
    return int(row[0])


@pytest.mark.parametrize("gone", ["message", "session"])
async def test_a_file_that_comes_when_nobody_gets_it_any_more_leaves_nothing_behind(world: World, gone: str) -> None:
    """Its sender was forgotten meanwhile, or the conversation was closed."""
    world.settings = {"intake.attachment_wait_s": 0.01}
    source = Source(1000, stalls=True)
    receipt = await world.send(source.attach("a.csv"))
    [session_id] = await world.list_sessions(await world.message(receipt))

    def remove(db: Db) -> None:
        if gone == "session":
            sessions.close(db, session_id or "", NOON)
        else:
            retention.remove_message(db, receipt.message_id)

    await world.store.write(remove)
    source.go.set()
    await world.intake.late_files.drain()
    assert world.files() == []
