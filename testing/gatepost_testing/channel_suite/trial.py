"""A channel on a platform, for one check: made anew for each, with what a check needs to bring things about.

A check ends by returning (pass), by FeatureMissing or CheckImpossible, or by any other exception (fail).
"""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

from gatepost.channels.contract import (
    CHANNELS,
    Channel,
    ChannelKind,
    ChannelPulse,
    MemoryCursor,
    SupportsClose,
    SupportsHook,
)
from gatepost.core.clock import SystemClock
from gatepost.core.errors import GatepostError
from gatepost.core.event_bus import EventBus
from gatepost.core.settings import Config
from gatepost.flow.delivery.content_fallback import degrade
from gatepost.flow.delivery.delivery_loop import DeliveryLoop
from gatepost.flow.delivery.outgoing_messages import ChannelInstances, OutgoingMessage, add_outgoing_message
from gatepost.messages.inbound import Inbound, Receipt, Verb
from gatepost.messages.outbound import Feature, Outbound, OutboundFile
from gatepost.store.engine.migrate import migrate
from gatepost.store.engine.sqlite_store import SqliteStore
from gatepost.store.messages import outbox
from gatepost.store.messages.outbox import EffectOrigin, OutboxEffect
from gatepost.store.port import Store
from gatepost_testing.grading import CheckImpossible, FeatureMissing
from gatepost_testing.platforms.base import EmulatedPlatform, NotOffered, PlatformFault, ShownMessage
from gatepost_testing.platforms.wiring import ReceivedEvents, make_channel, serve_hooks

ROOMS = ("team", "direct:ann")
WARM_UP = "is anybody there"  # is written until the channel receives it, and then forgotten
WARM_UP_S = 0.5
PATIENCE_S = 20.0  # a check that takes longer has failed; a real server may need more
QUICK = {"delivery.retry_base_s": 0.05, "delivery.retry_cap_s": 0.5, "delivery.look_s": 0.05}


class SuiteOutbox:
    """The real delivery in front of a channel under test: an outbox on a real store, the pump, and quick retries.

    As `OutboxHarness`, with the clock of the machine: a platform's Retry-After is really waited for.
    """

    def __init__(self, store: Store, kind: ChannelKind, channel: Channel, patience: float) -> None:
        self._store, self._kind, self._patience = store, kind, patience
        self._clock, self._events = SystemClock(), EventBus()
        self._adapters = {kind.name: channel}
        self._channels = ChannelInstances({kind.name: kind}, self._adapters)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        pump = DeliveryLoop(
            self._store, self._clock, Config(QUICK), self._adapters, self._channels, self._events, "the suite"
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
        effects = await self._store.write(add_outgoing_message, self._channels, new, self._clock.now())
        self._events.room(self._kind.name, address)
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


class SuiteEvents(ReceivedEvents):
    """Events that are received, but for the words by which the suite finds out that the channel receives."""

    warm = False
    during: Callable[[Inbound], None] | None = None  # is called before an event counts as received

    async def receive(self, inbound: Inbound) -> Receipt:
        if WARM_UP in inbound.text:
            self.warm = True
            return Receipt(message_id=0, new=True, state="queued")
        if self.during is not None:
            self.during(inbound)
        return await super().receive(inbound)


class ChannelTrial:
    def __init__(self, platform: EmulatedPlatform, folder: Path, patience: float = PATIENCE_S) -> None:
        self.platform, self.folder, self.patience = platform, folder, patience
        self.note = ""  # to a pass: what the check left out
        self.cursor = MemoryCursor()
        self.received = SuiteEvents()
        self.channel, self.deps = make_channel(platform, cursor=self.cursor)
        self.kind: ChannelKind = CHANNELS[platform.kind]
        self._keys = 0
        self._hooks = AsyncExitStack()
        self._listening: asyncio.Task[None] | None = None

    # The channel.

    def has(self, feature: Feature) -> bool:
        return feature in self.kind.features

    def receives(self, verb: Verb) -> bool:
        return verb in self.kind.verbs

    @property
    def rooms(self) -> list[str]:
        """Those of the usual rooms that the platform has."""
        found = ROOMS if self.platform.has_direct else ROOMS[:1]
        return list(found if self.platform.has_groups else found[1:])

    @property
    def room(self) -> str:
        return self.rooms[0]

    @property
    def other(self) -> str:
        """Return somebody besides ann who can act in the room; ann where nobody else is there."""
        return "bob" if self.room == "team" else "ann"

    @property
    def address(self) -> str:
        return self.platform.get_address(self.room)

    async def start(self) -> None:
        """The channel listens from now on, and is known to receive: before it has connected, some platforms would not
        bring what is written."""
        if self._listening is not None:
            return
        await self.listen()
        ends = asyncio.get_running_loop().time() + self.patience
        while not self.received.warm:
            self.write(WARM_UP)
            with suppress(TimeoutError):
                async with asyncio.timeout(WARM_UP_S):
                    while not (self.received.warm or self.has_ended):  # noqa: ASYNC110  as below
                        await asyncio.sleep(0.005)
            if self.has_ended or asyncio.get_running_loop().time() > ends:
                raise AssertionError(f"nothing is received{self._describe_end()}")

    async def listen(self) -> None:
        """The same without waiting."""
        if isinstance(self.channel, SupportsHook):
            self.platform.hook_url = await self._hooks.enter_async_context(serve_hooks(self.channel))
        self._listening = asyncio.create_task(self.channel.listen(self.received.receive))

    @property
    def pulse(self) -> ChannelPulse:
        assert self.deps.pulse is not None
        return self.deps.pulse

    async def stop(self) -> None:
        """As a kill would: what was not acknowledged is not."""
        if self._listening is not None:
            self._listening.cancel()
            await asyncio.gather(self._listening, return_exceptions=True)
            self._listening = None
        await self._hooks.aclose()

    async def restart(self) -> None:
        """Another instance of the channel, with the cursor that the one before had saved."""
        await self.stop()
        await close_channel(self.channel)
        self.channel, self.deps = make_channel(self.platform, cursor=self.cursor)
        await self.listen()

    async def close(self) -> None:
        await self.stop()
        await close_channel(self.channel)

    async def wait_for_end(self) -> BaseException | None:
        """Return what `listen` ended with."""
        assert self._listening is not None, "the channel does not listen"
        await self.until(self._listening.done, "the end of listen")
        return self._listening.exception()

    @property
    def has_ended(self) -> bool:
        return self._listening is not None and self._listening.done()

    # Actions of people, and the events of the channel.

    def write(self, text: str, **more: Any) -> str:
        """Somebody writes in the room. CheckImpossible or FeatureMissing if nobody can do that there."""
        try:
            return self.platform.send(text, **{"room": self.room, **more})
        except NotOffered:
            raise FeatureMissing("people cannot do this on the platform") from None

    def act(self, verb: Verb | None, action: Callable[..., str], *args: Any, **more: Any) -> str:
        """Somebody does another thing, which the channel receives as this verb."""
        try:
            return action(*args, **more)
        except NotOffered:
            if verb is not None and self.receives(verb):
                raise CheckImpossible(f"{verb} is declared, and nobody can do it on this platform") from None
            raise FeatureMissing("people cannot do this on the platform") from None

    async def receive_one(self, matches: Callable[[Inbound], bool], what: str) -> Inbound:
        await self.until(lambda: any(map(matches, self.received.events)), what)
        return next(each for each in self.received.events if matches(each))

    async def receive_text(self, text: str) -> Inbound:
        return await self.receive_one(lambda each: text in each.text, f"the message {text!r}")

    async def pass_marker(self, marker: str = "the marker") -> Inbound:
        """Everything that happened before has been received once this returns: each room is in order."""
        self.write(marker)
        return await self.receive_text(marker)

    async def find_event(self, verb: Verb, matches: Callable[[Inbound], bool]) -> Inbound:
        """The event if its verb is declared. FeatureMissing if it is not, and it did not come either."""
        if self.receives(verb):
            return await self.receive_one(matches, f"the event of {verb}")
        await self.pass_marker()
        assert not any(map(matches, self.received.events)), f"{verb} is received and not declared"
        raise FeatureMissing(f"{verb} is not received")

    # Actions of the bot.

    def make_message(self, **more: Any) -> Outbound:
        self._keys += 1
        return Outbound(**{"key": f"suite/{self._keys}", "text": "", **more})

    async def send(self, room: str = "", **more: Any) -> ShownMessage:
        """As the delivery hands it over, while the channel listens; what the platform then shows."""
        await self.start()
        shown = degrade(self.make_message(**more), self.kind.features, self.kind.name)
        assert shown is not None
        address = self.platform.get_address(room or self.room)
        return self.platform.find(await self.channel.send(address, shown))

    async def try_undeclared(self, **more: Any) -> None:
        """An operation that the delivery would never hand over: refused, or anything else that is no success."""
        try:
            await self.channel.send(self.address, self.make_message(**more))
        except (GatepostError, ValueError, KeyError, TypeError, AttributeError, LookupError):
            return

    def make_file(self, name: str, data: bytes = b"", *, size: int = 0, mime: str = "text/plain") -> OutboundFile:
        """On the disk. With `size` alone it has so many zeros, and takes no room."""
        path = self.folder / name
        path.write_bytes(data)
        if size:
            with path.open("r+b") as file:
                file.truncate(size)
        return OutboundFile(name=name, mime=mime, path=str(path), size=size or len(data))

    @asynccontextmanager
    async def delivery(self) -> AsyncIterator[SuiteOutbox]:
        """The real delivery, with an outbox on a real store, to this channel."""
        path = self.folder / "gatepost.db"
        path.write_bytes(await asyncio.to_thread(make_empty_store))
        store = SqliteStore(path)
        try:
            outbox = SuiteOutbox(store, self.kind, self.channel, self.patience)
            async with outbox.running():
                yield outbox
        finally:
            store.close()

    async def deliver(self, text: str, files: Sequence[OutboundFile] = ()) -> OutboxEffect:
        """One message through the real delivery, until all its parts are settled; the last of them."""
        await self.start()
        async with self.delivery() as outbox:
            keys = await outbox.send("suite/delivered", self.address, text, tuple(files))
            return [await outbox.wait_for(key) for key in keys][-1]

    def count_shown(self, text: str) -> int:
        return sum(text in each.text for each in self.platform.list_shown(self.room))

    # Faults, and waiting.

    def fault(self, *faults: PlatformFault) -> None:
        for fault in faults:
            if fault.value in self.platform.cannot:
                raise CheckImpossible(f"this platform cannot make the fault {fault.value!r}")
        try:
            self.platform.fault(*faults)
        except NotOffered:
            raise CheckImpossible(f"this platform cannot make the fault {', '.join(faults)}") from None

    @property
    def is_used(self) -> bool:
        """Return True if the single faults have happened."""
        return not self.platform.list_unused()

    def require_used(self) -> None:
        """The fault has happened. One that the platform does not know stays where it is, and nothing was tried."""
        if not self.is_used:
            left = ", ".join(self.platform.list_unused())
            self.platform.heal()
            raise CheckImpossible(f"this platform cannot make the fault {left}")

    async def until(self, holds: Callable[[], object], what: str, patience: float = 0.0) -> None:
        patience = patience or self.patience
        try:
            async with asyncio.timeout(patience):
                while not holds():  # noqa: ASYNC110  several things change it, in two threads
                    await asyncio.sleep(0.005)
        except TimeoutError:
            raise AssertionError(
                f"waited {patience:g} s in vain for {what}; received: {self.received.texts[-5:]}{self._describe_end()}"
            ) from None

    def _describe_end(self) -> str:
        done = self._listening if self._listening is not None and self._listening.done() else None
        if done is None or done.cancelled():
            return ""
        return f"; listen ended with {done.exception()!r}"


@cache
def make_empty_store() -> bytes:
    """Migrated once by a process."""
    with tempfile.TemporaryDirectory(prefix="gatepost-suite-") as folder:
        path = Path(folder, "gatepost.db")
        migrate(path, SystemClock())
        return path.read_bytes()


async def close_channel(channel: Channel) -> None:
    if isinstance(channel, SupportsClose):
        await channel.close()


@asynccontextmanager
async def trying(make_platform: Callable[[], EmulatedPlatform], patience: float) -> AsyncIterator[ChannelTrial]:
    """A platform, a channel and a folder for one check."""
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="gatepost-suite-")))
        platform = make_platform()
        await asyncio.to_thread(platform.start)
        stack.push_async_callback(asyncio.to_thread, platform.stop)
        trial = ChannelTrial(platform, folder, patience)
        stack.push_async_callback(trial.close)
        yield trial
