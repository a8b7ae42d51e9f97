"""What whole-gateway tests share: a channel, routes as an operator writes them, and a provider that looks around."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

from gatepost.app import Gateway
from gatepost.core.errors import Unavailable
from gatepost.flow.groups import make_folder
from gatepost.flow.intake.routing import parse_target
from gatepost.store.rooms import routes
from gatepost.store.sessions import groups
from gatepost_testing.channel import FakeChannel
from gatepost_testing.waiting import PATIENCE_S

if TYPE_CHECKING:
    from playwright.async_api import Browser, BrowserContext

    from gatepost_testing.daemon import DaemonProcess

    from .dashboard_desk import DashboardDesk

ROOM = "fake:room/1"

# Runs inside, in the place of a model: tells what it was given, and runs what it is asked to run.
LOOKER = r"""
import os, re, subprocess, sys, time
from gatepost.inside.providers.contract import TurnResult, ConversationStarted, Text, provider


@provider("looker")
class Looker:
    takes_pushes = False

    def __init__(self, place):
        self.place = place

    async def query(self, batch, resume):
        yield ConversationStarted(resume or "c-1")
        for item in batch.items:
            if item.kind == "system":  # a turn that is continued begins with one
                continue
            yield Text(self.look(item.text, batch.prompt), item.seq)
        yield TurnResult()

    def look(self, text, prompt):
        if text.startswith("run "):
            scope = {"place": self.place, "os": os, "re": re, "subprocess": subprocess, "sys": sys, "time": time}
            scope["prompt"] = prompt
            exec(text[4:], scope)
            return str(scope["answer"])
        return prompt

    async def push(self, batch):
        raise NotImplementedError("one turn at a time")

    async def interrupt(self):
        pass

    async def close(self):
        pass
"""


@pytest.fixture
def channel() -> FakeChannel:
    return FakeChannel()


def add_looker(home: Path) -> None:
    """Into a home that has not started yet."""
    folder = home / "plugins" / "providers"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "looker.py").write_text(LOOKER)


async def add_group(gateway: Gateway, folder: str) -> None:
    now = gateway.clock.now()
    await gateway.store.write(groups.add, folder, folder, "", now)
    make_folder(gateway.home, folder)


async def add_route(
    gateway: Gateway,
    match: str,
    target: str,
    *,
    seq: int = 10,
    mode: str = "per-thread",
    also: bool = False,
    window: tuple[int | None, int | None] = (None, None),
    ttl_s: int | None = None,
) -> None:
    route = routes.Route(
        seq=seq,
        match=match,
        target=target,
        folder=parse_target(target).folder or None,
        mode=mode,
        also=also,
        window_messages=window[0],
        window_chars=window[1],
        ttl_s=ttl_s,
        created_by="test",
        created_at=gateway.clock.now(),
    )
    await gateway.store.write(routes.add, route)


async def make_room(gateway: Gateway) -> None:
    """On a store whose disk was full. A write that came together with one that does not fit fails, and is repeated."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            try:
                await gateway.store.write(lambda db: db.rows("PRAGMA max_page_count = 1000000"))
            except Unavailable:
                continue
            return


@pytest.fixture(autouse=True)
def presses(request: pytest.FixtureRequest) -> Iterator[None]:
    """A test that declares actions of pages (`@pytest.mark.page`) has sent what they send, each as often."""
    wanted = Counter[str]()
    for mark in request.node.iter_markers("page"):
        wanted.update(action.partition(": ")[0] for action in mark.args[1:] if not action.startswith("*"))
    if not wanted:
        yield
        return
    sent, failed = request.getfixturevalue("pressed"), request.session.testsfailed
    yield
    assert request.session.testsfailed > failed or not wanted - sent, f"declared, but not pressed: {wanted - sent}"


@pytest.fixture
async def pressed(browser: "Browser") -> AsyncIterator[Counter[str]]:
    """Yield what the pages of a browser send, by its name and as often."""
    sent = Counter[str]()

    def record(asked: Any) -> None:
        name = urlsplit(asked.url).path.rpartition("/")[2]
        sent.update([name] if asked.method == "POST" or name.endswith(".js") else [])

    def listen(context: "BrowserContext") -> None:
        context.on("request", record)

    for context in browser.contexts:
        listen(context)
    browser.on("context", listen)
    yield sent
    browser.remove_listener("context", listen)
    for context in browser.contexts:
        context.remove_listener("request", record)


@pytest.fixture
async def desk(daemon: "DaemonProcess", window: "BrowserContext") -> AsyncIterator["DashboardDesk"]:
    """The dashboard of the module's daemon, in the window that its tests share."""
    from .dashboard_desk import open_desk

    async with open_desk(daemon, window) as desk:
        yield desk
