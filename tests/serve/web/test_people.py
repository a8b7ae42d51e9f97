"""Several people sign in to the page, each as themselves: with their rights, and with their own room alone."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest

from gatepost.core.clock import SystemClock
from gatepost.core.errors import NotFound
from gatepost.flow import pairing
from gatepost.flow.people import personal_routes
from gatepost.serve.web.signin.one_time_link import make_login_url
from gatepost.store.messages import messages
from gatepost.store.people import identities, users
from gatepost.store.people.users import UserRole
from gatepost.store.port import Db
from gatepost.store.sessions import groups
from gatepost_testing.waiting import PATIENCE_S

ANN, HERS, HOME = "fake:user/ann", "web:people/ann", "web:home"


def add_ann(db: Db) -> None:
    users.add(db, ANN, "Ann", 1)


async def make_token(site: Any, person: str) -> str:
    url = await make_login_url(site.store, SystemClock(), site.answerer.hub, site.base, person)
    return url.partition("#token=")[2]


@asynccontextmanager
async def signed_in_as(site: Any, person: str) -> AsyncIterator[httpx2.AsyncClient]:
    async with site.browser() as browser:
        answer = await browser.post("/login", json={"token": await make_token(site, person)})
        assert answer.status_code == 200, answer.text
        yield browser


async def write(browser: httpx2.AsyncClient, text: str, room: str = "", file: bytes = b"") -> httpx2.Response:
    files = [("file", ("note.txt", file))] if file else [("none", ("", b""))]
    return await browser.post("/api/messages", data={"text": text, "id": "key-" + text, "room": room}, files=files)


async def test_she_writes_as_herself_in_a_room_of_her_own(site: Any) -> None:
    await site.store.write(add_ann)
    async with signed_in_as(site, ANN) as browser:
        start = (await browser.get("/api/start")).json()
        assert start["room"] == HERS and [each["room"] for each in start["rooms"]] == [HERS]
        assert (await write(browser, "hello-from-ann")).json()["ok"]
    (message, *_) = await site.store.read(messages.list_in_room, "web", HERS, 0, 10)
    assert (message.sender, message.text) == ("web:user/ann", "hello-from-ann")
    assert await site.store.read(identities.get_person, "web:user/ann") == ANN
    assert (await site.store.read(users.get_roles, "web:user/ann")).roles == ()


async def test_her_room_has_her_name_and_leads_to_the_only_group_that_knows_her(site: Any) -> None:
    def add_member(db: Db) -> None:
        add_ann(db)
        groups.add(db, "family", "Family", "", 1)
        users.add_member(db, ANN, "family", "test", 1)

    await site.store.write(add_member)
    async with signed_in_as(site, ANN) as browser:
        assert [each["name"] for each in (await browser.get("/api/start")).json()["rooms"]] == ["Ann"]
    chat = personal_routes.PersonalChat("web", HERS, "web:user/ann")
    assert await site.store.read(personal_routes.list_reached, chat) == ["family"]


@pytest.mark.slow
async def test_she_sees_nothing_of_the_owners_rooms(site: Any) -> None:
    await site.store.write(add_ann)
    async with site.signed_in() as owner, signed_in_as(site, ANN) as browser:
        sent = (await write(owner, "the-owners-secret", HOME, b"secret file")).json()
        assert (await owner.get(f"/api/files/{sent['id']}/0")).status_code == 200
        assert (await browser.get(f"/api/files/{sent['id']}/0")).status_code == 404
        assert (await browser.get("/api/messages", params={"room": HOME})).status_code == 400
        assert (await write(browser, "into-the-owners-room", HOME)).status_code == 400
        async with browser.stream("GET", "/api/events", params={"after": "0"}) as stream:
            await write(browser, "her-own-words")
            got = ""
            async with asyncio.timeout(PATIENCE_S):
                async for line in stream.aiter_lines():
                    got += line
                    if "her-own-words" in line and '"mine":true' in line:
                        break
        assert "the-owners-secret" not in got and HOME not in got
        assert HERS in [each["room"] for each in (await owner.get("/api/start")).json()["rooms"]]


async def test_a_second_address_is_for_the_same_identity(site: Any) -> None:
    await site.store.write(add_ann)
    for _ in range(2):
        await make_token(site, ANN)
    assert await site.store.read(identities.list_names, ANN) == (ANN, "web:user/ann")


async def test_two_people_of_one_name_have_rooms_of_their_own(site: Any) -> None:
    await site.store.write(add_ann)
    await site.store.write(users.add, "fake:user/other", "Ann", 1)
    for person, room in ((ANN, HERS), ("fake:user/other", "web:people/ann-2")):
        async with signed_in_as(site, person) as browser:
            assert (await browser.get("/api/start")).json()["room"] == room


async def test_nobody_becomes_the_owner_by_her_name(site: Any) -> None:
    await site.new_token()  # the owner has used the page
    await site.store.write(users.add, "fake:user/owner", "owner", 1)
    async with signed_in_as(site, "fake:user/owner") as browser:
        assert (await browser.get("/api/start")).json()["room"] == "web:people/owner-2"


async def test_an_owner_sees_every_room_by_whichever_identity(site: Any) -> None:
    await site.store.write(add_ann)
    await site.store.write(users.add_role, ANN, UserRole.OWNER, "", "test", 1)
    async with signed_in_as(site, ANN) as browser:
        assert (await browser.get("/api/start")).json()["room"] == HOME


async def test_unpaired_she_is_signed_out_and_her_stream_ends(site: Any) -> None:
    await site.store.write(add_ann)
    async with signed_in_as(site, ANN) as browser, browser.stream("GET", "/api/events") as stream:
        lines = stream.aiter_lines()
        async with asyncio.timeout(PATIENCE_S):
            await anext(lines)
            await site.store.write(pairing.unpair, "web:user/ann")
            site.answerer.hub.ring_all()
            async for _ in lines:
                pass
        assert (await browser.get("/api/start")).status_code == 401


async def test_somebody_unknown_gets_no_address(site: Any) -> None:
    with pytest.raises(NotFound, match="gatepost user add fake:user/nobody"):
        await make_token(site, "fake:user/nobody")


async def test_what_another_person_wrote_is_not_mine(site: Any) -> None:
    await site.store.write(add_ann)
    await site.store.write(users.add_role, ANN, UserRole.OWNER, "", "test", 1)
    async with site.signed_in() as owner, signed_in_as(site, ANN) as ann:
        assert (await write(ann, "from-ann", HOME)).json()["ok"]
        assert (await write(owner, "from-the-owner", HOME)).json()["ok"]
        for browser, own in ((ann, "from-ann"), (owner, "from-the-owner")):
            page = (await browser.get("/api/messages", params={"room": HOME})).json()["messages"]
            assert [one["text"] for one in page if one["mine"]] == [own]
            assert sorted(one["text"] for one in page if one["incoming"]) == ["from-ann", "from-the-owner"]


async def test_only_ones_own_room_is_direct_also_for_an_owner(site: Any) -> None:
    """What a direct room is for, such as cards for an owner, is not shown in the room of somebody else."""
    await site.store.write(add_ann)
    await site.store.write(users.add, "fake:user/boss", "Boss", 1)
    await site.store.write(users.add_role, "fake:user/boss", UserRole.OWNER, "", "test", 1)
    async with signed_in_as(site, ANN) as ann, signed_in_as(site, "fake:user/boss") as boss:
        assert (await write(ann, "from-ann")).json()["ok"]
        for number, room in enumerate((HERS, "web:team", HOME, "web:people/boss")):
            assert (await write(boss, f"from-boss-{number}", room)).json()["ok"]
    found = [(each.sender, each.address, each.direct) for each in site.answerer.received]
    assert found == [
        ("web:user/ann", HERS, True),
        ("web:user/boss", HERS, False),
        ("web:user/boss", "web:team", False),
        ("web:user/boss", HOME, True),
        ("web:user/boss", "web:people/boss", True),
    ]


async def test_a_stop_is_her_own_word_in_her_own_room_and_in_no_other(site: Any) -> None:
    await site.store.write(add_ann)
    async with signed_in_as(site, ANN) as browser:
        order = {"room": "", "thread": "t-1", "id": "stop-0001"}
        first, again = [await browser.post("/api/stop", json=order) for _ in range(2)]
        assert (first.json()["new"], again.json()["new"]) == (True, False)
        refused = [
            await browser.post("/api/stop", json={**order, **wrong})
            for wrong in ({"room": HOME}, {"id": "short"}, {"thread": "t" * 600}, {"room": 7})
        ]
        assert [each.status_code for each in refused] == [400] * 4
    (stop,) = site.answerer.received[:1]
    assert (stop.sender, stop.address, stop.thread, stop.text) == ("web:user/ann", HERS, "t-1", "/stop")
    assert stop.direct
    assert all(each.platform_id == "stop-0001" for each in site.answerer.received)


@pytest.mark.slow
async def test_a_reaction_is_hers_to_what_was_said_in_her_room_alone(site: Any) -> None:
    await site.store.write(add_ann)
    async with site.signed_in() as owner, signed_in_as(site, ANN) as browser:
        await write(owner, "secret", HOME)
        await write(browser, "hello")
        said = [(await each.get("/api/messages")).json()["messages"][-1] for each in (owner, browser)]
        theirs, hers = ({"room": "", "key": each["key"], "reaction": "👍"} for each in said)
        assert (await browser.post("/api/reactions", json=hers)).json()["new"]
        refused = [
            (await browser.post("/api/reactions", json=each)).status_code
            for each in (theirs, {**theirs, "room": HOME}, {**hers, "reaction": "<b>"}, {**hers, "key": "k" * 3000})
        ]
        assert refused == [404, 400, 400, 404]
    reaction = site.answerer.received[2]
    assert (reaction.sender, reaction.verb, reaction.text) == ("web:user/ann", "like", "")
    assert reaction.event == "reaction:👍:web:user/ann"


async def test_the_page_speaks_as_the_browser_asks_until_a_person_chooses(site: Any) -> None:
    await site.store.write(add_ann)
    async with signed_in_as(site, ANN) as browser:
        for header, word in (("de-DE,en;q=0.5", "Sprache"), ("fr, en;q=0.1", "Language"), ("x" * 9000, "Language")):
            assert word in (await browser.get("/dashboard/logins", headers={"accept-language": header})).text
        chosen = await browser.post("/dashboard/do/user.language", data={"language": "en"})
        assert chosen.status_code == 200
        assert "Language" in (await browser.get("/dashboard/logins", headers={"accept-language": "de"})).text
        for given in ({"language": "tlh"}, {"language": "de", "id": "web:user/owner"}):
            assert (await browser.post("/dashboard/do/user.language", data=given)).status_code in (400, 403)
    owner = await site.store.read(users.get, "web:user/owner")
    assert owner is None or owner.language == ""
