"""Listening: keeps a channel's `listen` running, with the cursor that says how far it got. One of the three loops that
must not die.
"""

import asyncio
from collections.abc import Callable

from gatepost.channels.contract import PULSE, Channel, ChannelEnded, Receive
from gatepost.core import log
from gatepost.core.clock import Clock
from gatepost.flow.channel_health import ChannelHealth, render_trouble
from gatepost.messages.inbound import Inbound, Receipt
from gatepost.store.port import Store
from gatepost.store.rooms import channel_cursors

LOOKS = 5  # at the pulse, in the time after which a silent channel is deaf
END_S = 2.0  # a listen that was cancelled gets so long to end

_log = log.get("listening")


class StoreCursor:
    """A channel's cursor, kept in the store.

    If a save is lost, the platform brings something again, which intake knows by its identity. So a save waits for
    nothing, unless the channel says that it must.
    """

    def __init__(self, store: Store, clock: Clock, instance: str, get_term: Callable[[], int]) -> None:
        self._store, self._clock, self._instance = store, clock, instance
        self._get_term = get_term
        self._lane = f"channel {instance}"

    @property
    def term(self) -> int:
        return self._get_term()

    async def load(self, name: str = "") -> str:
        """In the lane of the saves: one that is still to be written is written before."""
        row = await self._store.write(channel_cursors.get, self._instance, name, durable=False, lane=self._lane)
        return row.received if row is not None else ""

    async def save(self, value: str, name: str = "", *, acknowledged: bool = False, durable: bool = False) -> None:
        row = (self._instance, name, value, acknowledged, self._clock.now())
        if durable:
            await self._store.write(channel_cursors.put, *row, lane=self._lane)
        else:
            self._store.post(channel_cursors.put, *row, lane=self._lane)

    async def update(self, change: Callable[[str], str], name: str = "", *, durable: bool = False) -> str:
        asked = (self._instance, name, change, self._clock.now())
        return await self._store.write(channel_cursors.update, *asked, durable=durable, lane=self._lane)


class _Deaf(Exception):
    """It listens and receives nothing."""


async def run_channel(channel: Channel, health: ChannelHealth, receive: Receive) -> None:
    """Listen until cancelled, or until the channel has ended for good. One that breaks or is deaf is started again,
    later each time; one that returns is done."""

    async def receive_event(inbound: Inbound) -> Receipt:
        receipt = await receive(inbound)
        health.record_event()
        return receipt

    PULSE.set(health.pulse)  # for this task, and all that it starts
    wait = 0.0
    while True:
        health.begin()
        try:
            await _listen(channel, health, receive_event)
            return
        except ChannelEnded as error:
            record_end(health, error)
            return
        except _Deaf:
            wait = health.next_wait(wait)
            health.record_deaf(wait)
            _log.warning("a channel is deaf and is started again", channel=health.instance, wait_s=wait)
        except Exception as error:  # noqa: BLE001  whatever a platform's library raises, the others go on
            wait = health.next_wait(wait)
            health.record_break(str(error) or repr(error), wait)
            shown = health.scrub(repr(error))
            _log.error("a channel broke and is started again", channel=health.instance, error=shown, wait_s=wait)
        await asyncio.sleep(wait)


def record_end(health: ChannelHealth, error: Exception) -> None:
    health.record_end(error)
    _log.error("a channel has ended", channel=health.instance, trouble=render_trouble(health.report()))


async def _listen(channel: Channel, health: ChannelHealth, receive: Receive) -> None:
    """Listen, watched if the channel gives evidence that it receives."""
    if not health.deaf_after_s:
        return await channel.listen(receive)
    listening = asyncio.create_task(channel.listen(receive))
    try:
        while not listening.done():
            await asyncio.wait({listening}, timeout=health.deaf_after_s / LOOKS)
            if not listening.done() and health.is_deaf():
                raise _Deaf
        return listening.result()
    finally:
        listening.cancel()
        _, left = await asyncio.wait({listening}, timeout=END_S)
        if left:
            _log.error("a channel does not stop listening", channel=health.instance)
