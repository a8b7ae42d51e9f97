"""Files that come after their message: a file that is slow, or away, holds up nobody.

The message goes on after a short wait and says that a file is still coming. The file follows as a message of its own,
to the same sessions. A gateway that ends meanwhile forgets the fetch; then the next one says that the file is missing.
"""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from gatepost.core import log
from gatepost.core.clock import MINUTE, Clock
from gatepost.core.errors import GatepostError
from gatepost.core.event_bus import EventBus
from gatepost.core.process.wake_loop import WakeLoop
from gatepost.core.records import replace
from gatepost.core.settings import setting
from gatepost.flow.delivery.outgoing_messages import ChannelInstances, OutgoingMessage, add_outgoing_message
from gatepost.flow.intake.accepted_message import Arrival
from gatepost.flow.intake.admission import wants_files
from gatepost.flow.intake.attachments import StoredAttachment, remove_attachments
from gatepost.flow.intake.file_streams import PATIENCE, FetchedFiles
from gatepost.messages.inbound import Direction
from gatepost.store.messages import awaited_files, inbox, messages
from gatepost.store.messages.file_passing import FilePassing
from gatepost.store.messages.inbox import InboxMode, InboxState
from gatepost.store.messages.messages import Message, NewMessage
from gatepost.store.messages.outbox import EffectOrigin
from gatepost.store.port import Db, Store
from gatepost.store.sessions import sessions

WAIT_S = setting(
    "intake.attachment_wait_s",
    5.0,
    help="A message goes on without its files if they take longer than this; they follow when they are there.",
)

EVENT = "files"  # of the message that brings files later
LOOK_S = 30.0
AT_ONCE = 50  # messages whose files are given up in one transaction
QUOTED = 200  # characters of the message whose files these are
LATE = "[This is what was still coming of that message.]"
NOT_COME = "[file: {}, which did not come]"

_log = log.get("intake")


class PassedAttachments:
    """Files of a message for a session that may run on another gateway: in the store before their message is."""

    def __init__(self, store: Store, channels: ChannelInstances, passing: FilePassing | None) -> None:
        self._store, self._channels, self._passing = store, channels, passing

    async def put(self, arrival: Arrival, now: int) -> None:
        """Put the files into the store if somebody would get the message: a stranger must not fill it."""
        if self._passing is None or not arrival.kept or not await self._passing.has_others():
            return
        if await self._store.read(wants_files, self._channels, arrival, now):
            await self._passing.put([each.path for each in arrival.kept])

    async def record(self, arrival: Arrival, message_id: int) -> None:
        """Bind the files to their message: its outcome says how long they stay."""
        if self._passing is not None and arrival.kept:
            await self._passing.set_message([each.path for each in arrival.kept], message_id)


class LateFiles:
    def __init__(
        self,
        store: Store,
        clock: Clock,
        events: EventBus,
        channels: ChannelInstances,
        passed: PassedAttachments,
        media: Path,
    ) -> None:
        self._store, self._clock, self._events, self._channels, self._passed = store, clock, events, channels, passed
        self._media = media
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Look for files that are given up until cancelled. Then nothing is fetched any further."""
        try:
            failure = "late files cannot be given up yet"
            await WakeLoop(_log.warning, failure, pause_s=LOOK_S).run(self.give_up_overdue)
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def give_up_overdue(self) -> None:
        """Say of files that nobody fetches any more that they did not come."""
        for each in await self._store.read(awaited_files.list_overdue, self._clock.now(), AT_ONCE):
            missing = tuple(NOT_COME.format(name) for name in each.listed)
            await self._settle(each.message_id, FetchedFiles((), missing))

    def follow(self, fetching: asyncio.Task[FetchedFiles], arrival: Arrival, message_id: int) -> None:
        """Have the files of a message follow it."""
        task = asyncio.create_task(self._follow(fetching, arrival, message_id))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def drain(self) -> None:
        """Wait until every file that is awaited has come, or will not."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def _follow(self, fetching: asyncio.Task[FetchedFiles], arrival: Arrival, message_id: int) -> None:
        try:
            fetched = await fetching
        except GatepostError as error:
            names = [each.name for each in arrival.inbound.attachments]
            fetched = FetchedFiles((), tuple(f"[file: {name}, which could not be fetched: {error}]" for name in names))
        except asyncio.CancelledError:
            fetching.cancel()
            raise
        late = replace(arrival, kept=fetched.kept)
        try:
            await self._passed.put(late, self._clock.now())
            added = await self._settle(message_id, fetched)
            if not added:  # who sent them was forgotten, or the conversation was closed
                await asyncio.to_thread(remove_attachments, self._media, fetched.kept)
            await self._passed.record(late, added or message_id)
        except GatepostError as error:  # the store is away: then they are given up when they are overdue
            _log.warning("late files cannot be added", message=message_id, error=str(error))

    async def _settle(self, message_id: int, fetched: FetchedFiles) -> int:
        now = self._clock.now()
        added, woken, room = await self._store.write(add_late_files, self._channels, message_id, fetched, now)
        for session_id in woken:
            self._events.session(session_id)
        if fetched.missing and room is not None:
            self._events.room(*room)
        return added


def await_files(db: Db, arrival: Arrival, message_id: int, now: int) -> None:
    """Note in the transaction of a message that some of its files are still coming."""
    awaited_files.add(db, message_id, arrival.awaited, now + PATIENCE + MINUTE)


def add_late_files(
    db: Db, channels: ChannelInstances, message_id: int, fetched: FetchedFiles, now: int
) -> tuple[int, list[str], tuple[str, str] | None]:
    """Give files to the sessions that have their message, once. Return the message that brings them, who is woken, and
    the room. A held message takes them along. 0 in place of the message: nobody gets them any more."""
    message = messages.get(db, message_id)
    if not awaited_files.remove(db, message_id) or message is None:
        return 0, [], None
    entries = inbox.list_for_message(db, message_id)
    is_held = any(each.state is InboxState.HELD for each in entries)
    if is_held:
        held = [*message.content.get("attachments", ()), *render_attachments(fetched.kept)]
        messages.set_content(db, message_id, {**message.content, "attachments": held})
    given = [each for each in entries if each.session_id is not None and _is_open(db, each.session_id)]
    if not given:
        return message_id if is_held else 0, [], None
    add_missing_notice(db, channels, message, fetched.missing, now)
    added = messages.accept(db, _make_message(message, fetched, now), now)
    assert added is not None  # whoever removed the row adds it
    woken = []
    for each in given:
        assert each.session_id is not None
        observed = each.mode is InboxMode.OBSERVE
        (inbox.observe if observed else inbox.enqueue)(db, added, each.session_id, each.folder, each.rights, now)
        woken += [] if observed else [each.session_id]
    return added, woken, (message.instance, message.address)


def add_missing_notice(db: Db, channels: ChannelInstances, message: Message, missing: Sequence[str], now: int) -> None:
    """Tell the room what could not be fetched, in answer to its message."""
    if missing:
        said = OutgoingMessage(
            key=f"notice:files:{message.id}",
            origin=EffectOrigin.NOTICE,
            instance=message.instance,
            address=message.address,
            thread=message.thread,
            text="I did not get everything that you sent:\n" + "\n".join(line.strip("[]") for line in missing),
            reply_to_id=message.id,
        )
        add_outgoing_message(db, channels, said, now)


def render_attachments(kept: Sequence[StoredAttachment]) -> list[dict[str, Any]]:
    """Return the files of a message, as its content has them."""
    return [
        {"type": each.kind, "name": each.name, "mimeType": each.mime, "size": each.size, "path": each.path}
        for each in kept
    ]


def _is_open(db: Db, session_id: str) -> bool:
    session = sessions.get(db, session_id)
    return session is not None and session.closed_at is None


def _make_message(message: Message, fetched: FetchedFiles, now: int) -> NewMessage:
    text = "\n".join(fetched.missing) or LATE
    known = {name: message.content.get(name, "") for name in ("sender", "senderId", "senderName")}
    quote = {"id": message.platform_id, "text": message.text[:QUOTED], "sender": ""}
    content = {**known, "text": text, "verb": "message", "replyTo": quote}
    if fetched.kept:
        content["attachments"] = render_attachments(fetched.kept)
    if message.forward_from is not None:
        content["forwardedFrom"] = message.forward_from
    return NewMessage(
        instance=message.instance,
        address=message.address,
        direction=Direction.IN,
        kind=message.kind,
        sender=message.sender,
        sender_name=message.sender_name,
        text=text,
        at=now,
        platform_id=message.platform_id,
        event=EVENT,
        thread=message.thread,
        topic=message.topic,
        forward_from=message.forward_from,
        content=msgspec.json.encode(content).decode(),
        reply_to=message.platform_id or "",
    )
