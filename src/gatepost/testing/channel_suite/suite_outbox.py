"""The real delivery in front of a channel under test: an outbox on a real store, the pump, and quick retries.

As `OutboxHarness`, with the clock of the machine: a platform's Retry-After is really waited for.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from gatepost.channels.contract import Channel, ChannelKind
from gatepost.core.clock import SystemClock
from gatepost.core.event_bus import EventBus
from gatepost.core.settings import Config
from gatepost.flow.delivery.delivery_loop import DeliveryLoop
from gatepost.flow.delivery.outgoing_messages import ChannelInstances, OutgoingMessage, add_outgoing_message
from gatepost.messages.outbound import OutboundFile
from gatepost.store import outbox
from gatepost.store.outbox import EffectOrigin, OutboxEffect
from gatepost.store.port import Store

QUICK = {"delivery.retry_base_s": 0.05, "delivery.retry_cap_s": 0.5, "delivery.look_s": 0.05}


class SuiteOutbox:
    def __init__(self, store: Store, kind: ChannelKind, channel: Channel, patience: float) -> None:
        self._store, self._kind, self._patience = store, kind, patience
        self._clock, self._bells = SystemClock(), EventBus()
        self._channels = {kind.name: channel}
        self._reach = ChannelInstances({kind.name: kind}, self._channels)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        pump = DeliveryLoop(
            self._store, self._clock, Config(QUICK), self._channels, self._reach, self._bells, "the suite"
        )
        task = asyncio.create_task(pump.run())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def send(self, key: str, address: str, text: str, files: tuple[OutboundFile, ...] = ()) -> list[str]:
        """Commit it and ring, as a tool or a turn would; the keys of its parts."""
        new = OutgoingMessage(
            key=key, origin=EffectOrigin.TOOL, instance=self._kind.name, address=address, text=text, files=files
        )
        effects = await self._store.write(add_outgoing_message, self._reach, new, self._clock.now())
        self._bells.room(self._kind.name, address)
        return [effect.key for effect in effects]

    async def wait_for(self, key: str) -> OutboxEffect:
        """The effect, once it is settled."""
        try:
            async with asyncio.timeout(self._patience):
                while (effect := await self._get(key)).state not in outbox.END:  # noqa: ASYNC110  nobody rings
                    await asyncio.sleep(0.005)
        except TimeoutError:
            effect = await self._get(key)
            raise AssertionError(f"the effect {key} is still {effect.state} ({effect.reason or 'no reason'})") from None
        return effect

    async def _get(self, key: str) -> OutboxEffect:
        effect = await self._store.read(outbox.find_by_key, key)
        assert effect is not None, f"no effect has the key {key!r}"
        return effect
