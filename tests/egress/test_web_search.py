"""Search services, as hosts on loopback answer for them: the forms are the vendors', what they find is not judged."""

import json
import sys
from typing import Any

import pytest

from gatepost.core.errors import Refused, SetupError, Unavailable
from gatepost.core.settings import Config
from gatepost.egress.web_pages import PageReader, WebPages
from gatepost.egress.web_search import SEARCH_API_KEY, WebSearch, find_search_service, read_hits
from gatepost.tools.call import FoundPage

from .conftest import Way

KEY = "search-key-0123456789"
HIT = {"url": "https://example.com/a", "title": "A &amp; <strong>B</strong>", "rank": 1}
FOUND = FoundPage("A & B", "https://example.com/a", "some words")
ANSWERS: dict[str, Any] = {
    "searxng": {"query": "q", "results": [HIT | {"content": "some\u200b words", "engine": "x"}], "suggestions": []},
    "brave": {"type": "search", "web": {"results": [HIT | {"description": "some <strong>words</strong>"}]}},
    "tavily": {"query": "q", "answer": None, "results": [HIT | {"content": "some words", "score": 0.9}]},
    "kagi": {"meta": {"ms": 1}, "data": [{"t": 0, "snippet": "some words"} | HIT, {"t": 1, "list": ["more"]}]},
}


def make_search(way: Way, service: str, **more: Any) -> WebSearch:
    config = Config({"search.service": service, "search.url": f"http://localhost:{way.host.port}", **more})
    way.keys.keys[SEARCH_API_KEY] = KEY
    return WebSearch(config, WebPages(way.socket._deps, PageReader()), way.purse, way.keys)


def answer(way: Way, body: object, status: int = 200) -> None:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    way.host.reply = f"HTTP/1.1 {status} X\r\ncontent-length: {len(raw)}\r\n\r\n".encode() + raw


async def find(search: WebSearch, way: Way) -> list[FoundPage]:
    return await search.search(way.socket._caller, "t-1", "harbour n\u00e9ws & more", 5)


@pytest.mark.parametrize(
    ("service", "line", "header", "cost"),
    [
        ("searxng", "GET /search?q=harbour%20n%C3%A9ws%20%26%20more&format=json HTTP/1.1", "", 0),
        (
            "brave",
            "GET /res/v1/web/search?q=harbour%20n%C3%A9ws%20%26%20more&count=5&text_decorations=false HTTP/1.1",
            f"x-subscription-token: {KEY}",
            5000,
        ),
        ("tavily", "POST /search HTTP/1.1", f"authorization: Bearer {KEY}", 8000),
        (
            "kagi",
            "GET /api/v0/search?q=harbour%20n%C3%A9ws%20%26%20more&limit=5 HTTP/1.1",
            f"authorization: Bot {KEY}",
            25000,
        ),
    ],
)
async def test_each_service_is_asked_in_its_form_and_paid(
    way: Way, service: str, line: str, header: str, cost: int
) -> None:
    answer(way, ANSWERS[service])
    assert await find(make_search(way, service), way) == [FOUND]
    (head,) = way.host.heads
    assert head.startswith(line) and header in head
    assert (KEY in head) is bool(header)
    if service == "tavily":
        assert way.host.asked == {"query": "harbour n\u00e9ws & more", "max_results": 5, "search_depth": "basic"}
    assert [micro for micro, _ in way.purse.booked] == [cost]
    assert (await way.log())[0].verdict == "allowed"


async def test_a_denied_host_is_not_asked_and_an_allowance_is_not_needed(way: Way) -> None:
    answer(way, ANSWERS["searxng"])
    await way.allow("localhost", allow=False)
    with pytest.raises(Refused, match="is denied to everybody by a rule"):
        await find(make_search(way, "searxng"), way)
    assert way.host.heads == []


async def test_what_is_spent_is_not_searched_for(way: Way) -> None:
    way.purse.left = 1
    with pytest.raises(Refused, match="the budget of acme is spent"):
        await find(make_search(way, "brave"), way)
    assert way.host.heads == []
    answer(way, ANSWERS["brave"])
    assert await find(make_search(way, "brave", **{"search.price": "0.000001"}), way) == [FOUND]


@pytest.mark.parametrize(
    ("service", "status", "body", "why"),
    [
        ("searxng", 403, {}, "lists json under search.formats"),
        ("brave", 401, {}, "gatepost secret set SEARCH_API_KEY"),
        ("kagi", 429, {}, "kagi answered 429"),
        ("tavily", 200, b"<html>", "as its documentation says"),
        ("tavily", 200, {"results": [{"url": 7}]}, "as its documentation says"),
        ("tavily", 302, {}, "tavily answered 302"),
    ],
)
async def test_a_service_that_does_not_answer_well_is_named(
    way: Way, service: str, status: int, body: object, why: str
) -> None:
    answer(way, body, status)
    with pytest.raises((SetupError, Unavailable), match=why):
        await find(make_search(way, service), way)
    assert [micro or 0 for micro, _ in way.purse.booked] == [0 if status != 200 else 8000]


async def test_a_key_that_comes_back_is_struck_out_and_addresses_of_other_kinds_are_left_out(way: Way) -> None:
    hits = [
        {"url": f"https://example.com/?k={KEY}", "title": KEY, "content": None},
        {"url": "javascript:x"},
        {"url": None},
    ]
    answer(way, {"results": hits})
    (found,) = await find(make_search(way, "tavily"), way)
    assert KEY not in f"{found}"


def test_of_an_answer_with_very_many_pages_only_the_wanted_ones_are_rendered() -> None:
    rendered = 0

    def count(frame: Any, event: str, _: Any) -> None:
        nonlocal rendered
        rendered += event == "call" and frame.f_code.co_name == "_read_words"

    raw = json.dumps({"results": [HIT] * 5000}).encode()
    sys.setprofile(count)
    try:
        found = read_hits(raw, KEY, 2)
    finally:
        sys.setprofile(None)
    assert (len(found), rendered) == (2, 6)


async def test_a_service_that_wants_a_key_is_not_asked_without(way: Way) -> None:
    search = make_search(way, "brave")
    del way.keys.keys[SEARCH_API_KEY]
    with pytest.raises(SetupError, match="gatepost secret set SEARCH_API_KEY"):
        await find(search, way)


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"search.service": "searxng"}, "needs search.url"),
        ({"search.service": "searxng", "search.url": "http://127.0.0.1:8888"}, "is an address"),
        ({"search.service": "connector"}, "needs search.tool"),
        ({"search.service": "kagi", "search.price": "much"}, "search.price"),
    ],
)
def test_settings_that_cannot_work_are_told(settings: dict[str, str], why: str) -> None:
    with pytest.raises(SetupError, match=why):
        find_search_service(Config(settings))


def test_without_a_setting_there_is_no_service() -> None:
    assert find_search_service(Config()) is None
