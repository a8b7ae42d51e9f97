"""The channel itself: effects become questions to the program, and what the program posts becomes events."""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from typing import Any

from gatepost.channels.contract import CHANNELS, BotIdentity, ChannelDeps, ChannelEnded, EndReason, Receive
from gatepost.channels.kit.hooks import HookInbox
from gatepost.channels.remote import ANSWER_S, FEATURES, LARGEST_FILE, parse_features, wire
from gatepost.channels.remote.active_program import ActiveProgram, ProgramReplaced
from gatepost.channels.remote.exchange import EffectExchange, RemoteEffect
from gatepost.channels.remote.http_app import make_app
from gatepost.channels.remote.uploads import UploadStore
from gatepost.channels.remote.wire import EffectKind, OutcomeStatus, PostedOutcome
from gatepost.core.clock import SECOND
from gatepost.core.errors import Invalid, SetupError, Unavailable
from gatepost.messages.inbound import Inbound, Receipt
from gatepost.messages.outbound import MESSAGES, Outbound

GONE_S = 60.0  # without a call for so long there is no program
KIND = "remote"
RESERVED = frozenset(  # what stands before the colon of other names: senders, groups, rights
    {"agent", "all", "folder", "gatepost", "group", "hook", "mcp", "oidc", "op", "proxy", "role", "user"}
)


class RemoteProgram:
    gone_s = GONE_S

    def __init__(self, deps: ChannelDeps) -> None:
        self._deps, self.platform = deps, deps.instance
        try:
            self.features = parse_features(deps.config[FEATURES])
        except SetupError as error:
            raise ChannelEnded(
                EndReason.SETTING, str(error), f"`gatepost channel set {self.platform} --set features=…`"
            ) from None
        if self.platform in RESERVED or (self.platform != KIND and self.platform in CHANNELS):
            why = f"{self.platform!r} is the name of something else, and its people are not this program's"
            raise ChannelEnded(EndReason.SETTING, why, "give the channel another name")
        self.title = f"the program of {self.platform}"
        self.largest_file = deps.config[LARGEST_FILE]
        self.exchange = EffectExchange(self.title, deps.config[ANSWER_S])
        self.active_program = ActiveProgram(self._now, self._hand_over)
        self.uploads = UploadStore(deps.folder, self.largest_file)
        self._inbox, self._open = HookInbox(deps), AsyncExitStack()
        self._app = make_app(self)
        self._started = self._now()
        self._is_clear = False

    def _now(self) -> float:
        return self._deps.clock.monotonic() / SECOND

    async def listen(self, receive: Receive) -> None:
        if not self._is_clear:
            await self.uploads.clear()
            self._is_clear = True
        self._started = self._now()
        # It stays open when this ends: a program that comes back must not wait until the gateway listens again.
        await self._open.aclose()
        await self._open.enter_async_context(self._inbox.open(receive, skips_invalid=False))
        while (left := self._count_patience()) > 0:  # noqa: ASYNC110  nothing happens: that is what it waits for
            await asyncio.sleep(left)
        raise self._make_gone()

    async def close(self) -> None:
        await self._open.aclose()

    def _count_patience(self) -> float:
        return max(self._started, self.active_program.called_at or 0.0) + self.gone_s - self._now()

    def _make_gone(self) -> Unavailable:
        return Unavailable(self.title, f"none has called for {self.gone_s:g} s; start it with its token")

    # From the gateway.

    async def send(self, address: str, message: Outbound) -> str:
        outcome = await self._ask(EffectKind.SEND, address, message)
        if message.op in MESSAGES or outcome.platform_id:
            return self._check(wire.check_id, outcome.platform_id, "platform_id")
        return message.target or message.key

    async def look_up(self, address: str, key: str) -> str | None:
        outcome = await self._ask(EffectKind.LOOK_UP, address, facts={"key": key}, is_effect=False)
        if outcome.status is OutcomeStatus.NOT_FOUND:
            return None
        return self._check(wire.check_id, outcome.platform_id, "platform_id")

    async def typing(self, address: str, thread: str, on: bool) -> None:
        if self._count_patience() > 0:
            self.exchange.show_typing(address, thread, on)

    async def open_direct(self, sender: str) -> str:
        outcome = await self._ask(EffectKind.OPEN_DIRECT, sender, is_effect=False)
        return wire.check_address(outcome.address, self.platform, "address")

    async def subscribe(self, address: str, thread: str) -> None:
        await self._ask(EffectKind.SUBSCRIBE, address, facts={"thread": thread}, is_effect=False)

    async def check(self) -> BotIdentity:
        hint = f"`gatepost channel token {self.platform}` makes a token for the program"
        if not self.active_program.program:
            return BotIdentity(name="a program that has not called yet", notes=(hint,))
        waits = (
            "it waits for what is to be sent"
            if self.active_program.open_polls
            else "it does not ask for what is to be sent"
        )
        return BotIdentity(name=f"the program {self.active_program.program}", notes=(waits,))

    async def _ask(
        self,
        kind: EffectKind,
        address: str,
        message: Outbound | None = None,
        facts: dict[str, Any] | None = None,
        *,
        is_effect: bool = True,
    ) -> PostedOutcome:
        wire.check_address(address, self.platform, "address")
        if self._count_patience() <= 0:
            raise self._make_gone()
        return await self.exchange.ask(kind, address, message, facts, is_effect=is_effect)

    def _check(self, check: Callable[[str, str], str], text: str, field: str) -> str:
        """It happened, and nobody can name it: whether to repeat it is not ours to guess."""
        try:
            return check(text, field)
        except Invalid as error:
            raise Unavailable(self.title, f"it answered without a good {error}", uncertain=True) from None

    # From the program, by `http_app`.

    async def answer_stream(
        self,
        scope: MutableMapping[str, Any],
        receive: Callable[[], Awaitable[MutableMapping[str, Any]]],
        send: Callable[[MutableMapping[str, Any]], Awaitable[None]],
    ) -> None:
        await self._app(scope, receive, send)

    async def check_token(self, shown: str) -> bool:
        return await self._deps.check_token(shown)

    def enter(self, program: str) -> None:
        """A call of this program: evidence that it is there, unless it was replaced."""
        try:
            self.active_program.enter(program)
        except ProgramReplaced as error:
            self.record_conflict(error)
            raise
        self._deps.beat()

    def record_conflict(self, error: ProgramReplaced) -> None:
        if self._deps.pulse is not None:
            at = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
            self._deps.pulse.note = f"two programs use its token (last at {at}): {error}"

    def _hand_over(self, old: str) -> None:
        self.exchange.hand_over(old)
        self.exchange.ring()

    async def poll(self, program: str, poll: int, wait_s: float) -> list[RemoteEffect]:
        """Return what is to be done now; nothing after so long, or if a newer poll waits."""
        self.active_program.open_polls += 1
        try:
            async with asyncio.timeout(wait_s):
                await self.exchange.wait(
                    lambda: not self.active_program.is_newest(poll) or self.active_program.program != program
                )
        except TimeoutError:
            return []
        finally:
            self.active_program.open_polls -= 1
        try:
            self.active_program.check(program)
        except ProgramReplaced as error:
            self.record_conflict(error)
            raise
        return self.exchange.claim(program) if self.active_program.is_newest(poll) else []

    def begin_poll(self) -> int:
        poll = self.active_program.begin_poll()
        self.exchange.ring()
        return poll

    async def receive_event(self, event: Inbound) -> Receipt:
        return await self._inbox.receive_one(event)
