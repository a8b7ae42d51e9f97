"""The signs of a turn: that messages were read, and that somebody is at work. A courtesy: nothing depends on them,
errors are ignored.

Platforms let the sign of work fade after some seconds, so it is shown again and again. After a delivered message, which
has just told people more, it is not shown until the next event of the turn. A read mark is sent once, for messages
that an agent has taken; after a crash it may be missing.
"""

import asyncio
from collections.abc import Mapping

from gatepost.channels.contract import Channel, SupportsReadMarks, SupportsTyping
from gatepost.core import log
from gatepost.flow.delivery.outgoing_messages import ChannelInstances
from gatepost.messages.outbound import Feature

LOG = log.get("typing")
REFRESH_S = 4.0
LONGEST_CALL_S = 3.0
MOST_MARKED = 1000  # messages of a place that wait for their mark, while the platform does not answer

TypingPlace = tuple[str, str, str]  # instance, address, thread


class TypingIndicator:
    def __init__(self, adapters: Mapping[str, Channel], channels: ChannelInstances) -> None:
        self._adapters, self._channels = adapters, channels
        self._able: dict[str, tuple[object, SupportsTyping | None]] = {}  # by instance: asked once of each channel
        self._shown: dict[TypingPlace, bool] = {}  # False: paused
        self._changed: set[TypingPlace] = set()
        self._calling: set[TypingPlace] = set()  # one call at a time for a place, so that the last word is the last
        self._unmarked: dict[TypingPlace, tuple[str, ...]] = {}  # messages that are to be marked as read
        self._bell = asyncio.Event()

    def start(self, instance: str, address: str, thread: str, read: tuple[str, ...] = ()) -> None:
        """A turn runs there, or something happened in it: shown at once, and until `stop`. `read`: messages that its
        agent has taken. People see it, where the instance says so."""
        place, kind = (instance, address, thread), self._channels.get_kind(instance)
        if read and kind.read_marks:
            self._unmarked[place] = (self._unmarked.get(place, ()) + read)[-MOST_MARKED:]
            self._changed.add(place)
            self._bell.set()
        if Feature.TYPING in kind.features:
            self._set(place, True)

    def stop(self, instance: str, address: str, thread: str) -> None:
        place = (instance, address, thread)
        if place in self._shown:
            self._set(place, False)
            del self._shown[place]

    def delivered(self, instance: str, address: str, thread: str) -> None:
        """A message arrived there: quiet until the next event."""
        if (instance, address, thread) in self._shown:
            self._set((instance, address, thread), False)

    def _set(self, place: TypingPlace, on: bool) -> None:
        if self._shown.get(place, False) != on:
            self._shown[place] = on
            self._changed.add(place)
            self._bell.set()

    async def run(self) -> None:
        """Until cancelled."""
        loop = asyncio.get_running_loop()
        refresh_at = loop.time() + REFRESH_S
        async with asyncio.TaskGroup() as calls:
            while True:
                try:
                    async with asyncio.timeout_at(refresh_at):
                        await self._bell.wait()
                    due, self._changed = self._changed, set()
                    self._bell.clear()
                except TimeoutError:
                    due = {place for place, on in self._shown.items() if on}
                    refresh_at = loop.time() + REFRESH_S
                for place in due - self._calling:
                    self._calling.add(place)
                    calls.create_task(self._show(place))

    async def _show(self, place: TypingPlace) -> None:
        try:
            while True:
                if messages := self._unmarked.pop(place, ()):
                    await self._mark(place, messages)
                on = self._shown.get(place, False)
                await self._call(place, on)
                if self._shown.get(place, False) == on and place not in self._unmarked:
                    return
        finally:
            self._calling.discard(place)

    async def _mark(self, place: TypingPlace, messages: tuple[str, ...]) -> None:
        instance, address, thread = place
        channel: object = self._adapters.get(instance)
        if not isinstance(channel, SupportsReadMarks):
            return
        try:
            async with asyncio.timeout(LONGEST_CALL_S):
                await channel.mark_read(address, thread, messages)
        except Exception as error:  # noqa: BLE001  as below
            LOG.debug("messages could not be marked as read", instance=instance, error=repr(error))

    async def _call(self, place: TypingPlace, on: bool) -> None:
        instance, address, thread = place
        channel: object = self._adapters.get(instance)
        known = self._able.get(instance)
        if known is None or known[0] is not channel:
            known = self._able[instance] = (channel, channel if isinstance(channel, SupportsTyping) else None)
        if (able := known[1]) is None:
            return
        try:
            async with asyncio.timeout(LONGEST_CALL_S):
                await able.typing(address, thread, on)
        except Exception as error:  # noqa: BLE001  part of delivering; a sign that fails must not end the others
            LOG.debug("typing could not be shown", instance=instance, error=repr(error))
