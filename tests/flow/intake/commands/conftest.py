"""An intake with a group, its people and a room, whose turns a test claims and ends itself."""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from gatepost.channels.contract import Channel, ChannelKind
from gatepost.core.clock import SECOND
from gatepost.core.event_bus import EventBus
from gatepost.core.home import Home
from gatepost.core.settings import Config
from gatepost.flow.delivery.outgoing_messages import ChannelInstances
from gatepost.flow.intake import routing
from gatepost.flow.intake.intake import Intake
from gatepost.messages.inbound import Inbound, Receipt
from gatepost.store.engine.sqlite_store import SqliteStore
from gatepost.store.messages import inbox, messages
from gatepost.store.messages.inbox import InboxEntry
from gatepost.store.people import identities, users
from gatepost.store.people.users import UserRole
from gatepost.store.port import Db
from gatepost.store.rooms import routes
from gatepost.store.rooms.rooms import RoomPolicy
from gatepost.store.sessions import groups, sessions, turn_claims, turns
from gatepost.store.sessions.sessions import Session
from gatepost.store.sessions.turns import Turn
from gatepost_testing.channel import FakeChannel
from gatepost_testing.clock import NOON, FixedClock

OWNER, ADMIN, ADA, BOB, GUEST = (f"fake:user/{name}" for name in ("owner", "admin", "ada", "bob", "guest"))
ROOM = "fake:group/7"


@dataclass
class CommandDesk:
    store: SqliteStore
    home: Home
    clock: FixedClock
    intake: Intake
    channel: FakeChannel
    woken: list[str] = field(default_factory=list)
    stopped: list[str] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)
    renewed: list[str] = field(default_factory=list)
    number: int = 0

    async def say(self, text: str, sender: str = ADA, **given: Any) -> Receipt:
        self.number += 1
        defaults = {"address": ROOM, "platform_id": f"m{self.number}", "sender": sender, "text": text}
        return await self.intake.receive("fake", Inbound(**{**defaults, **given}))

    async def ask(self, text: str, sender: str = ADA, **given: Any) -> str:
        """Return what is answered to a command."""
        before = len(await self.notices(given.get("address", ROOM)))
        await self.say(text, sender, **given)
        return "\n---\n".join((await self.notices(given.get("address", ROOM)))[before:])

    async def notices(self, room: str = ROOM) -> list[str]:
        seen = await self.store.read(messages.list_in_room, "fake", room, 0, 200)
        return [each.text for each in seen if each.direction == "out"]

    async def session(self) -> Session:
        [found] = await self.store.read(sessions.list_open)
        return found

    async def claim(self, provider: str = "scripted") -> Turn:
        """The next turn begins."""
        session, now = await self.session(), self.clock.now()
        claim = await self.store.write(
            lambda db: turn_claims.claim(db, session.id, provider, "me", now, 60 * SECOND, 20, ready=True)
        )
        assert claim is not None
        return claim.turn

    async def turn(self, turn_id: str) -> Turn:
        found = await self.store.read(turns.get, turn_id)
        assert found is not None
        return found

    async def entry(self, receipt: Receipt) -> InboxEntry:
        [found] = await self.store.read(inbox.list_for_message, receipt.message_id)
        return found

    async def do(self, fn: Callable[[Db], Any]) -> Any:
        return await self.store.write(fn)


def add_people(db: Db) -> None:
    groups.add(db, "home", "Home", "scripted", NOON)
    for user in (OWNER, ADMIN, ADA, BOB):
        users.add(db, user, "", NOON)
    users.add_role(db, OWNER, UserRole.OWNER, "", "test", NOON)
    users.add_role(db, ADMIN, UserRole.ADMIN, "home", "test", NOON)
    for user in (ADA, BOB):
        users.add_member(db, user, "home", "test", NOON)
    folder = routing.check_route("", "home", "per-thread", ["home"])
    given: dict[str, Any] = {
        "seq": 10,
        "match": "",
        "target": "home",
        "folder": folder,
        "mode": "per-thread",
        "also": False,
    }
    routes.add(db, routes.Route(**given, created_by="test", created_at=NOON))


@pytest.fixture
async def desk(store: SqliteStore, tmp_path: Path) -> AsyncIterator[CommandDesk]:
    await store.write(add_people)
    home = Home(tmp_path / "home")
    home.prepare()
    events, clock, channel = EventBus(), FixedClock(), FakeChannel()
    kind = channel.kind
    kinds: dict[str, ChannelKind] = {
        "fake": ChannelKind(name="fake", make=kind.make, features=kind.features, policy=RoomPolicy.PUBLIC)
    }
    channels: dict[str, Channel] = {"fake": channel}

    async def stop(session_id: str, by: str) -> bool:
        made.stopped.append(session_id)
        return True

    async def end(session_id: str, reason: str) -> None:
        made.ended.append(session_id)

    intake = Intake(
        store,
        clock,
        Config(),
        events,
        ChannelInstances(kinds, channels),
        home,
        stop,
        end=end,
        renew=lambda session_id: made.renewed.append(session_id),
        page=lambda: "http://127.0.0.1:8080",
    )
    made = CommandDesk(store, home, clock, intake, channel)
    events.on_session(made.woken.append)
    yield made


async def pair(desk: CommandDesk, identity: str, person: str) -> None:
    await desk.do(lambda db: identities.add(db, identity, person, "test", NOON))
