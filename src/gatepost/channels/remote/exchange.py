"""Work for the program: effects that wait, that it has taken, and their outcomes. No I/O but waiting.

An effect is given to one poll, once. Taken and not answered in time, it may have happened. Not taken in time, it
certainly has not.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from msgspec import Struct

from gatepost.channels.remote.wire import EffectKind, OutcomeStatus, PostedOutcome, render_message
from gatepost.core import ids
from gatepost.core.errors import Refused, Unavailable
from gatepost.messages.outbound import Outbound

PICKUP_S = 5.0  # an effect waits so long for a poll
HANDOVER_S = 3.0  # a program that was replaced gets so long to answer for what it has taken
MOST_WAITING = 500
MOST_AT_ONCE = 20  # in one answer
MOST_TYPING = 50


class RemoteEffect(Struct, frozen=True, kw_only=True):
    id: str
    kind: EffectKind
    address: str
    message: Outbound | None = None
    facts: dict[str, Any] = {}

    def render(self) -> dict[str, Any]:
        shown: dict[str, Any] = {"id": self.id, "kind": self.kind, "address": self.address, **self.facts}
        if self.message is not None:
            shown["message"] = render_message(self.id, self.message)
        return shown


class _Ticket:
    """An effect on its way. `taken_by`: the program that has it."""

    def __init__(self, effect: RemoteEffect) -> None:
        self.effect = effect
        self.taken_by = ""
        self.taken = asyncio.Event()
        self.outcome: asyncio.Future[PostedOutcome] = asyncio.get_running_loop().create_future()


class EffectExchange:
    def __init__(self, title: str, answer_s: float, pickup_s: float = PICKUP_S) -> None:
        self._title, self._answer_s, self._pickup_s = title, answer_s, pickup_s
        self._waiting: OrderedDict[str, _Ticket] = OrderedDict()
        self._taken: dict[str, _Ticket] = {}
        self._typing: OrderedDict[str, RemoteEffect] = OrderedDict()  # by room and thread; only the last one counts
        self._changed = asyncio.Event()

    # From the gateway.

    async def ask(
        self,
        kind: EffectKind,
        address: str,
        message: Outbound | None = None,
        facts: dict[str, Any] | None = None,
        *,
        is_effect: bool = True,
    ) -> PostedOutcome:
        """Returns what the program answered, if it did the thing or knows. `is_effect`: it changes the platform."""
        if len(self._waiting) + len(self._taken) >= MOST_WAITING:
            raise Unavailable(self._title, "too much waits for it", retry_after=1.0)
        effect = RemoteEffect(id=ids.new("fx"), kind=kind, address=address, message=message, facts=facts or {})
        ticket = self._waiting[effect.id] = _Ticket(effect)
        self.ring()
        try:
            await self._wait_until_claimed(ticket)
            return _judge(await self._wait_for_outcome(ticket, is_effect), self._title, kind)
        finally:
            self._waiting.pop(effect.id, None)
            self._taken.pop(effect.id, None)

    async def _wait_until_claimed(self, ticket: _Ticket) -> None:
        try:
            async with asyncio.timeout(self._pickup_s):
                await ticket.taken.wait()
        except TimeoutError:
            if not ticket.taken.is_set():
                raise Unavailable(self._title, "it does not ask for what is to be sent", retry_after=1.0) from None

    async def _wait_for_outcome(self, ticket: _Ticket, is_effect: bool) -> PostedOutcome:
        try:
            async with asyncio.timeout(self._answer_s):
                return await ticket.outcome
        except TimeoutError:
            why = f"it took the message and did not answer for {self._answer_s:g} s"
            raise Unavailable(self._title, why, uncertain=is_effect) from None

    def show_typing(self, address: str, thread: str, on: bool) -> None:
        """Worth nothing later, so nobody waits for it."""
        room = f"{address} {thread}"
        self._typing.pop(room, None)
        facts = {"thread": thread, "on": on}
        self._typing[room] = RemoteEffect(id=ids.new("fx"), kind=EffectKind.TYPING, address=address, facts=facts)
        if len(self._typing) > MOST_TYPING:
            self._typing.popitem(last=False)
        self.ring()

    # From the program.

    async def wait(self, is_over: Callable[[], bool]) -> None:
        """Until there is something to take, or this holds."""
        while not self._waiting and not self._typing and not is_over():
            self._changed.clear()
            await self._changed.wait()

    def claim(self, program: str) -> list[RemoteEffect]:
        """Return what waits, the oldest first. From now on it may happen."""
        found = list(self._typing.values())
        self._typing.clear()
        while self._waiting and len(found) < MOST_AT_ONCE + MOST_TYPING:
            identity, ticket = self._waiting.popitem(last=False)
            ticket.taken_by = program
            self._taken[identity] = ticket
            ticket.taken.set()
            found.append(ticket.effect)
        return found

    def settle(self, identity: str, outcome: PostedOutcome) -> bool:
        """False: nobody waits for it any more."""
        ticket = self._taken.get(identity)
        if ticket is None or ticket.outcome.done():
            return False
        ticket.outcome.set_result(outcome)
        return True

    def find_claimed(self, identity: str) -> RemoteEffect | None:
        ticket = self._taken.get(identity)
        return ticket.effect if ticket is not None else None

    def has_claimed(self, identity: str, program: str) -> bool:
        ticket = self._taken.get(identity)
        return ticket is not None and ticket.taken_by == program

    def hand_over(self, old: str) -> None:
        """Note that another program took the old one's place. Effects that the old one has taken become uncertain
        soon."""
        loop = asyncio.get_running_loop()
        for ticket in self._taken.values():
            if ticket.taken_by == old:
                loop.call_later(min(HANDOVER_S, self._answer_s), _give_up, ticket.outcome)

    def ring(self) -> None:
        """Wake all that wait, so that they look again."""
        self._changed.set()


def _give_up(outcome: asyncio.Future[PostedOutcome]) -> None:
    if not outcome.done():
        why = "the program that took it was replaced before it answered"
        outcome.set_result(PostedOutcome(status=OutcomeStatus.UNAVAILABLE, reason=why, uncertain=True))


def _judge(outcome: PostedOutcome, title: str, kind: EffectKind) -> PostedOutcome:
    if outcome.status is OutcomeStatus.UNAVAILABLE:
        after = outcome.retry_after
        raise Unavailable(
            title,
            outcome.reason or "it says so",
            retry_after=None if after is None else min(max(after, 0.0), 86400.0),
            uncertain=outcome.uncertain,
            everywhere=outcome.everywhere,
        )
    if outcome.status is OutcomeStatus.REFUSED or (
        outcome.status is OutcomeStatus.NOT_FOUND and kind is not EffectKind.LOOK_UP
    ):
        raise Refused(title, str(kind), why=outcome.reason or str(outcome.status))
    return outcome
