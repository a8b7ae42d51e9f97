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
from gatepost.core.bells import Bells
from gatepost.core.settings import Config
from gatepost.flow.delivery.outgoing import Reach, Say, say
from gatepost.flow.delivery.pump import Pump
from gatepost.messages.outbound import File
from gatepost.store import groups, inbox, outbox, sessions
from gatepost.store.outbox import Effect, NewEffect
from gatepost.store.port import Db, Store
from gatepost.store.sessions import Session
from gatepost.testing.clock import FixedClock

ROOM = "fake:room/1"


class Kinded(Channel, Protocol):
    """A channel that knows its own kind, as `FakeChannel` does."""

    @property
    def kind(self) -> ChannelKind: ...


class Post:
    def __init__(self, store: Store, channels: Mapping[str, Kinded], settings: Mapping[str, Any] | None = None) -> None:
        self.store, self.channels, self.config = store, channels, Config(settings)
        self.clock, self.bells = FixedClock(), Bells()

    @property
    def reach(self) -> Reach:
        return Reach({name: channel.kind for name, channel in self.channels.items()})

    def pump(self, owner: str = "this run") -> Pump:
        return Pump(self.store, self.clock, self.config, self.channels, self.reach, self.bells, owner)

    @asynccontextmanager
    async def running(self, pump: Pump | None = None) -> AsyncIterator[Pump]:
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
        origin: str = "tool",
        session: Session | None = None,
        reply_to_id: int | None = None,
        files: tuple[File, ...] = (),
    ) -> list[Effect]:
        """Commit it and ring, as a tool or a turn would."""
        new = Say(
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
        effects = await self.store.write(say, self.reach, new, self.clock.now())
        self.bells.room(instance, address)
        return effects

    async def do(
        self, key: str, op: str, target_id: int | None, payload: dict[str, Any], *, origin: str = "tool"
    ) -> Effect:
        """Any other operation, in the main room."""
        new = NewEffect(
            key=key, op=op, origin=origin, instance="fake", address=ROOM, target_id=target_id, payload=payload
        )
        effect = await self.store.write(outbox.add, new, self.clock.now())
        self.bells.room("fake", ROOM)
        return effect

    async def row(self, key: str) -> Effect:
        effect = await self.store.read(outbox.by_key, key)
        assert effect is not None, f"no effect has the key {key!r}"
        return effect

    async def until(self, key: str, holds: Callable[[Effect], bool]) -> Effect:
        """The row of that key, once this holds of it."""
        async with asyncio.timeout(10):
            while not holds(effect := await self.row(key)):  # noqa: ASYNC110  nobody rings for a row
                await asyncio.sleep(0.005)
        return effect

    async def ended(self, key: str) -> Effect:
        return await self.until(key, lambda effect: effect.state in outbox.END)

    async def tried(self, key: str, times: int) -> Effect:
        """The row, once so many tries of it are recorded."""
        return await self.until(key, lambda effect: effect.tries >= times)

    def later(self, by_s: float, address: str = ROOM) -> None:
        """Time passes, and the room's bell is heard."""
        self.clock.advance(by_s)
        self.bells.room("fake", address)

    async def session(self, folder: str = "home") -> Session:
        def make(db: Db, now: int) -> Session:
            groups.add(db, folder, folder, "", now)
            return sessions.resolve(db, "per-thread", folder, "fake", ROOM, "", now)

        return await self.store.write(make, self.clock.now())

    async def told(self, session: Session) -> list[dict[str, Any]]:
        """What the agent will read as context at its next turn."""
        pairs = await self.store.read(inbox.to_project, session.id, 50)
        return [message.content for entry, message in pairs if entry.mode == "observe"]
