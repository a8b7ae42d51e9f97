"""Changes of requests by themselves: the next person is asked, they expire, and allowed calls run. One timer at the
earliest moment, and an event.

Decisions about a provider's request go to the sandbox that waits for them, by the gateway that runs it. One that is not
awake asks again when it is continued, and then has its answer from the store.
"""

import asyncio
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from gatepost.core import log
from gatepost.core.clock import SECOND, Clock
from gatepost.core.event_bus import EventBus
from gatepost.core.process.wake_loop import WakeLoop
from gatepost.core.settings import Config
from gatepost.flow.delivery.outgoing_messages import ChannelInstances
from gatepost.flow.intake.attachments import remove_refused
from gatepost.flow.requests.agent_questions import AgentQuestions
from gatepost.flow.requests.ask_approver import LARGEST_AT_ONCE, AskingRules, ask_next, read_rules
from gatepost.flow.requests.card_delivery import show_decision
from gatepost.flow.requests.choices import get_size
from gatepost.flow.requests.decide import expire, withdraw_crowded_out, withdraw_outdated
from gatepost.flow.requests.direct_room_opening import DirectRoomOpener
from gatepost.flow.requests.held_calls import CallGate, HeldCalls
from gatepost.flow.requests.restored_rows import ask_about_failover
from gatepost.flow.requests.unpriced_models import PriceWriter
from gatepost.store.port import Db, Store
from gatepost.store.rights import request_cards, requests, waiting_requests
from gatepost.store.rights.requests import Request, RequestState
from gatepost.store.sessions import sleeping_turns

NOT_PERMITTED = "Whoever may decide about this did not permit it."
LOOK_S = 2.0  # behind the bell
AT_ONCE = 50  # requests that one transaction moves on, fewer if their cards are long
LONGEST_WAIT_S = 60.0  # between two looks, whatever the bell says
AGAIN_S = 1.0
BESIDE_S = 10.0  # between two looks for what another gateway was told
_log = log.get("requests")


class WaitingProviders(Protocol):
    """Those whose turn waits in its sandbox for somebody's answer."""

    def list_asking(self) -> list[str]:
        """Their sessions."""

    def is_awaited(self, session_id: str, request: str) -> bool: ...

    def answer(self, session_id: str, request: str, verdict: str, given: dict[str, Any]) -> bool:
        """`given`: what it may use. False: nobody waits for it any more."""


class ProviderAnswers:
    def __init__(self, store: Store, clock: Clock, events: EventBus, providers: WaitingProviders) -> None:
        self._store, self._clock, self._events, self._providers = store, clock, events, providers
        self._loop = WakeLoop(_log.warning, "answers to providers wait for the store", pause_s=LOOK_S)
        events.on_requests(self._loop.wake)

    async def run(self) -> None:
        """Until cancelled, on each of several gateways: whoever runs the loop of requests is another one, perhaps."""
        await self._loop.run(self.send_all)

    async def send_all(self) -> None:
        """To those that wait here. Nothing is read if none does."""
        for session_id in self._providers.list_asking():
            for request in await self._store.read(sleeping_turns.list_undelivered, session_id):
                if self._providers.is_awaited(session_id, request.name):
                    await self._send(session_id, request)

    async def _send(self, session_id: str, request: Request) -> None:
        """On the disk before the provider has it: so a yes is used once, whenever the gateway dies."""
        if not await self._store.write(sleeping_turns.claim_answer, request.id, self._clock.now(), lane=session_id):
            return
        allowed = request.state is RequestState.ALLOWED
        given = request.answer if allowed else {"reason": request.reason or NOT_PERMITTED}
        if not self._providers.answer(session_id, request.name, "allow" if allowed else "deny", given):
            await self._store.write(sleeping_turns.return_answer, request.id, lane=session_id)  # it sleeps by now
            self._events.session(session_id)


class MovedRequests:
    """The bells that are to be rung once it is committed."""

    def __init__(self) -> None:
        self.rooms: set[tuple[str, str]] = set()
        self.sessions: set[str] = set()
        self.unreached: set[str] = set()  # requests about which nobody could be asked
        self.files: list[str] = []  # below the media folder, of what nobody gets
        self.more = False  # there may be others that are due


class RequestLoop:
    def __init__(
        self,
        store: Store,
        clock: Clock,
        config: Config,
        events: EventBus,
        channels: ChannelInstances,
        calls: HeldCalls,
        gate: CallGate,
        answers: ProviderAnswers,
        questions: AgentQuestions,
        media: Path | None = None,
        prices: PriceWriter | None = None,
    ) -> None:
        self._prices = prices
        self._store, self._clock, self._config, self._events, self._channels = store, clock, config, events, channels
        self._calls, self._questions, self._gate = calls, questions, gate
        self._answers, self._media = answers, media
        self._opener = DirectRoomOpener(store, clock, config, events, channels)
        self._unreached: set[str] = set()
        self._loop = WakeLoop(_log.warning, "requests wait for the store", retry_s=AGAIN_S)
        self._calls_loop = WakeLoop(_log.warning, "allowed calls wait for the store", pause_s=BESIDE_S)
        events.on_requests(self._loop.wake)
        events.on_requests(self._calls_loop.wake)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            await self._loop.run(partial(self._move_all, tasks))

    async def run_beside(self) -> None:
        """Until cancelled, on each of several gateways that have groups of their own: an allowed call may need their
        files, so it runs where they are. The rest is done by one of them, with `run`."""
        async with asyncio.TaskGroup() as tasks:
            await self._calls_loop.run(partial(self._calls.start_allowed, self._gate, tasks, placed=True))

    async def _move_all(self, tasks: asyncio.TaskGroup) -> float:
        while await self.move_due():
            pass
        unreached, self._unreached = self._unreached, set()
        self._opener.start(tasks, unreached)
        await self._answers.send_all()
        await self._questions.notify_answered()
        if self._prices is not None:
            await self._prices.write_given()
        await self._calls.start_allowed(self._gate, tasks)
        return await self._seconds_to_next()

    async def move_due(self) -> bool:
        """Ask the next person, or end what nobody decided. True if there may be more."""
        moved = await self._store.write(move_due, read_rules(self._config), self._channels, self._clock.now())
        for room in moved.rooms:
            self._events.room(*room)
        for session_id in moved.sessions:
            self._events.session(session_id)
        self._unreached.update(moved.unreached)
        if moved.files and self._media is not None:
            await asyncio.to_thread(remove_refused, self._media, moved.files)
        return moved.more

    async def _seconds_to_next(self) -> float:
        due = await self._store.read(waiting_requests.get_next_due)
        if due is None:
            return LONGEST_WAIT_S
        return min(max((due - self._clock.now()) / SECOND, 0.0), LONGEST_WAIT_S)


def move_due(db: Db, rules: AskingRules, channels: ChannelInstances, now: int) -> MovedRequests:
    moved = MovedRequests()
    room = LARGEST_AT_ONCE
    for request in waiting_requests.list_due(db, now, AT_ONCE):
        if room <= 0:
            break
        room -= get_size(request)
        _move(db, rules, channels, request, now, moved)
    outdated = request_cards.list_outdated(db, AT_ONCE)
    for request_id in outdated:
        ended = requests.get(db, request_id)
        if room <= 0:
            break
        if ended is not None:
            room -= get_size(ended)
            moved.rooms.update(show_decision(db, channels, ended, now))
    moved.more = bool(waiting_requests.list_due(db, now, 1)) or (bool(outdated) and room <= 0)
    moved.rooms.update(ask_about_failover(db, channels, rules, now))
    return moved


def _move(
    db: Db, rules: AskingRules, channels: ChannelInstances, request: Request, now: int, moved: MovedRequests
) -> None:
    decision = withdraw_outdated(db, channels, request, now) or withdraw_crowded_out(db, channels, request, now)
    if decision is None and request.expires_at is not None and request.expires_at <= now:
        decision = expire(db, channels, request, now)
    if decision is not None:
        moved.rooms.update(decision.rooms)
        moved.sessions.update(decision.wake)
        moved.files += decision.files
    else:
        asked = ask_next(db, channels, rules, request, now)
        moved.rooms.update(asked)
        if not asked:
            moved.unreached.add(request.id)
