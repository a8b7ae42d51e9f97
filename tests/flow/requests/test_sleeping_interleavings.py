"""Whatever happens in whichever order to turns that wait for people, a yes is used at most once, and no turn is left
sleeping. Steps: ask, answer, time that passes (the next person is asked, requests expire), answers that are passed on,
turns that fall asleep and go on, kills within a transaction, restarts."""

import random
from collections import Counter
from typing import Any

import pytest
from tests.flow.requests.killed_writes import write_or_end
from tests.flow.requests.test_asking_and_deciding import ADA, BOB, CHANNELS, EVE, NOON
from tests.flow.requests.test_interleavings import RULES, settle_people

from gatepost.core.clock import MINUTE, SECOND
from gatepost.flow.requests.choices import list_choices
from gatepost.flow.requests.decide import decide
from gatepost.flow.requests.request_loop import move_due
from gatepost.flow.sessions.runner import permissions
from gatepost.flow.sessions.runner.permissions import ChatAsking
from gatepost.mailbox.runner_frames import EventFrame, PermissionAnswerFrame
from gatepost.store.engine.sqlite_store import SqliteStore
from gatepost.store.messages import inbox, messages
from gatepost.store.port import Db
from gatepost.store.rights import request_cards, requests, waiting_requests
from gatepost.store.rights.requests import Request, RequestState
from gatepost.store.sessions import due_sessions, sessions, sleeping_turns, turn_claims, turn_failures, turns
from gatepost.store.sessions.turn_failures import FailureCause, TurnRetryPolicy
from gatepost.store.sessions.turns import Turn, TurnState

STEPS, WISHES = 120, 3
CHAT = ChatAsking(CHANNELS, RULES)
POLICY = TurnRetryPolicy()


class AskingAgent:
    """A session whose agent wants a few commands in each turn, one after another, and asks before each. What it has
    done is in its conversation, which outlives everything; what it waits for is in memory and does not."""

    def __init__(self, store: SqliteStore, chance: random.Random, session_id: str) -> None:
        self.store, self.chance, self.session_id = store, chance, session_id
        self.now, self.named, self.sent = NOON, 0, 0
        self.turn: Turn | None = None  # in this sandbox
        self.awaited = ""  # the name of what it waits for
        self.done: Counter[str] = Counter()  # commands of each turn that are over: run, or not permitted
        self.runs: Counter[str] = Counter()  # by request
        self.lost: set[str] = set()  # passed on, and nobody knows whether they ran

    # What happens.

    async def send(self) -> None:
        """Somebody writes to it."""
        self.sent += 1
        await self._write(self._enqueue, self.sent)

    def _enqueue(self, db: Db, number: int) -> None:
        session = sessions.get(db, self.session_id)
        assert session is not None
        message_id = messages.add_system(db, session, f"m{number}", {"event": "test"}, self.now)
        if message_id is not None:
            inbox.enqueue(db, message_id, session.id, session.folder, "member", self.now)

    async def wake(self) -> None:
        """A sandbox claims what is due."""
        if self.turn is None:
            claim = await self._write(self._claim)
            self.turn = claim.turn if claim is not None else None

    def _claim(self, db: Db) -> turn_claims.TurnClaim | None:
        claim = turn_claims.claim(db, self.session_id, "scripted", "me", self.now, MINUTE, 1, ready=True)
        if claim is not None and claim.turn.state is not TurnState.BEGUN:
            turns.begin(db, claim.turn.id, claim.turn.epoch, claim.rows, self.now)
        return claim

    async def ask(self) -> None:
        """It asks for the next command that it wants, under a name that no process used before; or it is done."""
        turn = self.turn
        if turn is None or self.awaited:
            return
        if self.done[turn.id] == WISHES:
            if await self._write(turns.finish, turn.id, turn.epoch, "{}", self.now):
                self.turn = None
            return
        self.named += 1
        name = f"use-{self.named}"
        data = {"id": name, "tool": "Bash", "input": {"command": str(self.done[turn.id])}}
        recorded = await self._write(self._record, turn, EventFrame(turn=turn.id, kind="permission", data=data))
        if recorded is None:
            return
        if recorded.answer is None:
            self.awaited = name
        else:
            await self._use(turn, name, recorded.answer)

    def _record(self, db: Db, turn: Turn, event: EventFrame) -> permissions.RecordedPermission:
        session = sessions.get(db, self.session_id)
        assert session is not None
        return permissions.record_request(db, session, turn, event, self.now, (), CHAT)

    async def _use(self, turn: Turn, name: str, answer: PermissionAnswerFrame) -> None:
        """The sandbox has the answer. Killed now, what was allowed may have run or not, and only it knew."""
        request = await self._find(turn, name)
        if answer.verdict == "allow" and self.chance.random() < 0.1:
            self.lost.add(request.id)
            await self.restart()
            return
        if answer.verdict == "allow":
            self.runs[request.id] += 1
        self.done[turn.id] += 1
        self.awaited = ""

    async def deliver(self) -> None:
        """As the loop of requests: claimed on the disk, then passed on."""
        turn = self.turn
        if turn is None or not self.awaited:
            return
        for request in await self.store.read(sleeping_turns.list_undelivered, self.session_id):
            if request.name == self.awaited and await self._write(sleeping_turns.claim_answer, request.id, self.now):
                verdict = "allow" if request.state is RequestState.ALLOWED else "deny"
                await self._use(turn, request.name, PermissionAnswerFrame(request.name, verdict, {}))
                return

    async def sleep(self) -> None:
        """It has waited for long enough."""
        turn = self.turn
        if turn is not None and self.awaited:
            slept = await self._write(turn_failures.record_sleep, turn.id, turn.epoch, POLICY, self.now)
            if slept is not None:
                self.turn, self.awaited = None, ""

    async def restart(self) -> None:
        """The gateway is killed and started anew."""
        self.turn, self.awaited = None, ""
        await self.store.write(self._recover)

    def _recover(self, db: Db) -> None:
        sleeping_turns.defer_sleeping(db, self.now)
        for turn in turns.list_open(db):
            if turn.state is not TurnState.INTERRUPTED:
                cause = FailureCause(reason="restarted", counts_as_failure=False, keeps_continuation=True)
                turn_failures.record_failure(db, turn.id, turn.epoch, cause, POLICY, self.now)

    async def answer(self) -> None:
        """Anybody presses anything, of any request there ever was."""
        known = await self.store.read(list_every)
        if known:
            request, by = self.chance.choice(known), self.chance.choice((ADA, BOB, EVE))
            choice = self.chance.choice(list_choices(request))
            await self._write(decide, CHANNELS, request.id, choice, by, self.now)

    async def pass_time(self) -> None:
        self.now += self.chance.choice((1, 30, 61, 300)) * SECOND
        await self._write(move_due, RULES, CHANNELS, self.now)

    async def _find(self, turn: Turn, name: str) -> Request:
        found = [each for each in await self.store.read(list_every) if (each.turn_id, each.name) == (turn.id, name)]
        return found[-1]

    async def _write(self, fn: Any, *given: Any) -> Any:
        """Killed within its transaction now and then: nothing of it stays, and the gateway starts anew."""
        killed = self.chance.random() < 0.05
        done = await write_or_end(self.store, killed, fn, *given)
        if killed:
            await self.restart()
        return done


def list_every(db: Db) -> list[Request]:
    return requests.REQUESTS.list(db, "ORDER BY id")


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
async def test_a_yes_is_used_at_most_once_and_no_turn_is_left_sleeping(store: SqliteStore, seed: int) -> None:
    chance = random.Random(seed)
    agent = AskingAgent(store, chance, await store.write(settle_people))
    often = {agent.send: 1, agent.wake: 4, agent.ask: 4, agent.deliver: 2, agent.sleep: 3, agent.answer: 2}
    often |= {agent.pass_time: 1, agent.restart: 1}
    slept = 0
    for step in chance.choices(list(often), list(often.values()), k=STEPS):
        await step()
        slept += sum(each.error == sleeping_turns.ASLEEP for each in await store.read(turns.list_open))
    for _ in range(400):  # nobody answers any more, until it is quiet
        for step in (agent.pass_time, agent.wake, agent.ask, agent.deliver):
            await step()
        if not await store.read(turns.list_open) and not await store.read(due_sessions.list_waiting_sessions):
            break

    every = await store.read(list_every)
    assert every and slept
    assert await store.read(turns.list_open) == []
    assert {each.state for each in every} <= set(RequestState) - {RequestState.PENDING}
    assert all(each.settled_at is not None and each.notified_at is not None for each in every)
    allowed = {each.id for each in every if each.state is RequestState.ALLOWED}
    assert set(agent.runs) <= allowed and set(agent.runs.values()) <= {1}
    assert allowed == set(agent.runs) | agent.lost  # exactly once, but for what died with its sandbox
    assert not set(agent.runs) & agent.lost
    assert not await store.read(request_cards.has_open)
    assert all(EVE not in each.answered_by for each in every)


async def test_the_next_person_is_asked_while_a_turn_sleeps_and_their_answer_wakes_it(store: SqliteStore) -> None:
    agent = AskingAgent(store, random.Random(1), await store.write(settle_people))
    agent.chance.random = lambda: 1.0  # type: ignore[method-assign]  # nobody is killed here
    await agent.send()
    await agent.wake()
    await agent.ask()
    await agent.sleep()
    agent.now += RULES.escalate
    await store.write(move_due, RULES, CHANNELS, agent.now)
    (request,) = await store.read(waiting_requests.list_pending)
    cards = await store.read(request_cards.list_for_request, request.id)
    assert [card.person for card in cards] == [ADA, BOB]
    await agent.wake()
    assert agent.turn is None  # it sleeps on
    decision = await store.write(decide, CHANNELS, request.id, list_choices(request)[0], BOB, agent.now)
    assert decision.wake == (agent.session_id,)
    await agent.wake()
    await agent.ask()
    assert agent.runs == {request.id: 1}
