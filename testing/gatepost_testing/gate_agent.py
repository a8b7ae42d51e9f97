"""An agent in front of a real gate, without a sandbox: for tests of tools and of their servers.

The group, its room, a session and a running turn are made by `create`:

    agent = await GateAgent.create(home, store, "acme/eng")
    answer = await agent.call("reply", text="hello")  # through the gate, as over the socket
"""

import json
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from gatepost.access.grants import GrantRule
from gatepost.access.policy import AccessRules, GroupPolicy
from gatepost.access.tiers import Tier
from gatepost.channels.contract import ChannelKind
from gatepost.core import ids
from gatepost.core.clock import Clock, SystemClock
from gatepost.core.event_bus import EventBus
from gatepost.core.home import Home
from gatepost.core.process.fencing import FenceCheck, always
from gatepost.core.process.thread_pools import FairThreadPool
from gatepost.core.registry import Registry
from gatepost.core.settings import Config
from gatepost.flow.delivery.outgoing_messages import ChannelInstances
from gatepost.flow.sessions.forking import SessionForker
from gatepost.flow.sessions.replaying import SessionReplayer
from gatepost.gate.dispatch import Dispatch
from gatepost.gate.tool_answers import ToolAnswer
from gatepost.messages.inbound import Direction
from gatepost.messages.outbound import Feature
from gatepost.store.messages import inbox, messages
from gatepost.store.messages.messages import NewMessage
from gatepost.store.port import Db, Store
from gatepost.store.rights import audit
from gatepost.store.rooms import rooms
from gatepost.store.rooms.rooms import RoomPolicy
from gatepost.store.sessions import groups, sessions, turn_claims
from gatepost.store.sessions.sessions import Session, SessionMode
from gatepost.store.sessions.turns import Turn
from gatepost.tools.call import Caller, HostAsker, PageFetcher, ToolDeps
from gatepost.tools.contract import TOOLS, Tool
from gatepost_testing.channel import FakeChannel

PLATFORM = "fake"
ROOM = "fake:room/1"
MINUTE = 60_000_000
# One group of each tier, each below the other.
FOLDERS = {Tier.ROOT: "root", Tier.WORLD: "acme", Tier.AGENT: "acme/eng", Tier.WORKER: "acme/eng/sre"}


@dataclass
class GateAgent:
    store: Store
    deps: ToolDeps
    dispatch: Dispatch
    session: Session
    caller: Caller
    woken: list[tuple[str, str]] = field(default_factory=list)  # the rooms that were told that something goes out
    _ids: "count[int]" = field(default_factory=lambda: count(1))

    @classmethod
    async def create(
        cls,
        home: Path,
        store: Store,
        folder: str = "acme/eng",
        *,
        features: frozenset[Feature] | None = None,
        max_text: int = 0,
        mode: SessionMode = SessionMode.PER_THREAD,
        tools: Registry[Tool] = TOOLS,
        rules: tuple[GrantRule, ...] = (),
        clock: Clock | None = None,
        turn: bool = True,
        host_asker: HostAsker | None = None,
        config: Config | None = None,
        may_act: FenceCheck = always,
        pages: PageFetcher | None = None,
    ) -> "GateAgent":
        """Into a group, with one message heard and a turn begun on it."""
        place = Home(home)
        place.prepare()
        place.group(folder).mkdir(parents=True, exist_ok=True)
        kind = FakeChannel(platform=PLATFORM, max_text=max_text).kind
        if features is not None:
            kind = ChannelKind(name=PLATFORM, make=kind.make, features=features, max_text=max_text)
        clock, config, threads, events = clock or SystemClock(), config or Config(), FairThreadPool(), EventBus()
        deps = ToolDeps(
            store=store,
            clock=clock,
            config=config,
            home=place,
            events=events,
            channels=ChannelInstances({PLATFORM: kind}),
            host_asker=host_asker,
            forker=SessionForker(place, store, clock, config, threads, _end_nothing),
            replayer=SessionReplayer(place, store, clock, config, events, threads),
            may_act=may_act,
            threads=threads,
            pages=pages,
        )
        session = await store.write(_make_session, folder, mode, deps.clock.now())
        place.session(session.id).mkdir(parents=True, exist_ok=True)
        caller = Caller(folder, session.id, "scripted")
        fixed = AccessRules(rules={folder: rules})

        async def policy_of(each: str) -> GroupPolicy:
            return GroupPolicy(each, fixed)

        dispatch = Dispatch(tools, deps, policy_of if rules else None)
        agent = cls(store, deps, dispatch, session, caller)
        deps.events.on_room(lambda instance, address: agent.woken.append((instance, address)))
        if turn:
            await agent.receive("hello")
            await agent.begin()
        return agent

    async def receive(self, text: str, platform_id: str = "") -> int:
        """A person writes in the agent's room; the message's seq."""
        chosen = platform_id or ids.new("in")
        return await self.store.write(_receive, self.session, text, chosen, self.deps.clock.now())

    async def begin(self) -> Turn:
        """Take what is queued."""
        now = self.deps.clock.now()
        claim = await self.store.write(turn_claims.claim, self.session.id, "scripted", "test", now, MINUTE, 20)
        assert claim is not None
        return claim.turn

    async def call(self, tool: str, call_id: str = "", **arguments: object) -> ToolAnswer:
        """Use a tool, through the gate."""
        raw = json.dumps(arguments).encode()
        return await self.dispatch.call(self.caller, tool, raw, call_id or f"call-{next(self._ids)}")

    async def audited(self) -> list[tuple[str, str]]:
        """(action, verdict) of everything written down so far, oldest first."""
        rows = await self.store.read(audit.list_latest, 1000)
        return [(action, verdict) for _, _, _, action, verdict, _ in reversed(rows)]


def is_invalid(answer: ToolAnswer) -> bool:
    """Return True if a call was not made because its arguments did not fit."""
    return answer.failed and not answer.code and answer.text.startswith("Invalid arguments for ")


async def _end_nothing(session_id: str, reason: str) -> None:
    """No sandbox runs."""


def _make_session(db: Db, folder: str, mode: SessionMode, now: int) -> Session:
    groups.add(db, folder, folder.rpartition("/")[2], "scripted", now)
    rooms.add(db, PLATFORM, ROOM, "the room", False, RoomPolicy.PUBLIC, now)
    return sessions.find_or_add(db, mode, folder, PLATFORM, ROOM, "", now)


def _receive(db: Db, session: Session, text: str, platform_id: str, now: int) -> int:
    message_id = messages.accept(
        db,
        NewMessage(
            instance=session.instance,
            address=session.address,
            thread=session.thread,
            direction=Direction.IN,
            platform_id=platform_id,
            sender=f"{PLATFORM}:user/1",
            sender_name="Ada",
            text=text,
            at=now,
        ),
        now,
    )
    assert message_id is not None
    row = inbox.get(db, inbox.enqueue(db, message_id, session.id, session.folder, "owner", now))
    assert row is not None
    return row.seq
