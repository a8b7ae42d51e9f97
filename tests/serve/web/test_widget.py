"""The chat of a link over HTTP: whoever holds it gets a room of their own, and nothing else."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest

from gatepost.core.clock import SECOND, SystemClock
from gatepost.flow.links import IssuedLink, NewLink, issue_link, start_visit
from gatepost.serve.web import widget
from gatepost.serve.web.widget import render_headers
from gatepost.store.engine.sqlite_store import SqliteStore
from gatepost.store.port import Db
from gatepost.store.rights import tokens
from gatepost.store.rights.tokens import TokenKind
from gatepost.store.rooms import routes
from gatepost.store.sessions import groups
from gatepost.store.web import links
from gatepost_testing.waiting import PATIENCE_S

CLOCK = SystemClock()
SHOP = "https://shop.example"


async def issue(store: SqliteStore, *origins: str, suffix: str = "") -> IssuedLink:
    def write(db: Db) -> IssuedLink:
        groups.add(db, "acme", "Acme", "demo", 1)
        new = NewLink(
            kind=TokenKind.CHAT_LINK, folder="acme", label="", suffix=suffix, created_by="operator", origins=origins
        )
        return issue_link(db, new, CLOCK.now())

    return await store.write(write)


class VisitorPage:
    """What the page of a link sends. It has no cookie, whatever the browser has."""

    def __init__(self, browser: httpx2.AsyncClient, link: str) -> None:
        self.browser, self.link, self.secret = browser, link, ""

    @property
    def headers(self) -> dict[str, str]:
        return {"authorization": f"Bearer {self.secret}"} if self.secret else {}

    async def visit(self) -> httpx2.Response:
        answer = await self.browser.post("/chat/api/visits", json={"link": self.link})
        self.secret = answer.json().get("visitor", "")
        return answer

    async def say(self, text: str, key: str = "key-00001") -> httpx2.Response:
        return await self.browser.post("/chat/api/messages", json={"id": key, "text": text}, headers=self.headers)

    async def read(self) -> list[dict[str, Any]]:
        answer = await self.browser.get("/chat/api/messages", headers=self.headers)
        assert answer.status_code == 200, answer.text
        found: list[dict[str, Any]] = answer.json()["messages"]
        return found

    @asynccontextmanager
    async def follow(self) -> AsyncIterator[AsyncIterator[tuple[str, Any]]]:
        async def events(answer: httpx2.Response) -> AsyncIterator[tuple[str, Any]]:
            kind = ""
            async for line in answer.aiter_lines():
                name, _, value = line.partition(": ")
                if name == "event":
                    kind = value
                if name == "data":
                    yield kind, json.loads(value)

        async with self.browser.stream(
            "GET", "/chat/api/events", params={"after": "0"}, headers=self.headers
        ) as answer:
            assert answer.status_code == 200
            yield events(answer)


async def find(events: AsyncIterator[tuple[str, Any]], wanted: Any) -> Any:
    async with asyncio.timeout(PATIENCE_S):
        async for kind, data in events:
            if wanted(kind, data):
                return data
    raise AssertionError("the stream ended")


async def test_a_visitor_writes_and_is_answered_in_a_room_below_the_links(site: Any) -> None:
    link = await issue(site.store)
    async with site.browser() as browser:
        page = VisitorPage(browser, link.secret)
        await page.visit()
        first, again = await page.say("**hello**"), await page.say("**hello**")
        said = await page.read()

    assert (first.json()["new"], again.json()["new"]) == (True, False)
    assert [(each["mine"], each["html"]) for each in said] == [
        (True, "<p><strong>hello</strong></p>"),
        (False, "<p>You said: <strong>hello</strong></p>"),
    ]
    (given,) = {(each.address, each.sender) for each in site.answerer.received}
    assert given[0].startswith(f"web:link/acme/{link.token.id}/v-")
    assert given[1].startswith("web:visitor/v-")


async def test_a_room_whose_route_somebody_removed_gets_it_back_before_anything_is_said(site: Any) -> None:
    link = await issue(site.store)
    async with site.browser() as browser:
        page = VisitorPage(browser, link.secret)
        await page.visit()
        before = [each.match for each in await site.store.read(routes.list_all)]
        for each in await site.store.read(routes.list_all):
            await site.store.write(routes.remove, each.id)
        await page.say("hello")
    assert [each.match for each in await site.store.read(routes.list_all)] == before
    assert len(before) == 2


@pytest.mark.slow
async def test_who_holds_the_same_link_does_not_read_what_another_says(site: Any) -> None:
    link = await issue(site.store)
    async with site.browser() as browser:
        ann, ben = VisitorPage(browser, link.secret), VisitorPage(browser, link.secret)
        await ann.visit()
        await ben.visit()
        await ann.say("a secret")
        assert await ben.read() == []
        async with ben.follow() as events:
            await ann.say("another", "key-00002")
            await ben.say("mine", "key-00003")
            seen = await find(events, lambda kind, data: kind == "message" and not data["mine"])
    assert "mine" in seen["html"]


@pytest.mark.slow
async def test_nothing_is_told_of_the_gateways_inside(site: Any) -> None:
    link = await issue(site.store)
    async with site.browser() as browser:
        page = VisitorPage(browser, link.secret)
        await page.visit()
        await page.say("refuse me")
        (said,) = await page.read()
    assert said["state"] == "failed"
    assert "wired" not in json.dumps(said) and "folder" not in said and "reason" not in said


@pytest.mark.parametrize("secret", ["", "wrong", "x" * 5000])
async def test_without_a_visitors_secret_nothing_is_answered(site: Any, secret: str) -> None:
    async with site.browser() as browser:
        page = VisitorPage(browser, "")
        page.secret = secret
        answers = [
            await page.say("hello"),
            await browser.get("/chat/api/messages", headers=page.headers),
            await browser.get("/chat/api/events", params={"after": "0"}, headers=page.headers),
            await browser.post("/chat/api/visits", json={"link": secret}),
            await browser.post("/chat/api/link", json={"link": secret}),
        ]
    assert [each.status_code for each in answers] == [401] * 5
    assert site.answerer.received == []


async def test_the_links_own_token_is_no_visitors_secret_and_a_secret_is_no_link(site: Any) -> None:
    link = await issue(site.store)
    async with site.browser() as browser:
        page = VisitorPage(browser, link.secret)
        page.secret = link.secret
        assert (await page.say("hello")).status_code == 401
        await page.visit()
        again = VisitorPage(browser, page.secret)
        assert (await again.visit()).status_code == 401


async def test_a_signed_in_owners_cookie_gives_nothing_here_and_a_visitors_secret_nothing_there(site: Any) -> None:
    link = await issue(site.store)
    async with site.signed_in() as browser:
        page = VisitorPage(browser, link.secret)
        assert (await page.say("hello")).status_code == 401
        await page.visit()
        assert await page.read() == []
    async with site.browser() as stranger:
        for path in ("/api/start", "/api/messages", "/api/events", "/dashboard/"):
            assert (await stranger.get(path, headers=page.headers)).status_code == 401


@pytest.mark.parametrize("origins", [(), (SHOP,), (SHOP, "http://127.0.0.1:9000")])
async def test_only_the_links_own_sites_may_frame_the_page(site: Any, origins: tuple[str, ...]) -> None:
    link = await issue(site.store, *origins)
    async with site.browser() as browser:
        answer = await browser.get(f"/chat/{link.secret}")
    policy = answer.headers["content-security-policy"]
    assert answer.status_code == 200
    assert policy.endswith(f"frame-ancestors {' '.join(origins) or chr(39) + 'none' + chr(39)}")
    assert ("x-frame-options" in answer.headers) is (not origins)
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert f"connect-src {site.base.removeprefix('http://')}/chat/api/;" in policy
    assert "set-cookie" not in answer.headers


@pytest.mark.slow
async def test_the_page_of_no_link_is_framed_by_nobody_and_an_unknown_one_is_not_there(site: Any) -> None:
    async with site.browser() as browser:
        plain, unknown = await browser.get("/chat/"), await browser.get("/chat/unknown")
    assert plain.status_code == 200 and "frame-ancestors 'none'" in plain.headers["content-security-policy"]
    assert plain.headers["x-frame-options"] == "DENY"
    assert unknown.status_code == 404 and "frame-ancestors 'none'" in unknown.headers["content-security-policy"]


@pytest.mark.parametrize("host", ["a.example; script-src *", "[::1]:80", "x y"])
def test_a_host_that_is_none_gets_into_no_policy(host: str) -> None:
    policy = render_headers(host, "")["content-security-policy"]
    assert host not in policy and "connect-src 'self';" in policy


async def test_a_revoked_link_ends_its_streams_at_once_and_lets_nobody_write(site: Any) -> None:
    link = await issue(site.store)
    async with site.browser() as browser:
        page = VisitorPage(browser, link.secret)
        await page.visit()
        async with page.follow() as events:
            await find(events, lambda kind, data: kind == "cursor")
            await site.store.write(tokens.revoke, link.token.id, CLOCK.now())
            site.events.operation()
            assert await find(events, lambda kind, data: kind == "closed") == {}
            with pytest.raises(StopAsyncIteration):
                await anext(events)
        assert (await page.say("hello")).status_code == 401
        assert (await page.visit()).status_code == 401
        assert (await browser.get(f"/chat/{link.secret}")).status_code == 404


@pytest.mark.slow
async def test_a_visitor_has_one_stream_and_the_one_before_is_told_so(site: Any) -> None:
    link = await issue(site.store)
    async with site.browser() as browser:
        page = VisitorPage(browser, link.secret)
        await page.visit()
        async with page.follow() as first:
            await find(first, lambda kind, data: kind == "cursor")
            async with page.follow() as second:
                await find(first, lambda kind, data: kind == "replaced")
                await page.say("hello")
                await find(second, lambda kind, data: kind == "message" and not data["mine"])


async def test_a_link_has_so_many_streams(site: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(widget, "MOST_OF_LINK", 1)
    link = await issue(site.store)
    async with site.browser() as browser:
        ann, ben = VisitorPage(browser, link.secret), VisitorPage(browser, link.secret)
        await ann.visit()
        await ben.visit()
        async with ann.follow() as events:
            await find(events, lambda kind, data: kind == "cursor")
            full = await browser.get("/chat/api/events", params={"after": "0"}, headers=ben.headers)
    assert full.status_code == 429 and int(full.headers["retry-after"]) > 1


async def test_a_visitor_who_writes_too_fast_is_told_when_to_go_on(site: Any) -> None:
    link = await issue(site.store)
    async with site.browser() as browser:
        page = VisitorPage(browser, link.secret)
        await page.visit()
        answers = [await page.say("hi", f"key-{number:05}") for number in range(widget.MESSAGES_OF_VISITOR.burst + 2)]
    assert answers[-1].status_code == 429 and int(answers[-1].headers["retry-after"]) >= 1
    assert len(site.answerer.received) < len(answers)


async def test_a_link_has_so_many_visitors_and_who_was_idle_for_a_day_makes_way(
    site: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(links, "MOST_VISITORS", 2)
    link = await issue(site.store)
    async with site.browser() as browser:
        pages = [VisitorPage(browser, link.secret) for _ in range(3)]
        assert [(await page.visit()).status_code for page in pages] == [200, 200, 429]
        old = await site.store.read(links.find_visitor, pages[0].secret, CLOCK.now())
        await site.store.write(links.set_visitor_seen, old.id, CLOCK.now() - links.IDLE - 1)
        assert (await pages[2].visit()).status_code == 200
        assert (await pages[0].say("hello")).status_code == 401
        assert (await pages[1].say("hello")).status_code == 200


async def test_visitors_who_say_nothing_keep_nobody_out(site: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(links, "MOST_VISITORS", 2)
    link = await issue(site.store)
    async with site.browser() as browser:
        writes, silent, new = (VisitorPage(browser, link.secret) for _ in range(3))
        await writes.visit()
        assert (await writes.say("hello")).status_code == 200
        await silent.visit()
        assert (await new.visit()).status_code == 429
        later = CLOCK.now() + links.SILENT
        made = await site.store.write(start_visit, "web", link.secret, later)
        assert made is not None
        assert (await silent.say("hello")).status_code == 401
        assert (await writes.say("again", "key-00002")).status_code == 200


def test_visitors_who_say_nothing_come_too_slowly_to_fill_a_link() -> None:
    rate, seconds = widget.VISITS_OF_LINK, links.SILENT / SECOND
    assert rate.burst + rate.per_second * seconds < links.MOST_VISITORS


@pytest.mark.parametrize("text", ["", "   ", "x" * 4001])
async def test_a_text_that_is_empty_or_too_long_is_refused_with_what_is_possible(site: Any, text: str) -> None:
    link = await issue(site.store)
    async with site.browser() as browser:
        page = VisitorPage(browser, link.secret)
        await page.visit()
        answer = await page.say(text)
    assert answer.status_code == 400 and "1 to 4000 characters" in answer.json()["error"]["text"]


async def test_the_script_for_other_sites_may_be_loaded_by_them_and_nothing_else_may(site: Any) -> None:
    foreign = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"}
    async with httpx2.AsyncClient(base_url=site.base, headers=foreign) as elsewhere:
        script, other = await elsewhere.get("/static/widget.js"), await elsewhere.get("/static/link_chat.js")
    assert script.status_code == 200 and script.headers["cross-origin-resource-policy"] == "cross-origin"
    assert other.status_code == 403


async def test_rooms_of_visitors_are_not_on_the_owners_page(site: Any) -> None:
    link = await issue(site.store)
    async with site.signed_in() as browser:
        page = VisitorPage(browser, link.secret)
        await page.visit()
        await page.say("hello")
        start = (await browser.get("/api/start")).json()
    assert [each["room"] for each in start["rooms"] if "link/" in each["room"]] == []
