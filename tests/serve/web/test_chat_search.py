"""Search on the page: what is found, by whom, and where a hit leads."""

from typing import Any

import pytest
from tests.serve.web.test_people import ANN, HERS, HOME, signed_in_as, write

from gatepost.serve.web.chat_search import make_query
from gatepost.store.people import users
from gatepost.store.port import Db


def add_ann(db: Db) -> None:
    users.add(db, ANN, "Ann", 1)


async def find(browser: Any, words: str, **more: str) -> list[dict[str, Any]]:
    answer = await browser.get("/api/search", params={"q": words, **more})
    assert answer.status_code == 200, answer.text
    return list(answer.json()["hits"])


async def test_what_was_said_last_is_found_by_the_beginnings_of_its_words(site: Any) -> None:
    async with site.signed_in() as browser:
        await write(browser, "zebra-crossing", HOME)
        hits = await find(browser, "zeb cross")
        assert {(each["mine"], each["room"], each["thread"]) for each in hits} == {(True, HOME, ""), (False, HOME, "")}
        assert all("«zebra" in each["snippet"] for each in hits)
        assert await find(browser, "zebra unicorn") == []


async def test_nobody_finds_what_was_said_in_a_room_that_she_does_not_see(site: Any) -> None:
    await site.store.write(add_ann)
    async with site.signed_in() as owner, signed_in_as(site, ANN) as browser:
        await write(owner, "secretplan", HOME)
        await write(browser, "herplan")
        assert await find(browser, "secretplan") == []
        assert {each["room"] for each in await find(browser, "herplan")} == {HERS}
        assert (await browser.get("/api/search", params={"q": "secretplan", "room": HOME})).status_code == 400
        assert {each["room"] for each in await find(owner, "herplan")} == {HERS}
        assert await find(owner, "herplan", room=HOME) == []


async def test_a_reply_that_was_not_said_yet_is_not_found(site: Any) -> None:
    async with site.signed_in() as browser:
        await write(browser, "hello", HOME)
        await site.answerer.say(HOME, "", "premature", key="early", delivered=False)
        assert await find(browser, "premature") == []
        await site.answerer.deliver(HOME, "early")
        assert len(await find(browser, "premature")) == 1


@pytest.mark.slow
async def test_a_hit_leads_to_a_page_that_has_it_and_some_that_came_after(site: Any) -> None:
    async with site.signed_in() as browser:
        wanted = await site.answerer.say(HOME, "", "the needle", key="needle")
        for number in range(100):
            await site.answerer.say(HOME, "", f"hay {number}", key=f"hay{number}")
        page = (await browser.get("/api/messages", params={"room": HOME, "around": wanted})).json()
    assert [each["text"] for each in page["messages"]] == ["the needle", *(f"hay {number}" for number in range(20))]


@pytest.mark.parametrize(
    ("typed", "query"),
    [
        ("", ""),
        ('" -- *', ""),
        ("one two", '"one"* AND "two"*'),
        ("a OR b", '"a" AND "OR"* AND "b"'),
        ('say "hi" NEAR(x', '"say"* AND "hi"* AND "NEAR(x"*'),
    ],
)
def test_what_is_typed_is_words_and_no_query(typed: str, query: str) -> None:
    assert make_query(typed) == query


async def test_no_sign_that_somebody_types_breaks_the_search(site: Any) -> None:
    async with site.signed_in() as browser:
        for typed in ("NEAR(", 'a"b', "x:y", "^z", "{a b}", "-", "日本", "\x00a", "a" * 500, "*", "(((("):
            await find(browser, typed)
