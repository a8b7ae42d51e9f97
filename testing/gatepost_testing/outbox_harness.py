"""A post office for tests: an outbox on a real store, the pump, and channels of the test's own, without a gateway.

post = Post(store, {"fake": channel})
async with post.running():
    await post.say("k1", "hello")
    assert (await post.ended("k1")).state == "sent"
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Protocol

from gatepost.channels.contract import Channel, ChannelKind
from gatepost.core.event_bus import EventBus
from gatepost.core.settings import Config
from gatepost.flow.delivery.delivery_loop import DeliveryLoop
from gatepost.flow.delivery.outgoing_messages import ChannelInstances, OutgoingMessage, add_outgoing_message
from gatepost.messages.outbound import Op, OutboundFile
from gatepost.store.messages import mailbox_rows, outbox
from gatepost.store.messages.inbox import InboxMode
from gatepost.store.messages.mailbox_rows import ProjectionLimits
from gatepost.store.messages.outbox import EffectOrigin, NewEffect, OutboxEffect
from gatepost.store.port import Db, Store
from gatepost.store.sessions import groups, sessions
from gatepost.store.sessions.sessions import Session, SessionMode
from gatepost_testing.clock import FixedClock
from gatepost_testing.waiting import PATIENCE_S

ROOM = "fake:room/1"


class ChannelWithKind(Channel, Protocol):
    """A channel that knows its own kind, as `FakeChannel` does."""

    @property
    def kind(self) -> ChannelKind: ...


class OutboxHarness:
    def __init__(
        self, store: Store, adapters: Mapping[str, ChannelWithKind], settings: Mapping[str, Any] | None = None
    ) -> None:
        self.store, self.adapters, self.config = store, adapters, Config(settings)
        self.clock, self.events = FixedClock(), EventBus()

    @property
    def channels(self) -> ChannelInstances:
        return ChannelInstances({name: channel.kind for name, channel in self.adapters.items()})

    def pump(self, owner: str = "this run") -> DeliveryLoop:
        return DeliveryLoop(self.store, self.clock, self.config, self.adapters, self.channels, self.events, owner)

    @asynccontextmanager
    async def running(self, pump: DeliveryLoop | None = None) -> AsyncIterator[DeliveryLoop]:
        pump = pump or self.pump()
        task = asyncio.create_task(pump.run())
        try:
            yield pump
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def say(
        self,
        key: str,
        text: str,
        *,
        instance: str = "fake",
        address: str = ROOM,
        origin: EffectOrigin = EffectOrigin.TOOL,
        session: Session | None = None,
        reply_to_id: int | None = None,
        files: tuple[OutboundFile, ...] = (),
    ) -> list[OutboxEffect]:
        """Commit it and ring, as a tool or a turn would."""
        new = OutgoingMessage(
            key=key,
            origin=origin,
            instance=instance,
            address=address,
            text=text,
            folder=session.folder if session else "",
            session_id=session.id if session else None,
            reply_to_id=reply_to_id,
            files=files,
        )
        effects = await self.store.write(add_outgoing_message, self.channels, new, self.clock.now())
        self.events.room(instance, address)
        return effects

    async def do(
        self,
        key: str,
        op: Op,
        target_id: int | None,
        payload: dict[str, Any],
        *,
        origin: EffectOrigin = EffectOrigin.TOOL,
    ) -> OutboxEffect:
        """Any other operation, in the main room."""
        new = NewEffect(
            key=key, op=op, origin=origin, instance="fake", address=ROOM, target_id=target_id, payload=payload
        )
        effect = await self.store.write(outbox.add, new, self.clock.now())
        self.events.room("fake", ROOM)
        return effect

    async def row(self, key: str) -> OutboxEffect:
        effect = await self.store.read(outbox.find_by_key, key)
        assert effect is not None, f"no effect has the key {key!r}"
        return effect

    async def until(self, key: str, holds: Callable[[OutboxEffect], bool]) -> OutboxEffect:
        """The row of that key, once this holds of it."""
        async with asyncio.timeout(PATIENCE_S):
            while not holds(effect := await self.row(key)):  # noqa: ASYNC110  nobody rings for a row
                await asyncio.sleep(0.005)
        return effect

    async def ended(self, key: str) -> OutboxEffect:
        return await self.until(key, lambda effect: effect.state in outbox.END)

    async def tried(self, key: str, times: int) -> OutboxEffect:
        """The row, once so many tries of it are recorded."""
        return await self.until(key, lambda effect: effect.tries >= times)

    def advance(self, by_s: float, address: str = ROOM) -> None:
        """Time passes, and the room's bell is heard."""
        self.clock.advance(by_s)
        self.events.room("fake", address)

    async def session(self, folder: str = "home") -> Session:
        def make(db: Db, now: int) -> Session:
            groups.add(db, folder, folder, "", now)
            return sessions.find_or_add(db, SessionMode.PER_THREAD, folder, "fake", ROOM, "", now)

        return await self.store.write(make, self.clock.now())

    async def list_context(self, session: Session) -> list[dict[str, Any]]:
        """Return what the agent will read as context at its next turn."""
        found = await self.store.read(
            mailbox_rows.list_to_project, session.id, ProjectionLimits(50, 10_000, 50, 10_000)
        )
        return [message.content for entry, message in found.pairs if entry.mode == InboxMode.OBSERVE]
