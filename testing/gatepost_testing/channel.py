"""A channel that behaves as badly as a test wants. Registered nowhere: a test makes one and gives it to what it tests.

channel = FakeChannel()
channel.script(Fault.LOSE, Fault.TIMEOUT_AFTER, Fault.NONE)     # one fault per send, then none
await channel.say("hello")                                      # somebody writes
(sent,) = await channel.wait_for(1)                             # what people can see
"""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import count

from msgspec import Struct

from gatepost.channels.contract import Channel, ChannelDeps, ChannelKind, ChannelPace, Receive
from gatepost.core.errors import GatepostError, Refused, Unavailable, Unsupported
from gatepost.messages.inbound import CLICK, Attachment, Inbound, Quote, Receipt, Verb
from gatepost.messages.outbound import NEEDS, Feature, Op, Outbound
from gatepost_testing.waiting import PATIENCE_S

EVERYTHING = frozenset(Feature) - {Feature.CARDS, Feature.KEYED}


class SendFault(StrEnum):
    """A fault of one send."""

    NONE = "none"
    LOSE = "lose"  # says that it was sent, and nobody ever sees it
    DELAY = "delay"  # waits for `release`
    REFUSE = "refuse"  # no, and never
    UNAVAILABLE = "unavailable"  # not now, and it did not happen
    UNCERTAIN = "uncertain"  # not known: it did happen
    UNCERTAIN_LOST = "uncertain-lost"  # not known: it did not happen
    TIMEOUT_AFTER = "timeout-after"  # it happens, and no answer ever comes
    BREAK = "break"  # a mistake in the adapter


class SentMessage(Struct, frozen=True):
    """An effect that people on the platform can see."""

    address: str
    message: Outbound
    platform_id: str


@dataclass(slots=True)
class FaultPlan:
    """Faults, in order, and for how long the platform asks us to wait."""

    faults: deque[SendFault] = field(default_factory=deque)
    always: SendFault = SendFault.NONE
    retry_after: float | None = None
    everywhere: bool = False  # in all rooms


class FakeChannel:
    """Sees everything, forgets nothing, and fails on request."""

    def __init__(
        self,
        deps: ChannelDeps | None = None,
        *,
        features: frozenset[Feature] = EVERYTHING,
        platform: str = "fake",
        max_text: int = 0,
        own_names: frozenset[str] = frozenset(),
        pace: ChannelPace | None = None,
    ) -> None:
        self.instance = deps.instance if deps else platform
        self.platform, self.features, self.max_text, self.own_names = platform, features, max_text, own_names
        self.pace = pace or ChannelPace()
        self.sent: list[SentMessage] = []
        self.tried: list[tuple[str, Outbound]] = []  # every call of `send`, whatever came of it
        self.looked_up: list[str] = []
        self.typed: list[tuple[str, str, bool]] = []
        self.marked: list[tuple[str, str]] = []  # room and message, in their order
        self.receipts: list[Receipt] = []
        self._plan = FaultPlan()
        self._by_key: dict[tuple[str, str], str] = {}
        self._ids = count(1)
        self._receive: Receive | None = None
        self._listening = asyncio.Event()
        self._released = asyncio.Event()
        self._changed = asyncio.Condition()

    @property
    def kind(self) -> ChannelKind:
        """As if it were registered: for `ChannelInstances`, or for a registry of a test's own."""

        def make(deps: ChannelDeps) -> Channel:
            self.instance = deps.instance
            return self

        return ChannelKind(
            name=self.platform, make=make, features=self.features, max_text=self.max_text, pace=self.pace
        )

    # Faults.

    def script(
        self,
        *faults: SendFault,
        then: SendFault = SendFault.NONE,
        retry_after: float | None = None,
        everywhere: bool = False,
    ) -> None:
        """One fault for each of the next sends, and `then` for all that follow."""
        self._plan = FaultPlan(deque(faults), then, retry_after, everywhere)

    def release(self) -> None:
        """Let go of what `SendFault.DELAY` holds, now and from here on."""
        self._released.set()

    # Actions of people.

    async def say(
        self,
        text: str,
        *,
        address: str = "",
        sender: str = "",
        platform_id: str = "",
        thread: str = "",
        verb: Verb = Verb.MESSAGE,
        event: str = "message",
        direct: bool = False,
        reply_to: Quote | None = None,
        attachments: tuple[Attachment, ...] = (),
        times: int = 1,
    ) -> Receipt:
        """Somebody writes; returns when it is durable. `times=2`: the platform delivers it twice."""
        await self._until_listening()
        assert self._receive is not None
        inbound = Inbound(
            address=address or f"{self.platform}:room/1",
            platform_id=platform_id or f"in-{next(self._ids)}",
            sender=sender or f"{self.platform}:user/1",
            sender_name=(sender or "someone").rpartition("/")[2],
            text=text,
            thread=thread,
            verb=verb,
            event=event,
            direct=direct,
            reply_to=reply_to,
            attachments=attachments,
        )
        got = [await self._receive(inbound) for _ in range(max(times, 1))]
        self.receipts += got
        return got[0]

    async def click(self, button: str, *, address: str = "", sender: str = "") -> Receipt:
        """Somebody presses a button of a card."""
        await self._until_listening()
        assert self._receive is not None
        inbound = Inbound(
            address=address or f"{self.platform}:room/1",
            platform_id=f"click-{next(self._ids)}",
            sender=sender or f"{self.platform}:user/1",
            text="",
            event=CLICK,
            click=button,
            direct=True,
        )
        return await self._receive(inbound)

    async def _until_listening(self) -> None:
        async with asyncio.timeout(PATIENCE_S):
            await self._listening.wait()

    async def wait_for(
        self, wanted: int | Callable[[list[SentMessage]], bool], timeout: float = PATIENCE_S
    ) -> list[SentMessage]:
        """Everything sent, once there are so many of them or the predicate holds of them."""

        def there() -> bool:
            return len(self.sent) >= wanted if isinstance(wanted, int) else wanted(self.sent)

        try:
            async with asyncio.timeout(timeout), self._changed:
                await self._changed.wait_for(there)
        except TimeoutError:
            texts = [sent.message.text for sent in self.sent]
            raise AssertionError(f"waited {timeout:g} s in vain; sent so far: {texts}") from None
        return list(self.sent)

    def pinned(self, address: str) -> list[str]:
        """The platform ids that are pinned in a room, in the order in which they were."""
        pins: dict[str, None] = {}
        for sent in self.sent:
            if sent.address == address and sent.message.op is Op.PIN:
                pins[sent.message.target] = None
            elif sent.address == address and sent.message.op is Op.UNPIN:
                pins.pop(sent.message.target, None)
            elif sent.address == address and sent.message.op is Op.UNPIN_ALL:
                pins.clear()
        return list(pins)

    def texts(self, address: str = "") -> list[str]:
        """Return what can be read in a room ('' for all), in order; edits not applied."""
        return [sent.message.text for sent in self.sent if address in ("", sent.address)]

    # The channel.

    async def listen(self, receive: Receive) -> None:
        self._receive = receive
        self._listening.set()
        try:
            await asyncio.Event().wait()
        finally:
            self._listening.clear()
            self._receive = None

    async def send(self, address: str, message: Outbound) -> str:
        self.tried.append((address, message))
        await self._notify()
        needed = Feature.VOICE if message.op is Op.VOICE else NEEDS.get(message.op)
        if needed is not None and needed not in self.features:
            raise Unsupported(message.op, self.platform, "use send")
        fault = self._plan.faults.popleft() if self._plan.faults else self._plan.always
        if fault is SendFault.DELAY:
            await self._released.wait()
        elif fault in (SendFault.REFUSE, SendFault.UNAVAILABLE, SendFault.UNCERTAIN_LOST):
            raise self._error(fault)
        elif fault is SendFault.BREAK:
            raise RuntimeError("a mistake in the adapter")
        elif fault is SendFault.LOSE:
            return f"lost-{next(self._ids)}"
        platform_id = await self._happen(address, message)
        if fault is SendFault.UNCERTAIN:
            raise self._error(fault)
        if fault is SendFault.TIMEOUT_AFTER:
            await asyncio.Event().wait()
        return platform_id

    async def look_up(self, address: str, key: str) -> str | None:
        self.looked_up.append(key)
        return self._by_key.get((address, key))

    async def typing(self, address: str, thread: str, on: bool) -> None:
        self.typed.append((address, thread, on))
        await self._notify()

    async def mark_read(self, address: str, thread: str, messages: tuple[str, ...]) -> None:
        self.marked += [(address, message) for message in messages]
        await self._notify()

    def _error(self, fault: SendFault) -> GatepostError:
        if fault is SendFault.REFUSE:
            return Refused(self.platform, "write", "this room")
        uncertain = fault is not SendFault.UNAVAILABLE
        return Unavailable(
            self.platform,
            "as scripted",
            retry_after=self._plan.retry_after,
            uncertain=uncertain,
            everywhere=self._plan.everywhere,
        )

    async def _happen(self, address: str, message: Outbound) -> str:
        known = self._by_key.get((address, message.key))
        if known is not None and Feature.KEYED in self.features:
            return known
        platform_id = f"out-{next(self._ids)}"
        self._by_key[(address, message.key)] = platform_id
        self.sent.append(SentMessage(address, message, platform_id))
        await self._notify()
        return platform_id

    async def _notify(self) -> None:
        async with self._changed:
            self._changed.notify_all()
