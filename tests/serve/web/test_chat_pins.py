"""Pins of a room: by who may write there, bounded, found by everybody there."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest
from tests.serve.web.test_chat_agents import make_member, set_up
from tests.serve.web.test_people import ANN, HERS, HOME, signed_in_as

from gatepost.serve.web.chat_pins import MOST_CHANGED, PinChanges
from gatepost.store.messages import messages
from gatepost.store.rooms import rooms
from gatepost.store.schedule.retention import remove_message
from gatepost_testing.waiting import PATIENCE_S


async def say(browser: httpx2.AsyncClient, text: str, key: str, room: str = HOME) -> int:
    form = {"text": text, "id": key, "room": room}
    answer = await browser.post("/api/messages", data=form, files=[("none", ("", b""))])
    number: int = answer.json()["id"]
    return number


async def pin(browser: httpx2.AsyncClient, message: object, on: object = True, room: str = HOME) -> httpx2.Response:
    return await browser.post("/api/pins", json={"room": room, "message": message, "on": on})


async def list_pins(browser: httpx2.AsyncClient, **where: str) -> list[dict[str, Any]]:
    answer = await browser.get("/api/pins", params=where)
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()["pins"]
    return found


async def test_what_is_pinned_is_listed_the_latest_first_and_once(site: Any) -> None:
    await site.store.write(set_up)
    async with site.signed_in() as browser:
        first, second = await say(browser, "the  first\nword", "key-00001"), await say(browser, "second", "key-00002")
        for message in (first, second, first):
            assert (await pin(browser, message)).status_code == 200
        found = await list_pins(browser, room=HOME)
        assert [(each["id"], each["text"], each["mine"]) for each in found] == [
            (second, "second", True),
            (first, "the first word", True),
        ]
        assert (await pin(browser, second, on=False)).json()["pins"] == [found[1]]
        assert (await pin(browser, second, on=False)).status_code == 200


async def test_a_message_of_another_room_or_of_none_is_not_pinned(site: Any) -> None:
    await site.store.write(set_up)
    async with site.signed_in() as browser:
        there = await say(browser, "elsewhere", "key-00001", "web:other")
        for message in (there, 10**9):
            assert (await pin(browser, message)).status_code == 404
        for message, on in (("1", True), (True, None), (-1, True), (2**60, True), (there, "yes")):
            assert (await pin(browser, message, on)).status_code in (400, 404)
        assert await list_pins(browser, room=HOME) == []


async def test_who_may_not_write_in_her_room_pins_nothing_there_and_no_other_room_is_hers(site: Any) -> None:
    await site.store.write(set_up)
    async with site.signed_in() as owner, signed_in_as(site, ANN) as browser:
        message, other = await say(owner, "welcome", "key-00001", HERS), await say(owner, "secret", "key-00002")
        await pin(owner, other)
        refused = await pin(browser, message, room=HERS)
        assert refused.status_code == 400 and "may not write" in refused.json()["error"]["text"]
        await site.store.write(make_member)
        assert (await pin(browser, message, room=HERS)).status_code == 200
        assert (await pin(browser, other, False, room=HERS)).status_code == 404
        assert (await pin(browser, other, False)).status_code == 400
        assert [each["text"] for each in await list_pins(browser)] == ["welcome"]


async def test_a_room_has_so_many_pins(site: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rooms, "MOST_PINS", 2)
    await site.store.write(set_up)
    async with site.signed_in() as browser:
        said = [await say(browser, f"word {number}", f"key-{number:05}") for number in range(3)]
        answers = [await pin(browser, message) for message in said]
    assert [each.status_code for each in answers] == [200, 200, 400]
    assert "unpin one first" in answers[2].json()["error"]["text"]


async def test_a_message_that_is_removed_takes_its_pin_along(site: Any) -> None:
    await site.store.write(set_up)
    site.answerer.by_itself = False
    async with site.signed_in() as browser:
        message = await say(browser, "refuse me", "key-00001")
        await pin(browser, message)
        assert len(await list_pins(browser, room=HOME)) == 1
        await site.store.write(remove_message, message)
        assert await site.store.read(messages.get, message) is None
        assert await list_pins(browser, room=HOME) == []


async def read_until(lines: AsyncIterator[str], wanted: str) -> list[str]:
    """The data of the events of pins that came before a word."""
    found: list[str] = []
    kind = ""
    async with asyncio.timeout(PATIENCE_S):
        async for line in lines:
            if wanted in line:
                return found
            name, _, value = line.partition(": ")
            kind = value if name == "event" else kind
            if name == "data" and kind == "pins":
                found.append(json.loads(value)["room"])
    raise AssertionError(f"the stream ended before {wanted!r}")


@pytest.mark.slow
async def test_open_pages_are_told_which_room_has_other_pins_and_only_of_rooms_that_are_theirs(site: Any) -> None:
    await site.store.write(set_up)
    await site.store.write(make_member)
    site.answerer.by_itself = False
    async with site.signed_in() as owner, site.signed_in() as acting, signed_in_as(site, ANN) as ann:
        hers, other = await say(acting, "welcome", "key-00001", HERS), await say(acting, "secret", "key-00002")
        async with owner.stream("GET", "/api/events") as first, ann.stream("GET", "/api/events") as second:
            mine, theirs = first.aiter_lines(), second.aiter_lines()
            assert await read_until(mine, "cursor") == await read_until(theirs, "cursor") == [""]
            assert (await pin(acting, other)).status_code == 200
            assert (await pin(acting, hers, room=HERS)).status_code == 200
            await say(acting, "the-end", "key-00003", HERS)
            assert set(await read_until(mine, "the-end")) == {HOME, HERS}
            assert await read_until(theirs, "the-end") == [HERS]


def test_the_rooms_that_are_remembered_are_bounded() -> None:
    changes = PinChanges()
    for number in range(MOST_CHANGED + 50):
        changes.add(f"web:{number}")
        changes.add("web:home")
    assert len(changes.list_since(0, "")) == MOST_CHANGED
    assert changes.list_since(changes.newest - 1, "") == ["web:home"]
    assert changes.list_since(0, "web:elsewhere") == []
