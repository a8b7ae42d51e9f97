"""An intake with a group and people, for the tests of whole messages."""

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

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
from gatepost.store.messages.messages import Message
from gatepost.store.people import users
from gatepost.store.people.users import UserRole
from gatepost.store.port import Db
from gatepost.store.rooms import routes
from gatepost.store.sessions import groups, sessions
from gatepost.store.sessions.sessions import Session
from gatepost_testing.clock import NOON, FixedClock

OWNER, ADMIN, MEMBER, STRANGER = "tg:user/1", "tg:user/2", "tg:user/3", "tg:user/666"
ROOM = "tg:group/7"


@dataclass
class World:
    """An intake with a group `home`, the people above, and ears on every bell."""

    store: SqliteStore
    home: Home
    intake: Intake
    clock: FixedClock
    woken: list[str] = field(default_factory=list)
    rooms_woken: list[str] = field(default_factory=list)
    stopped: list[tuple[str, str]] = field(default_factory=list)
    running: bool = True
    number: int = 0

    async def send(self, text: str = "hello", sender: str = OWNER, **given: Any) -> Receipt:
        self.number += 1
        defaults: dict[str, Any] = {"address": ROOM, "platform_id": f"m{self.number}", "sender": sender, "text": text}
        return await self.intake.receive("tg", Inbound(**{**defaults, **given}))

    async def route(
        self,
        match: str,
        target: str,
        *,
        seq: int = 10,
        mode: str = "per-thread",
        also: bool = False,
        ttl_s: int | None = None,
    ) -> int:
        def add(db: Db) -> int:
            folder = routing.check_route(match, target, mode, [group.folder for group in groups.list_all(db)])
            given: dict[str, Any] = {
                "seq": seq,
                "match": match,
                "target": target,
                "folder": folder,
                "mode": mode,
                "also": also,
            }
            given["ttl_s"] = ttl_s
            return routes.add(db, routes.Route(**given, created_by="test", created_at=NOON)).id

        return await self.store.write(add)

    async def do(self, fn: Callable[[Db], Any]) -> None:
        await self.store.write(fn)

    async def sessions(self) -> list[Session]:
        return await self.store.read(sessions.list_open)

    async def entries(self, receipt: Receipt) -> list[InboxEntry]:
        return await self.store.read(inbox.list_for_message, receipt.message_id)

    async def message(self, receipt: Receipt) -> Message:
        found = await self.store.read(messages.get, receipt.message_id)
        assert found is not None
        return found

    async def notices(self) -> list[str]:
        seen = await self.store.read(messages.list_in_room, "tg", ROOM, 0, 100)
        return [each.text for each in seen if each.direction == "out"]

    async def count(self, table: str) -> int:
        def ask(db: Db) -> int:
            row = db.row(f"SELECT COUNT(*) FROM {table}")
            assert row is not None
            return int(row[0])

        return await self.store.read(ask)

    def files(self) -> list[str]:
        folder = self.home.media / "in"
        return os.listdir(folder) if folder.exists() else []


@pytest.fixture
async def world(store: SqliteStore, tmp_path: Path) -> World:
    def people(db: Db) -> None:
        groups.add(db, "home", "Home", "scripted", NOON)
        groups.add(db, "root", "Root", "scripted", NOON)
        for user in (OWNER, ADMIN, MEMBER):
            users.add(db, user, "", NOON)
        users.add_role(db, OWNER, UserRole.OWNER, "", "test", NOON)
        users.add_role(db, ADMIN, UserRole.ADMIN, "home", "test", NOON)
        users.add_member(db, MEMBER, "home", "test", NOON)

    await store.write(people)
    home = Home(tmp_path / "home")
    home.prepare()
    events, clock = EventBus(), FixedClock()

    async def stop(session_id: str, by: str) -> bool:
        made.stopped.append((session_id, by))
        return made.running

    made = World(store, home, Intake(store, clock, Config(), events, ChannelInstances({}), home, stop), clock)
    events.on_session(made.woken.append)
    events.on_room(lambda instance, address: made.rooms_woken.append(address))
    return made


@pytest.fixture
async def routed(world: World) -> World:
    await world.route("", "home", seq=1000)
    return world
