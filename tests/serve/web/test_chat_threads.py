"""Conversations in the list of the chat: named for everybody by who may write there, put on top or away by each."""

from typing import Any

import httpx2
import pytest
from tests.serve.web.test_chat_agents import make_member, set_up
from tests.serve.web.test_people import ANN, HERS, HOME, signed_in_as

from gatepost.serve.web.chat import LONGEST_NAME
from gatepost.serve.web.chat_places import list_threads as list_threads_of
from gatepost.store.port import Db
from gatepost.store.rooms import threads
from gatepost.store.rooms.threads import NamedThread, ThreadMark
from gatepost.store.sessions import sessions
from gatepost.store.sessions.sessions import SessionMode
from gatepost_testing.counting import CountingDb


async def say(browser: httpx2.AsyncClient, text: str, thread: str, room: str) -> None:
    form = {"text": text, "id": f"key-{thread}-{len(text)}", "room": room, "thread": thread}
    answer = await browser.post("/api/messages", data=form, files=[("none", ("", b""))])
    assert answer.status_code == 200, answer.text


async def act(browser: httpx2.AsyncClient, what: str, thread: str, room: str, **given: str) -> httpx2.Response:
    return await browser.post(f"/api/threads/{what}", json={"room": room, "thread": thread, **given})


async def list_threads(browser: httpx2.AsyncClient, room: str) -> dict[str, tuple[str, str]]:
    places = (await browser.get("/api/start")).json()["rooms"]
    found = next(each["threads"] for each in places if each["room"] == room)
    return {each["id"]: (each["title"], each["mark"]) for each in found}


async def test_a_name_is_everybodys_and_a_mark_ones_own(site: Any) -> None:
    await site.store.write(set_up)
    await site.store.write(make_member)
    async with signed_in_as(site, ANN) as ann, site.signed_in() as owner:
        for thread in ("one", "two"):
            await say(ann, f"first words of {thread}", thread, HERS)
        renamed = await act(ann, "name", "one", HERS, name="  The\nplan ")
        assert renamed.json() == {"ok": True, "title": "The plan"}
        assert (await act(ann, "mark", "one", HERS, mark="pinned")).status_code == 200
        assert (await act(owner, "mark", "one", HERS, mark="archived")).status_code == 200
        other = ("first words of two", "")
        assert await list_threads(ann, HERS) == {"one": ("The plan", "pinned"), "two": other}
        assert await list_threads(owner, HERS) == {"one": ("The plan", "archived"), "two": other}

        assert (await act(ann, "name", "one", HERS, name="")).json()["title"] == "first words of one"
        assert (await act(ann, "mark", "one", HERS, mark="")).status_code == 200
        assert (await list_threads(ann, HERS))["one"] == ("first words of one", "")
        assert (await list_threads(owner, HERS))["one"][1] == "archived"


async def test_nobody_names_or_marks_what_they_do_not_see_or_what_was_never_said(site: Any) -> None:
    await site.store.write(set_up)
    async with signed_in_as(site, ANN) as ann, site.signed_in() as owner:
        await say(owner, "ours", "one", HOME)
        assert (await act(ann, "name", "one", HOME, name="Mine")).status_code == 400
        assert (await act(ann, "mark", "one", HOME, mark="pinned")).status_code == 400
        for what, given in (("name", {"name": "x"}), ("mark", {"mark": "pinned"})):
            assert (await act(owner, what, "never", HOME, **given)).status_code == 404
            assert (await act(owner, what, "", HOME, **given)).status_code == 400
        assert (await act(owner, "mark", "one", HOME, mark="gone")).status_code == 400
        assert (await act(owner, "name", "one", HOME, name="x" * (LONGEST_NAME + 1))).status_code == 400
    assert await site.store.read(threads.list_names, "web", HOME) == {}


async def test_who_may_not_write_in_a_room_names_nothing_there(site: Any) -> None:
    await site.store.write(set_up)
    async with signed_in_as(site, ANN) as ann:
        await say(ann, "refused words", "one", HERS)
        found = await act(ann, "name", "one", HERS, name="Mine")
        assert found.status_code in (400, 404)
    assert await site.store.read(threads.list_names, "web", HERS) == {}


async def test_an_address_of_a_conversation_is_the_chat_and_asks_strangers_to_sign_in(site: Any) -> None:
    async with site.browser() as stranger, site.signed_in() as owner:
        for path in ("/chat/with/home", "/chat/with/people/ann?in=one"):
            assert "/static/login.js" in (await stranger.get(path)).text
            assert "/static/chat.js" in (await owner.get(path)).text


@pytest.mark.parametrize("most", [1])
async def test_names_and_marks_are_bounded(store: Any, monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    monkeypatch.setattr(threads, "MOST_NAMED", most)
    monkeypatch.setattr(threads, "MOST_MARKED", most)
    for thread, fits in (("one", True), ("one", True), ("two", False)):
        named = NamedThread("web", HOME, thread, "A name", ANN, 1)
        assert await store.write(threads.set_name, named) is fits
        assert await store.write(threads.set_mark, ANN, ("web", HOME, thread), ThreadMark.PINNED, 1) is fits
    assert await store.read(threads.list_names, "web", HOME) == {"one": "A name"}
    assert await store.read(threads.list_marks, ANN, "web", HOME) == {"one": ThreadMark.PINNED}


async def test_a_list_reads_nothing_of_the_conversations_of_other_rooms(site: Any) -> None:
    """It is read for each room of an owner's page, and in the writer when somebody names or pins one."""
    hub = site.answerer.hub

    def count(db: Db) -> int:
        counting = CountingDb(db)
        list_threads_of(counting, hub, HERS, ANN)
        return counting.read_rows

    def add_elsewhere(db: Db) -> None:
        for number in range(300):
            sessions.find_or_add(db, SessionMode.PER_THREAD, "home", "fake", f"fake:room/{number}", "t", 1)

    await site.store.write(set_up)
    async with site.signed_in() as owner:
        await say(owner, "ours", "one", HERS)
    before = await site.store.read(count)
    await site.store.write(add_elsewhere)
    assert await site.store.read(count) == before
