"""The site on a real port, and a browser's worth of manners to ask it with."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx2
import pytest

from gatepost.core.clock import SystemClock
from gatepost.core.event_bus import EventBus
from gatepost.core.home import Home
from gatepost.core.process.listen_address import parse
from gatepost.core.settings import Config
from gatepost.serve.control.contract import OperationDeps
from gatepost.serve.http import HttpServer, bind, get_bound_address
from gatepost.serve.web.dashboard.handlers import DashboardDeps
from gatepost.serve.web.signin.one_time_link import make_login_url
from gatepost.serve.web.site import WebDeps, make_site
from gatepost.store.engine.sqlite_store import SqliteStore
from gatepost_testing.clients.web_manners import make_async_manners
from gatepost_testing.waiting import PATIENCE_S


@dataclass
class Site:
    base: str
    store: SqliteStore
    home: Home
    answerer: Any
    server: HttpServer
    running: asyncio.Task[None]
    stopping: asyncio.Event
    events: EventBus

    def stop(self) -> None:
        self.stopping.set()
        self.server.stop()

    async def new_token(self) -> str:
        address = await make_login_url(self.store, SystemClock(), self.answerer.hub, self.base)
        return address.partition("#token=")[2]

    def browser(self) -> httpx2.AsyncClient:
        """Sends what our page sends."""
        return httpx2.AsyncClient(base_url=self.base, timeout=PATIENCE_S, **make_async_manners(self.base))

    @asynccontextmanager
    async def signed_in(self) -> AsyncIterator[httpx2.AsyncClient]:
        async with self.browser() as browser:
            answer = await browser.post("/login", json={"token": await self.new_token()})
            assert answer.status_code == 200, answer.text
            yield browser


@pytest.fixture
def given() -> dict[str, Any]:
    """Settings that a module of tests changes."""
    return {}


@pytest.fixture
def operation_deps(store: SqliteStore, home: Home, given: dict[str, Any]) -> OperationDeps:
    return OperationDeps(home=home, store=store, clock=SystemClock(), config=Config(given), events=EventBus())


@pytest.fixture
async def site(
    store: SqliteStore,
    home: Home,
    web: Any,
    operation_deps: OperationDeps,
    given: dict[str, Any],
    cheap_passwords: None,
) -> AsyncIterator[Site]:
    listen = parse("127.0.0.1:0")
    sock = bind(listen)
    stopping = asyncio.Event()
    parts = WebDeps(
        store=store,
        clock=SystemClock(),
        config=Config({"web.max_upload_mb": 1, "web.hosts": ("agents.example",), **given}),
        home=home,
        channel=web.hub,
        stopping=stopping,
        events=operation_deps.events,
        dashboard=DashboardDeps(operation_deps=operation_deps),
    )
    server = HttpServer(make_site(parts), sock)
    running = asyncio.create_task(server.run())
    made = Site(get_bound_address(listen, sock).url, store, home, web, server, running, stopping, operation_deps.events)
    yield made
    made.stop()
    await asyncio.wait_for(running, PATIENCE_S)
