"""Answers while they are written, on the page's stream: who sees them, in which form, and that they go again."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import httpx2
import pytest

from gatepost.core.clock import SystemClock
from gatepost.messages.outbound import Draft
from gatepost.serve.web import markdown_renderer
from gatepost.serve.web.markdown_renderer import DraftFeed, DraftRenderer, MarkdownRenderer
from gatepost.serve.web.signin.one_time_link import make_login_url
from gatepost.store.people import logins, users
from gatepost.store.port import Db
from gatepost_testing.waiting import PATIENCE_S, until

ANN, HERS, HOME = "fake:user/ann", "web:people/ann", "web:home"


def draft(text: str, address: str = HOME, session: str = "s-1", thread: str = "") -> Draft:
    return Draft(session=session, instance="web", address=address, thread=thread, agent="Home", text=text)


class Reader:
    """The events of one stream, as they come."""

    def __init__(self, answer: httpx2.Response) -> None:
        self.seen: list[tuple[str, Any]] = []
        self._lines = answer.aiter_lines()

    async def next_of(self, *kinds: str) -> Any:
        kind = ""
        async with asyncio.timeout(PATIENCE_S):
            async for line in self._lines:
                name, _, value = line.partition(": ")
                if name == "event":
                    kind = value
                elif name == "data":
                    self.seen.append((kind, json.loads(value)))
                    if kind in kinds:
                        return self.seen[-1][1]
        return None


@asynccontextmanager
async def reading(browser: httpx2.AsyncClient) -> AsyncIterator[Reader]:
    async with browser.stream("GET", "/api/events") as answer:
        reader = Reader(answer)
        await reader.next_of("cursor")
        yield reader


@asynccontextmanager
async def signed_in_as(site: Any, person: str) -> AsyncIterator[httpx2.AsyncClient]:
    url = await make_login_url(site.store, SystemClock(), site.answerer.hub, site.base, person)
    async with site.browser() as browser:
        assert (await browser.post("/login", json={"token": url.partition("#token=")[2]})).status_code == 200
        yield browser


def add_ann(db: Db) -> None:
    users.add(db, ANN, "Ann", 1)


async def test_a_draft_grows_on_the_page_as_safe_html_and_goes_again(site: Any) -> None:
    hub = site.answerer.hub
    async with site.signed_in() as browser, reading(browser) as reader:
        hub.show_draft(draft("**Hel", thread="t1"))
        assert await reader.next_of("draft") == {
            "room": HOME,
            "thread": "t1",
            "session": "s-1",
            "name": "Home",
            "text": "**Hel",
            "html": "<p>**Hel</p>",
        }
        hub.show_draft(draft("**Hello** <img src=x onerror=alert(1)>", thread="t1"))
        grown = await reader.next_of("draft")
        hub.show_draft(draft("", thread="t1"))
        assert (await reader.next_of("draft"))["text"] == ""

    assert grown["html"] == "<p><strong>Hello</strong> &lt;img src=x onerror=alert(1)&gt;</p>"


@pytest.mark.slow
async def test_two_who_watch_both_see_it_and_one_who_comes_later_too(site: Any) -> None:
    hub = site.answerer.hub
    async with site.signed_in() as first, site.signed_in() as second, site.signed_in() as third:
        async with reading(first) as one, reading(second) as two:
            hub.show_draft(draft("Hello"))
            assert (await one.next_of("draft"))["text"] == (await two.next_of("draft"))["text"] == "Hello"
            async with third.stream("GET", "/api/events") as answer:
                assert (await Reader(answer).next_of("draft"))["text"] == "Hello"


async def test_who_sees_one_room_sees_no_draft_of_another(site: Any) -> None:
    hub = site.answerer.hub
    await site.store.write(add_ann)
    async with signed_in_as(site, ANN) as browser, reading(browser) as reader:
        hub.show_draft(draft("the owner's secret"))
        hub.show_draft(draft("for Ann", HERS, "s-2"))
        assert (await reader.next_of("draft"))["text"] == "for Ann"
        hub.show_draft(draft(""))
        hub.show_draft(draft("", HERS, "s-2"))
        assert (await reader.next_of("draft"))["session"] == "s-2"

    assert HOME not in str(reader.seen)


async def test_whoever_loses_her_rights_sees_nothing_more_of_what_is_written(
    site: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gatepost.serve.web.chat.CHECK_S", 0.0)
    hub = site.answerer.hub

    async with site.signed_in() as browser, reading(browser) as reader:
        hub.show_draft(draft("before"))
        assert (await reader.next_of("draft"))["text"] == "before"
        await site.store.write(logins.remove_user, hub.owner)  # signed out everywhere, by somebody else
        hub.show_draft(draft("after"))
        assert await reader.next_of("draft") is None  # the stream ends

    assert "after" not in str(reader.seen)


async def test_a_room_is_watched_as_long_as_a_page_is_open(site: Any) -> None:
    hub, changes = site.answerer.hub, []
    hub.on_watch(lambda: changes.append(hub.is_watched(HOME)))
    assert not hub.is_watched(HOME)
    async with site.signed_in() as browser:
        async with reading(browser):
            assert hub.is_watched(HOME)
        await until(lambda: not hub.is_watched(HOME), "the stream to be closed")
    assert changes == [True, False]


async def test_drafts_do_not_ask_the_store(site: Any) -> None:
    hub, store = site.answerer.hub, site.store
    async with site.signed_in() as browser, reading(browser) as reader:
        hub.show_draft(draft("0"))
        await reader.next_of("draft")
        plain, reads = store.read, []

        async def counted(fn: Any, *args: Any, **more: Any) -> Any:
            reads.append(fn)
            return await plain(fn, *args, **more)

        store.read = counted
        try:
            for number in range(1, 30):
                hub.show_draft(draft("x" * number))
                while (await reader.next_of("draft"))["text"] != "x" * number:
                    pass
        finally:
            del store.read
    assert len(reads) <= 12  # by time, however many there are


# The renderer.


class Slow(MarkdownRenderer):
    """Renders when it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []
        self.go = asyncio.Event()

    is_started = True

    async def html(self, text: str, *, remember: bool = True) -> str:
        assert not remember
        self.asked.append(text)
        await self.go.wait()
        return f"<p>{text}</p>"


async def test_many_readers_share_one_rendering() -> None:
    slow = Slow()
    renderer = DraftRenderer(slow, [].append)
    tasks = [asyncio.create_task(renderer.show(draft("Hello"))) for _ in range(50)]
    await until(lambda: slow.asked)
    slow.go.set()
    assert [shown["html"] for task in tasks if (shown := await task)] == ["<p>Hello</p>"] * 50
    assert slow.asked == ["Hello"]


async def test_a_text_that_takes_long_is_shown_plainly_from_then_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(markdown_renderer, "HEAVY_S", -1.0)
    monkeypatch.setattr(markdown_renderer, "SHARE", 0)
    slow = Slow()
    slow.go.set()
    renderer = DraftRenderer(slow, [].append)
    first, second = await renderer.show(draft("[[[")), await renderer.show(draft("[[[ <b>"))
    assert first is not None and second is not None
    assert (first["html"], second["html"]) == ("<p>[[[</p>", "<pre>[[[ &lt;b&gt;</pre>")
    assert slow.asked == ["[[["]


async def test_a_draft_whose_turn_has_not_come_is_shown_when_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    slow, woken = Slow(), list[str]()
    slow.go.set()
    renderer = DraftRenderer(slow, woken.append)
    feed = DraftFeed(renderer)
    monkeypatch.setattr(markdown_renderer, "time", SimpleNamespace(monotonic=lambda: 0.0))
    assert [each["text"] for each in await feed.show([draft("one")])] == ["one"]
    monkeypatch.setattr(
        markdown_renderer, "time", SimpleNamespace(monotonic=lambda: -0.01)
    )  # before the end of its rest
    assert await feed.show([draft("one two")]) == []
    monkeypatch.undo()
    await until(lambda: woken, "the end of its rest")
    assert woken == [HOME]
    assert [each["text"] for each in await feed.show([])] == ["one two"]
    assert await feed.show([]) == []


async def test_what_is_remembered_of_drafts_is_bounded() -> None:
    slow = Slow()
    slow.go.set()
    renderer = DraftRenderer(slow, [].append)
    for number in range(markdown_renderer.MOST_DRAFTS + 50):
        await renderer.show(draft("x", session=f"s-{number}"))
    assert len(renderer._latest) == markdown_renderer.MOST_DRAFTS
