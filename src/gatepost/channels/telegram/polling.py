"""The loop of polls: one at a time, confirmed by the next, with a beat for each that Telegram completes."""

import asyncio
from collections import deque
from collections.abc import Sequence

from gatepost.channels.contract import ChannelDeps, ChannelEnded, EndReason
from gatepost.channels.kit.backoff import Backoff
from gatepost.channels.kit.http import PlatformRefusal
from gatepost.channels.kit.room_queues import RoomQueues
from gatepost.channels.telegram.api import TelegramApi
from gatepost.channels.telegram.updates import MOST, Handle, UpdateTracker, find_album, is_update
from gatepost.channels.telegram.wire import UPDATES, Payload
from gatepost.core.clock import SECOND
from gatepost.core.errors import Unavailable

CONFLICTS = 3  # within a minute: no poll that was left over, but somebody else
CONFLICT_WINDOW = 60 * SECOND
CONFLICT_WAIT_S = 1.0
MORE_S = 10.0  # that a poll may take beyond what Telegram was asked for
ALBUM_S = 0.3  # in which the rest of an album comes
SAVE_EACH = 5 * SECOND
PROBE_S = 3  # in which a program whose poll we ended asks again


class UpdatePoller:
    def __init__(self, api: TelegramApi, deps: ChannelDeps, poll_s: int, handle: Handle) -> None:
        self._api, self._deps, self._poll_s, self._handle = api, deps, poll_s, handle
        self._conflicts: deque[int] = deque(maxlen=CONFLICTS)
        self._backoff = Backoff()
        self._saved_at = 0

    async def run(self) -> None:
        """Until cancelled. A poll that fails is made again; ChannelEnded comes out."""
        async with RoomQueues() as queues:
            tracker = UpdateTracker(queues, self._handle)
            while True:
                try:
                    updates = await self._poll_settled(tracker)
                except Unavailable as error:
                    await self._backoff.wait(error.retry_after)
                    continue
                except PlatformRefusal as error:
                    await self._wait_out(error)
                    continue
                self._deps.beat()
                self._backoff.reset()
                await tracker.put(updates)
                await tracker.wait()
                await self._save(tracker.offset)

    async def _poll_settled(self, tracker: UpdateTracker) -> Sequence[Payload]:
        """An album comes as several updates, of which the first may come alone: then it is asked again, once."""
        updates = await self._poll(tracker.offset, 0 if tracker.has_open else self._poll_s)
        last = updates[-1] if updates else None
        if last is not None and len(updates) < MOST and find_album(last) is not None and tracker.is_new(last):
            await asyncio.sleep(ALBUM_S)
            updates = await self._poll(tracker.offset, 0)
        return updates

    async def _poll(self, offset: int, hold_s: int) -> Sequence[Payload]:
        payload = {
            "timeout": hold_s,
            "limit": MOST,
            "allowed_updates": UPDATES,
            **({"offset": offset} if offset else {}),
        }
        found = await self._api.call(
            "getUpdates", payload, "receive updates", reads=True, timeout=self._poll_s + MORE_S
        )
        return [each for each in found if is_update(each)]

    async def _wait_out(self, error: PlatformRefusal) -> None:
        """A 409 once is a poll that an earlier process left open; one that comes back is another program."""
        if error.status != 409:
            raise error
        if "webhook" in error.detail.lower():
            raise make_hook_error() from None
        now = self._deps.clock.monotonic()
        self._conflicts.append(now)
        if len(self._conflicts) == CONFLICTS and now - self._conflicts[0] < CONFLICT_WINDOW:
            raise _make_conflict_error() from None
        await asyncio.sleep(CONFLICT_WAIT_S)

    async def _save(self, offset: int) -> None:
        """For people who look at it: Telegram itself knows what was confirmed."""
        now = self._deps.clock.monotonic()
        if offset and now - self._saved_at >= SAVE_EACH:
            self._saved_at = now
            await self._deps.cursor.save(str(offset))


async def check_conflict(api: TelegramApi, hold_s: int) -> None:
    """Raise ChannelEnded if another program polls, too. Our poll ends its poll, and its next one ends ours. There is no
    offset and no list of updates, so that nothing is confirmed and nothing is changed."""
    payload = {"timeout": hold_s, "limit": 1}
    try:
        await api.call("getUpdates", payload, "find another poller", reads=True, timeout=hold_s + MORE_S)
    except PlatformRefusal as error:
        if error.status != 409:
            raise
        raise (make_hook_error() if "webhook" in error.detail.lower() else _make_conflict_error()) from None


def _make_conflict_error() -> ChannelEnded:
    return ChannelEnded(
        EndReason.SECOND_POLLER,
        "another program polls with this bot's token",
        "stop it, or give it a bot of its own, then start this channel again",
    )


def make_hook_error() -> ChannelEnded:
    return ChannelEnded(
        EndReason.SECOND_POLLER,
        "a webhook is set for this bot: another program receives in its place",
        "remove it there (deleteWebhook), or use another bot",
    )
