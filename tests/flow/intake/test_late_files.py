"""Files that come after their message: to whom they go, once, and what is said of those that do not come."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gatepost.channels.contract import ChannelKind
from gatepost.core.clock import MINUTE
from gatepost.core.errors import Unavailable
from gatepost.core.event_bus import EventBus
from gatepost.flow.delivery.outgoing_messages import ChannelInstances
from gatepost.flow.intake.accepted_message import Arrival
from gatepost.flow.intake.attachments import StoredAttachment
from gatepost.flow.intake.file_streams import PATIENCE, FetchedFiles
from gatepost.flow.intake.late_files import LATE, LateFiles, PassedAttachments, add_late_files, await_files
from gatepost.messages import address as addresses
from gatepost.messages.inbound import Attachment, AttachmentKind, Inbound
from gatepost.store.messages import awaited_files, inbox, messages, outbox
from gatepost.store.messages.inbox import InboxMode, InboxState
from gatepost.store.messages.messages import Message
from gatepost.store.port import Db, Store
from gatepost.store.sessions import groups, sessions
from gatepost.store.sessions.sessions import Session, SessionMode
from gatepost_testing.arrivals import add_arrival
from gatepost_testing.clock import NOON, FixedClock

ROOM = ("fake", "fake:room/1")
KIND = ChannelKind(name="fake", make=lambda deps: pytest.fail("not made"), features=frozenset())
CHANNELS = ChannelInstances({"fake": KIND})
PICTURE = StoredAttachment("cat.png", "image/png", AttachmentKind.IMAGE, 3, "in/1/cat.png")
MISSING = "[file: dog.png, which could not be fetched: it is gone]"
ARRIVAL = Arrival(
    instance=ROOM[0],
    address=addresses.parse(ROOM[1]),
    inbound=Inbound(
        address=ROOM[1], platform_id="p1", sender="fake:user/1", text="look",
        attachments=(Attachment(kind=AttachmentKind.IMAGE, name="cat.png"),),
    ),
    at=NOON,
    awaited=("cat.png",),
)  # fmt: skip


def add_message(db: Db, **more: Any) -> int:
    content = msgspec.json.encode({"senderName": "Ann", "text": "look at this"}).decode()
    return add_arrival(db, NOON, platform_id="p1", text="look at this", content=content, thread="t", **more)


def add_session(db: Db, folder: str = "acme") -> Session:
    if groups.get(db, folder) is None:
        groups.add(db, folder, folder, "", NOON)
    return sessions.find_or_add(db, SessionMode.PER_THREAD, folder, *ROOM, "t", NOON)


def add_awaited(db: Db, **more: Any) -> tuple[int, Session]:
    message_id, session = add_message(db, **more), add_session(db)
    inbox.enqueue(db, message_id, session.id, "acme", "admin", NOON)
    await_files(db, ARRIVAL, message_id, NOON)
    return message_id, session


def get(db: Db, message_id: int) -> Message:
    found = messages.get(db, message_id)
    assert found is not None
    return found


def list_notices(db: Db) -> list[str]:
    return [str(row[0]) for row in db.rows("SELECT text FROM messages WHERE direction = 'out' ORDER BY id")]


def test_files_follow_as_an_answer_to_their_message_to_the_session_that_has_it(db: Db) -> None:
    message_id, session = add_awaited(db)
    added, woken, room = add_late_files(db, CHANNELS, message_id, FetchedFiles((PICTURE,)), NOON + 5)
    assert (woken, room) == ([session.id], ROOM)
    brought = get(db, added)
    assert (brought.text, brought.event, brought.thread, brought.sender) == (LATE, "files", "t", "fake:user/1")
    assert brought.content["attachments"] == [
        {"type": "image", "name": "cat.png", "mimeType": "image/png", "size": 3, "path": "in/1/cat.png"}
    ]
    assert brought.content["replyTo"] == {"id": "p1", "text": "look at this", "sender": ""}
    assert (
        brought.content["senderName"] == "Ann" and brought.reply_to == "p1" and "forwardedFrom" not in brought.content
    )
    (entry,) = inbox.list_for_message(db, added)
    assert (entry.session_id, entry.rights, entry.state) == (session.id, "admin", InboxState.QUEUED)
    assert list_notices(db) == []


def test_files_of_a_forwarded_message_are_forwarded_too(db: Db) -> None:
    message_id, _ = add_awaited(db, forward_from="Bob")
    added, _, _ = add_late_files(db, CHANNELS, message_id, FetchedFiles((PICTURE,)), NOON)
    assert (get(db, added).forward_from, get(db, added).content["forwardedFrom"]) == ("Bob", "Bob")


def test_files_are_given_once(db: Db) -> None:
    message_id, _ = add_awaited(db)
    assert add_late_files(db, CHANNELS, message_id, FetchedFiles((PICTURE,)), NOON)[0]
    assert add_late_files(db, CHANNELS, message_id, FetchedFiles((PICTURE,)), NOON) == (0, [], None)
    assert db.row("SELECT COUNT(*) FROM messages WHERE event = 'files'") == (1,)


def test_what_did_not_come_is_said_to_the_agent_and_in_the_room(db: Db) -> None:
    message_id, session = add_awaited(db)
    added, woken, _ = add_late_files(db, CHANNELS, message_id, FetchedFiles((), (MISSING,)), NOON)
    assert woken == [session.id]
    assert get(db, added).text == MISSING and "attachments" not in get(db, added).content
    (notice,) = list_notices(db)
    assert "I did not get everything" in notice and MISSING.strip("[]") in notice and "[" not in notice
    effect = outbox.find_by_key(db, f"notice:files:{message_id}")
    assert effect is not None and (effect.address, effect.thread) == (ROOM[1], "t")


def test_who_only_observes_is_given_them_and_not_woken(db: Db) -> None:
    message_id, session = add_awaited(db)
    watching = add_session(db, "beta")
    inbox.observe(db, message_id, watching.id, "beta", "member", NOON)
    added, woken, _ = add_late_files(db, CHANNELS, message_id, FetchedFiles((PICTURE,)), NOON)
    assert woken == [session.id]
    modes = {each.folder: (each.mode, each.state) for each in inbox.list_for_message(db, added)}
    assert modes == {
        "acme": (InboxMode.TRIGGER, InboxState.QUEUED),
        "beta": (InboxMode.OBSERVE, InboxState.OBSERVED),
    }


def test_a_conversation_that_was_closed_gets_nothing(db: Db) -> None:
    message_id, session = add_awaited(db)
    sessions.close(db, session.id, NOON)
    assert add_late_files(db, CHANNELS, message_id, FetchedFiles((), (MISSING,)), NOON) == (0, [], None)
    assert list_notices(db) == []
    assert awaited_files.count(db) == 0


def test_files_of_a_held_message_wait_with_it(db: Db) -> None:
    """Whoever lets it in later gets the message whole."""
    message_id = add_message(db)
    inbox.hold(db, message_id, "acme", "guest", "p-1", NOON + 100, NOON)
    await_files(db, ARRIVAL, message_id, NOON)
    assert add_late_files(db, CHANNELS, message_id, FetchedFiles((PICTURE,)), NOON) == (message_id, [], None)
    assert [each["name"] for each in get(db, message_id).content["attachments"]] == ["cat.png"]
    assert get(db, message_id).content["senderName"] == "Ann"


def test_a_message_that_is_gone_takes_its_files_along(db: Db) -> None:
    message_id, _ = add_awaited(db)
    db.run("DELETE FROM inbox WHERE message_id = ?", (message_id,))
    db.run("DELETE FROM messages WHERE id = ?", (message_id,))
    assert add_late_files(db, CHANNELS, message_id, FetchedFiles((PICTURE,)), NOON) == (0, [], None)


class Desk:
    def __init__(self, store: Store, media: Path) -> None:
        self.store, self.clock, self.events, self.media = store, FixedClock(), EventBus(), media
        self.woken: list[str] = []
        self.rooms: list[tuple[str, str]] = []
        self.events.on_session(self.woken.append)
        self.events.on_room(lambda *room: self.rooms.append(room))
        passed = PassedAttachments(store, CHANNELS, None)
        self.late = LateFiles(store, self.clock, self.events, CHANNELS, passed, media)

    async def follow(self, fetch: Any, message_id: int) -> None:
        self.late.follow(asyncio.ensure_future(fetch), ARRIVAL, message_id)
        await self.late.drain()


@pytest.fixture
def desk(store: Store, tmp_path: Path) -> Desk:
    (tmp_path / "in/1").mkdir(parents=True)
    (tmp_path / PICTURE.path).write_bytes(b"cat")
    return Desk(store, tmp_path)


async def fetch(*kept: StoredAttachment, missing: tuple[str, ...] = ()) -> FetchedFiles:
    return FetchedFiles(kept, missing)


async def fail() -> FetchedFiles:
    raise Unavailable("the platform", "it does not answer")


async def test_a_file_that_came_wakes_its_session_and_stays_on_the_disk(desk: Desk) -> None:
    message_id, session = await desk.store.write(add_awaited)
    await desk.follow(fetch(PICTURE), message_id)
    assert (desk.woken, desk.rooms) == ([session.id], [])
    assert (desk.media / PICTURE.path).exists()


async def test_a_fetch_that_fails_is_said_by_the_names_of_its_files(desk: Desk) -> None:
    message_id, session = await desk.store.write(add_awaited)
    await desk.follow(fail(), message_id)
    assert (desk.woken, desk.rooms) == ([session.id], [ROOM])
    (notice,) = await desk.store.read(list_notices)
    assert "file: cat.png, which could not be fetched" in notice and "does not answer" in notice


async def test_a_file_that_nobody_gets_any_more_is_removed_from_the_disk(desk: Desk) -> None:
    message_id, session = await desk.store.write(add_awaited)
    await desk.store.write(sessions.close, session.id, NOON)
    await desk.follow(fetch(PICTURE), message_id)
    assert desk.woken == [] and not (desk.media / PICTURE.path).exists()


async def test_files_whose_gateway_died_are_given_up_when_nobody_can_be_fetching_them(desk: Desk) -> None:
    await desk.store.write(add_awaited)
    desk.clock.set(NOON + PATIENCE + MINUTE)
    await desk.late.give_up_overdue()
    assert await desk.store.read(list_notices) == []
    desk.clock.set(NOON + PATIENCE + MINUTE + 1)
    await desk.late.give_up_overdue()
    (notice,) = await desk.store.read(list_notices)
    assert "file: cat.png, which did not come" in notice
    await desk.late.give_up_overdue()
    assert len(await desk.store.read(list_notices)) == 1


async def test_what_is_fetched_when_the_gateway_ends_is_left_to_be_given_up(desk: Desk) -> None:
    message_id, _ = await desk.store.write(add_awaited)
    never = asyncio.get_running_loop().create_future()

    async def wait() -> FetchedFiles:
        return await never  # type: ignore[no-any-return]

    fetching = asyncio.ensure_future(wait())
    running = asyncio.ensure_future(desk.late.run())
    desk.late.follow(fetching, ARRIVAL, message_id)
    await asyncio.sleep(0)
    running.cancel()
    await asyncio.gather(running, fetching, return_exceptions=True)
    assert fetching.cancelled()
    assert await desk.store.read(awaited_files.count) == 1
