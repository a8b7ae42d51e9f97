"""Updates of Telegram on their way to intake: rooms beside each other, each in order, confirmed behind the oldest.

A poll confirms what lies before its offset, so the offset stays at the oldest update that is not durable yet. Telegram
then brings the ones behind it again; those that are known are left out. No offset is kept over a restart: Telegram
itself keeps what was not confirmed, and may begin its numbers anew after a week of silence.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, cast

from gatepost.channels.kit.room_queues import RoomQueues
from gatepost.channels.telegram.wire import Payload
from gatepost.messages.text import may_stop

Handle = Callable[[Sequence[Payload]], Awaitable[None]]
MOST = 100  # that one poll brings
WAIT_S = 1.0  # for the oldest, before it is looked for what lies behind it


class UpdateTracker:
    def __init__(self, queues: RoomQueues, handle: Handle) -> None:
        self._queues, self._handle = queues, handle
        self._known: set[int] = set()  # not confirmed yet
        self._next = 0
        self._first = True  # what comes first may have been received before a restart

    @property
    def offset(self) -> int:
        """Return what the next poll may confirm; 0 before the first update."""
        return min(map(int, self._queues.list_marks()), default=self._next)

    @property
    def has_open(self) -> bool:
        return bool(self._queues.list_marks())

    def is_new(self, update: Payload) -> bool:
        return read_number(update) not in self._known

    async def put(self, updates: Sequence[Payload]) -> None:
        """Queue the updates that are new, with the parts of an album as one.

        The first batch is queued part by part. A part may be stored already under the album's id, and the other parts
        would be lost.
        """
        new = [each for each in updates if read_number(each) not in self._known]
        self._known &= {read_number(each) for each in updates}
        if updates:
            self._next = max(map(read_number, updates)) + 1
        groups = [[each] for each in new] if self._first or len(new) == 1 else group_albums(new)
        self._first = False
        for group in groups:
            self._known.update(map(read_number, group))
            job, mark, urgent = partial(self._handle, group), str(read_number(group[0])), is_urgent(group[0])
            await self._queues.put(find_chat(group[0]), job, mark, urgent=urgent)

    async def wait(self) -> None:
        """Until nothing is under way, or for a while."""
        try:
            async with asyncio.timeout(WAIT_S):
                await self._queues.drain()
        except TimeoutError:
            return


def is_update(given: Any) -> bool:
    """Return True for a well-formed update: without a number and fields it can be neither handled nor confirmed."""
    if not isinstance(given, dict) or not isinstance(given.get("update_id"), int):
        return False
    return all(isinstance(value, dict) for name, value in given.items() if name != "update_id")


def read_number(update: Payload) -> int:
    return int(update["update_id"])


def find_message(update: Payload) -> Payload:
    for name in ("message", "edited_message", "channel_post", "edited_channel_post", "message_reaction"):
        if found := update.get(name):
            return cast(Payload, found)
    message = (update.get("callback_query") or {}).get("message")
    return message if isinstance(message, dict) else {}


def find_chat(update: Payload) -> str:
    chat = find_message(update).get("chat")
    return str(chat.get("id")) if isinstance(chat, dict) else ""


def is_urgent(update: Payload) -> bool:
    """Return True for what may be an order to stop."""
    message = update.get("message") or update.get("channel_post") or {}
    return may_stop(message.get("text") or message.get("caption"))


def find_album(update: Payload) -> Any:
    """Return what its parts have in common; None if it is no part of an album."""
    message = update.get("message") or update.get("channel_post") or {}
    album = message.get("media_group_id")
    return (find_chat(update), album) if album else None


def group_albums(updates: Sequence[Payload]) -> list[list[Payload]]:
    """The parts of an album that came in one poll stand together, where the first of them stood."""
    groups: list[list[Payload]] = []
    albums: dict[Any, list[Payload]] = {}
    for update in updates:
        album = find_album(update)
        if album is not None and album in albums:
            albums[album].append(update)
            continue
        groups.append([update])
        if album is not None:
            albums[album] = groups[-1]
    return groups
