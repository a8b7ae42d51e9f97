"""A channel pointed at an emulated platform, without a gateway around it: for tests of an adapter alone."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any
from weakref import WeakKeyDictionary

from gatepost.channels.contract import (
    CHANNELS,
    Channel,
    ChannelCursor,
    ChannelDeps,
    ChannelPulse,
    LateFailure,
    MemoryCursor,
    NativeCommand,
    SupportsClose,
    SupportsHook,
)
from gatepost.core import registry
from gatepost.core.clock import SystemClock
from gatepost.core.process.listen_address import parse
from gatepost.core.settings import Config, Setting
from gatepost.messages.inbound import Inbound, Receipt
from gatepost.serve.http import HttpServer, bind, get_bound_address
from gatepost.serve.web.hooks import PREFIX, ChannelHooks
from gatepost_testing.platforms.base import EmulatedPlatform
from gatepost_testing.waiting import PATIENCE_S

_PLATFORMS: WeakKeyDictionary[Channel, EmulatedPlatform] = WeakKeyDictionary()  # of the channels that were made here


def make_channel(
    platform: EmulatedPlatform,
    *,
    cursor: ChannelCursor | None = None,
    secrets: dict[str, str] | None = None,
    failures: list[LateFailure] | None = None,
    commands: tuple[NativeCommand, ...] = (),
    **more: Any,
) -> tuple[Channel, ChannelDeps]:
    """The registered channel of this platform's kind. `failures`: where its late failures are put. `more`: further
    settings by their last name."""
    registry.load_package("gatepost.channels")
    kind = CHANNELS[platform.kind]
    clock = SystemClock()
    values = {f"channels.{kind.name}.{name}": value for name, value in {**platform.get_settings(), **more}.items()}
    kept = platform.get_secrets() if secrets is None else secrets

    async def read_secret(wanted: Setting[str]) -> str:
        return kept.get(wanted.name.rpartition(".")[2], "")

    async def report_failure(failure: LateFailure) -> None:
        if failures is not None:
            failures.append(failure)

    deps = ChannelDeps(
        instance=kind.name,
        config=Config(values),
        clock=clock,
        secret=read_secret,
        cursor=cursor or MemoryCursor(),
        pulse=ChannelPulse(clock),
        folder=platform.folder,
        commands=commands,
        report_failure=report_failure,
    )
    channel = kind.make(deps)
    _PLATFORMS[channel] = platform
    return channel, deps


class ReceivedEvents:
    """In the place of intake: keeps every event, once by its identity, and may be made to fail."""

    def __init__(self) -> None:
        self.events: list[Inbound] = []  # each once, in the order in which they came
        self.calls = 0  # with repeated ones
        self.error: Exception | None = None  # is raised, in the place of taking an event
        self._known: set[tuple[str, str, str]] = set()
        self._changed = asyncio.Condition()

    async def receive(self, inbound: Inbound) -> Receipt:
        self.calls += 1
        if self.error is not None:
            raise self.error
        identity = (inbound.address, inbound.platform_id, inbound.event)
        new = identity not in self._known
        if new and not inbound.own:
            self._known.add(identity)
            self.events.append(inbound)
        async with self._changed:
            self._changed.notify_all()
        return Receipt(message_id=len(self.events), new=new, state="queued" if new else "duplicate")

    async def wait_for(self, wanted: int | Callable[[list[Inbound]], bool]) -> list[Inbound]:
        """Everything, once there are so many or the predicate holds."""

        def holds() -> bool:
            return len(self.events) >= wanted if isinstance(wanted, int) else wanted(self.events)

        try:
            async with asyncio.timeout(PATIENCE_S), self._changed:
                await self._changed.wait_for(holds)
        except TimeoutError:
            raise AssertionError(f"waited in vain; received: {[each.text for each in self.events]}") from None
        return list(self.events)

    @property
    def texts(self) -> list[str]:
        return [each.text for each in self.events]


@asynccontextmanager
async def serve_hooks(channel: Channel, instance: str = "it") -> AsyncIterator[str]:
    """While the block runs, what is sent to this URL reaches the channel, as it does in a gateway."""
    listen = parse("127.0.0.1:0")
    sock = bind(listen)
    hooks = ChannelHooks({instance: channel}, Config())

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await hooks({**scope, "root_path": PREFIX}, receive, send)

    server = HttpServer(app, sock)
    running = asyncio.create_task(server.run())
    try:
        yield f"{get_bound_address(listen, sock).url}{PREFIX}/{instance}"
    finally:
        server.stop()
        async with asyncio.timeout(PATIENCE_S):
            await running


@asynccontextmanager
async def listening(channel: Channel, received: ReceivedEvents | None = None) -> AsyncIterator[ReceivedEvents]:
    """Let the channel listen while the block runs. Errors of `listen` come out of the block. A channel with a hook gets
    the requests of its platform."""
    received = received or ReceivedEvents()
    task = asyncio.create_task(channel.listen(received.receive))
    try:
        async with AsyncExitStack() as stack:
            platform = _PLATFORMS.get(channel)
            if platform is not None and isinstance(channel, SupportsHook):
                platform.hook_url = await stack.enter_async_context(serve_hooks(channel))
            yield received
    finally:
        ended = task.done() and not task.cancelled()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        if isinstance(channel, SupportsClose):
            await channel.close()
        if ended and (error := task.exception()) is not None:
            raise error
