"""The web site with a full dashboard: each operation answers a value of its declared type, with one text everywhere.

So every field of every page is filled, also those of pages that are written later, without a gateway that did all that.
"""

import asyncio
import enum
import re
import types
import typing
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import msgspec
from msgspec import UNSET, Struct
from playwright.async_api import Page as BrowserPage

from gatepost.channels.contract import ChannelDeps
from gatepost.channels.web import WebChannel
from gatepost.core.clock import SystemClock, iso
from gatepost.core.event_bus import EventBus
from gatepost.core.home import Home
from gatepost.core.process.listen_address import parse
from gatepost.core.records import replace
from gatepost.core.registry import Registry
from gatepost.core.settings import Config
from gatepost.serve.control.answers import is_time
from gatepost.serve.control.arguments.spending import SpendingReport, SpendingRow
from gatepost.serve.control.contract import OPERATIONS, Operation, OperationDeps
from gatepost.serve.http import HttpServer, bind, get_bound_address
from gatepost.serve.web.dashboard.contract import PAGES, Page, render_path
from gatepost.serve.web.dashboard.handlers import DashboardDeps
from gatepost.serve.web.signin.one_time_link import make_login_url
from gatepost.serve.web.site import WebDeps, make_site
from gatepost.store.engine.sqlite_store import SqliteStore
from gatepost_testing.clients.web_manners import make_async_manners
from gatepost_testing.waiting import PATIENCE_S

HOLE = re.compile(r"\{(\w+)\}")
OF_THE_CODE = {"digest": "0" * 64, "operation": "task.add"}  # holes that only names of ours fill


class PageSite(Struct, frozen=True, kw_only=True):
    base: str
    new_token: Callable[[], Any]
    text: str

    async def enter(self, page: BrowserPage) -> None:
        """Sign a browser in."""
        await page.goto(f"{self.base}/#token={await self.new_token()}")
        await page.locator("#text").wait_for()

    @asynccontextmanager
    async def client(self) -> AsyncIterator[httpx2.AsyncClient]:
        """Signed in, with what our pages send."""
        manners = make_async_manners(self.base)
        async with httpx2.AsyncClient(base_url=self.base, timeout=PATIENCE_S, **manners) as client:
            assert (await client.post("/login", json={"token": await self.new_token()})).status_code == 200
            yield client

    def list_addresses(self) -> list[str]:
        """Of every page; the holes of its path are filled with the text."""
        return [f"{self.base}{get_address(page, self.text)}" for _, page in PAGES.items()]


def get_address(page: Page, text: str) -> str:
    return render_path(page.path, **{name: OF_THE_CODE.get(name, text or "x") for name in HOLE.findall(page.path)})


@asynccontextmanager
async def serve_pages(store: SqliteStore, folder: Path, text: str) -> AsyncIterator[PageSite]:
    """The site on a port of its own. `text` stands wherever an operation answers a text."""
    clock, config, events = SystemClock(), Config(), EventBus()
    home = Home(folder / "home")
    home.prepare()
    channel = WebChannel(ChannelDeps(instance="web", config=config, clock=clock))
    operation_deps = OperationDeps(home=home, store=store, clock=clock, config=config, events=events)
    dashboard = DashboardDeps(operation_deps=operation_deps, operations=make_operations(text))
    stopping, listen = asyncio.Event(), parse("127.0.0.1:0")
    sock = bind(listen)
    site = make_site(
        WebDeps(
            store=store,
            clock=clock,
            config=config,
            home=home,
            channel=channel,
            stopping=stopping,
            events=events,
            dashboard=dashboard,
        )
    )
    server = HttpServer(site, sock)
    running = asyncio.create_task(server.run())
    base = get_bound_address(listen, sock).url

    async def new_token() -> str:
        return (await make_login_url(store, clock, channel, base)).partition("#token=")[2]

    try:
        yield PageSite(base=base, new_token=new_token, text=text)
    finally:
        stopping.set()
        server.stop()
        await asyncio.wait_for(running, PATIENCE_S)


def make_operations(text: str) -> Registry[Operation]:
    made: Registry[Operation] = Registry("operation")
    for name, each in OPERATIONS.items():

        async def answer(deps: OperationDeps, args: Any, kind: Any = each.result) -> Any:
            return list_spending(args, text) if kind is SpendingReport else make_value(kind, text, "")

        made.add(name, replace(each, run=answer, read=None), origin=__name__)
    return made


def list_spending(args: Any, text: str) -> SpendingReport:
    """Its rows have a field that is named by an argument."""
    name = "2026-01-01" if args.by == "day" else text
    named, counts = {args.by: name}, dict.fromkeys(("calls", "input", "output", "cache_read", "cache_write"), 1)
    row = SpendingRow(**named, **counts, usd=1.0, micro=1_000_000, estimated_micro=0)
    return SpendingReport(by=args.by, since=None, total_usd=1, total_micro=1_000_000, reserved_usd=1, rows=[row])


def make_value(kind: Any, text: str, name: str, depth: int = 0) -> Any:
    """A value of a type: lists have one item, choices their first member, nothing that may be there is missing."""
    origin, given = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Annotated:
        return make_value(given[0], text, name, depth)
    if origin is typing.Literal:
        return given[0]
    if origin in (typing.Union, types.UnionType):
        rest = [each for each in given if each not in (type(None), msgspec.UnsetType)]
        return make_value(rest[0], text, name, depth) if rest and depth < 6 else None
    if isinstance(kind, type) and issubclass(kind, Struct):
        hints = typing.get_type_hints(kind, include_extras=True)
        return kind(**{each: make_value(hints[each], text, each, depth + 1) for each in kind.__struct_fields__})
    return _make_plain(kind, origin, given, text, name, depth)


def _make_plain(kind: Any, origin: Any, given: tuple[Any, ...], text: str, name: str, depth: int) -> Any:
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return next(iter(kind))
    if origin in (list, set, frozenset) or getattr(origin, "__name__", "") == "Sequence":
        return [make_value(given[0], text, name, depth + 1)] if depth < 6 else []
    if origin is tuple:
        items = [each for each in given if each is not Ellipsis]
        return tuple(make_value(each, text, name, depth + 1) for each in items)
    if origin is dict or getattr(origin, "__name__", "") == "Mapping":
        return {make_value(given[0], text, "", depth + 1): make_value(given[1], text, "", depth + 1)}
    if kind is bool:
        return True
    if kind in (int, float):
        return SystemClock().now() if is_time(name) else 1
    if kind is type(None) or kind is UNSET:
        return None
    return iso(SystemClock().now()) if is_time(name) else text  # a text, or anything
