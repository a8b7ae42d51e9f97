"""The site with the page of webhook links on a real port, one group, and programs that post there."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import httpx2
import pytest

from gatepost.channels.contract import CHANNELS, Channel, ChannelDeps
from gatepost.core.clock import SystemClock
from gatepost.core.event_bus import EventBus
from gatepost.core.home import Home
from gatepost.core.keyring import Keyring
from gatepost.core.process.listen_address import parse
from gatepost.core.registry import load_package
from gatepost.core.settings import Config
from gatepost.flow import links
from gatepost.flow.delivery.outgoing_messages import ChannelInstances
from gatepost.flow.links import IssuedLink, NewLink
from gatepost.messages.inbound import Direction
from gatepost.serve.http import HttpServer, bind, get_bound_address
from gatepost.serve.web.links.hook import HookDeps
from gatepost.serve.web.site import WebDeps, make_site
from gatepost.store.engine.sqlite_store import SqliteStore
from gatepost.store.messages import inbox, messages
from gatepost.store.messages.inbox import InboxEntry
from gatepost.store.messages.messages import Message
from gatepost.store.port import Db
from gatepost.store.rights.tokens import TokenKind
from gatepost.store.sessions import groups
from gatepost_testing.waiting import PATIENCE_S

FOLDER, ROOM = "acme/eng", "hook:acme/eng/github"
JSON = {"content-type": "application/json"}


@dataclass
class HookDesk:
    store: SqliteStore
    home: Home
    events: EventBus
    client: httpx2.AsyncClient
    stopping: asyncio.Event
    channels: ChannelInstances
    woken: list[str] = field(default_factory=list)

    async def issue(self, **given: Any) -> IssuedLink:
        wanted: dict[str, Any] = {"folder": FOLDER, "label": "github", "suffix": "", "created_by": "operator"}
        new = NewLink(kind=TokenKind.WEBHOOK, **{**wanted, **given})
        keyring, now = Keyring(self.home), SystemClock().now()
        return await self.store.write(links.issue_link, new, now, keyring)

    def make_deps(self) -> HookDeps:
        return HookDeps(
            store=self.store,
            clock=SystemClock(),
            config=Config(),
            home=self.home,
            events=self.events,
            stopping=self.stopping,
            channels=self.channels,
        )

    async def post(self, token: str, content: str | bytes = "hello", **given: Any) -> httpx2.Response:
        return await self.client.post(f"/hook/{token}", content=content, **given)

    async def list_posted(self, room: str = ROOM) -> list[Message]:
        found = await self.store.read(messages.list_in_room, "hook", room, 0, 1000)
        return [each for each in found if each.direction is Direction.IN]

    async def get_entry(self, message: Message) -> InboxEntry:
        (entry,) = await self.store.read(inbox.list_for_message, message.id)
        return entry


def _add_groups(db: Db) -> None:
    for folder in ("acme", FOLDER, "other"):
        groups.add(db, folder, folder, "demo", SystemClock().now())


@pytest.fixture
async def desk(store: SqliteStore, home: Home, web: Any) -> AsyncIterator[HookDesk]:
    load_package("gatepost.channels")
    kind, config = CHANNELS["hook"], Config({"web.largest_hook_bytes": 100_000})
    channel: Channel = kind.make(ChannelDeps(instance="hook", config=config, clock=SystemClock()))
    listen, stopping, events = parse("127.0.0.1:0"), asyncio.Event(), EventBus()
    sock, channels = bind(listen), ChannelInstances({"hook": kind}, {"hook": channel}, 0)
    parts = WebDeps(
        store=store,
        clock=SystemClock(),
        config=config,
        home=home,
        channel=web.hub,
        stopping=stopping,
        events=events,
        channels=channels,
    )
    await store.write(_add_groups)
    server = HttpServer(make_site(parts), sock)
    running = asyncio.create_task(server.run())
    async with httpx2.AsyncClient(base_url=get_bound_address(listen, sock).url, timeout=PATIENCE_S) as client:
        made = HookDesk(store, home, events, client, stopping, channels)
        events.on_session(made.woken.append)
        yield made
    stopping.set()
    server.stop()
    await asyncio.wait_for(running, PATIENCE_S)
