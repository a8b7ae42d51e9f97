"""A group with a room and a clock in hand, for tests of tasks."""

from dataclasses import dataclass, field
from typing import Any

import pytest

from gatepost.core.event_bus import EventBus
from gatepost.core.settings import Config
from gatepost.flow.delivery.outgoing_messages import ChannelInstances
from gatepost.flow.schedule.task_changes import TaskRequest, add_task, make_task, read_rules
from gatepost.flow.schedule.task_loop import TaskLoop
from gatepost.messages.outbound import Op
from gatepost.store.engine.sqlite_store import SqliteStore
from gatepost.store.messages import inbox, outbox
from gatepost.store.messages.inbox import InboxEntry
from gatepost.store.messages.messages import Message
from gatepost.store.messages.outbox import EffectOrigin, OutboxEffect
from gatepost.store.port import Db
from gatepost.store.rooms import rooms
from gatepost.store.rooms.origins import Origin
from gatepost.store.schedule import firings, tasks
from gatepost.store.schedule.firings import Firing
from gatepost.store.schedule.tasks import Task
from gatepost.store.sessions import groups, sessions, turn_claims, turn_failures, turns
from gatepost.store.sessions.sessions import SessionMode
from gatepost.store.sessions.turn_failures import FailureCause, TurnRetryPolicy
from gatepost_testing.channel import FakeChannel
from gatepost_testing.clock import FixedClock

INSTANCE, ROOM = "fake", "fake:room/1"


@dataclass
class TaskDesk:
    """`acme` has a conversation in one room. Time passes by `clock.advance` alone."""

    store: SqliteStore
    config: Config
    clock: FixedClock = field(default_factory=FixedClock)
    events: EventBus = field(default_factory=EventBus)
    woken: list[str] = field(default_factory=list)
    max_text: int = 0  # of one message in the room; 0: no limit

    def __post_init__(self) -> None:
        channel = FakeChannel(platform=INSTANCE, max_text=self.max_text)
        self.channels = ChannelInstances({INSTANCE: channel.kind}, {INSTANCE: channel})
        self.events.on_session(self.woken.append)
        self.loop = self.new_loop()

    def new_loop(self) -> TaskLoop:
        return TaskLoop(self.store, self.clock, self.config, self.events, self.channels)

    async def prepare(self) -> "TaskDesk":
        def make(db: Db) -> None:
            groups.add(db, "acme", "Acme", "", self.clock.now())
            rooms.add(db, INSTANCE, ROOM, "Room", False, rooms.RoomPolicy.PUBLIC, self.clock.now())
            sessions.find_or_add(db, SessionMode.SHARED, "acme", INSTANCE, ROOM, "", self.clock.now())

        await self.store.write(make)
        return self

    async def add(self, when: str, *, origins: tuple[Origin, ...] = (), depth: int = 0, **given: Any) -> Task:
        words = {} if "text" in given or "prompt" in given else {"prompt": "look at the news"}
        asked = TaskRequest(
            **{"folder": "acme", "instance": INSTANCE, "address": ROOM, "created_by": "agent:acme", **words, **given},
            when=when,
        )
        rules = read_rules(self.config)
        new = make_task(asked, rules, self.clock.now())
        made, _ = await self.store.write(add_task, new, rules, self.clock.now(), origins, depth)
        return made

    async def tick(self) -> None:
        while await self.loop.fire_due():
            pass

    async def task(self, task: Task) -> Task:
        found = await self.store.read(tasks.get, task.id)
        assert found is not None
        return found

    async def log(self, task: Task) -> list[Firing]:
        """Oldest first."""
        runs = await self.store.read(firings.list_for_task, task.id, 1000)
        return [run.firing for run in reversed(runs)]

    async def queued(self) -> list[tuple[InboxEntry, Message]]:
        def read(db: Db) -> list[tuple[InboxEntry, Message]]:
            return [pair for each in sessions.list_open(db) for pair in inbox.list_open(db, each.id)]

        return await self.store.read(read)

    async def said(self) -> list[OutboxEffect]:
        def read(db: Db) -> list[OutboxEffect]:
            return outbox.OUTBOX.list(db, "ORDER BY id")

        return await self.store.read(read)

    async def deliver(self) -> None:
        """Everything that was said has arrived."""
        await self.store.write(lambda db: db.run("UPDATE outbox SET state = 'sent' WHERE state = 'pending'"))

    async def run_turn(self, session_id: str, *, error: str = "", says: str = "") -> str:
        """The next turn of a session, from its claim to its end."""

        def work(db: Db) -> str:
            now = self.clock.now()
            claim = turn_claims.claim(db, session_id, "scripted", "test", now, 60_000_000, 20, ready=True)
            assert claim is not None
            turn = claim.turn
            turns.begin(db, turn.id, turn.epoch, claim.rows, now)
            if says:
                new = outbox.NewEffect(
                    key=f"{turn.id}/1", op=Op.SEND, origin=EffectOrigin.RESULT, instance=INSTANCE, address=ROOM,
                    text=says,
                    payload={"text": says}, folder="acme", session_id=session_id, turn_id=turn.id,
                )  # fmt: skip
                outbox.add(db, new, now)
            if error:
                cause = FailureCause(reason=error, final=True)
                turn_failures.record_failure(db, turn.id, turn.epoch, cause, TurnRetryPolicy(), now)
            else:
                assert turns.finish(db, turn.id, turn.epoch, "{}", now)
            return turn.id

        return await self.store.write(work)


@pytest.fixture
async def desk(store: SqliteStore) -> TaskDesk:
    return await TaskDesk(store, Config()).prepare()
