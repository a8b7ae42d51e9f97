"""Threads that a platform does not send by itself: once somebody spoke to an agent in one, its channel follows it."""

import asyncio

from gatepost.channels.contract import SupportsSubscribe
from gatepost.core import log
from gatepost.flow.delivery.outgoing_messages import ChannelInstances
from gatepost.messages.outbound import Feature

MOST_REMEMBERED = 10_000  # threads; one that is forgotten is asked for once more
MOST_AT_ONCE = 16
LONGEST_CALL_S = 30.0

_log = log.get("intake")

ThreadPlace = tuple[str, str, str]  # instance, address, thread


class FollowedThreads:
    """Asked once for each thread while the process runs, beside the way of the message."""

    def __init__(self, channels: ChannelInstances) -> None:
        self._channels = channels
        self._asked: dict[ThreadPlace, None] = {}  # the oldest first
        self._calls: set[asyncio.Task[None]] = set()

    def follow(self, instance: str, address: str, thread: str) -> None:
        place = (instance, address, thread)
        if not thread or place in self._asked or Feature.SUBSCRIBE not in self._channels.get_kind(instance).features:
            return
        channel: object = self._channels.find_channel(instance)
        if not isinstance(channel, SupportsSubscribe) or len(self._calls) >= MOST_AT_ONCE:
            return  # the next message of the thread asks again
        self._asked[place] = None
        if len(self._asked) > MOST_REMEMBERED:
            del self._asked[next(iter(self._asked))]
        call = asyncio.create_task(self._subscribe(channel, place))
        self._calls.add(call)
        call.add_done_callback(self._calls.discard)

    async def _subscribe(self, channel: SupportsSubscribe, place: ThreadPlace) -> None:
        instance, address, thread = place
        try:
            async with asyncio.timeout(LONGEST_CALL_S):
                await channel.subscribe(address, thread)
        except Exception as error:  # noqa: BLE001  part of listening: the thread is asked for with its next message
            self._asked.pop(place, None)
            _log.warning("a thread is not followed", instance=instance, address=address, error=repr(error))
