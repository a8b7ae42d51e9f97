"""One conversation on the page: for owners and admins of its agent, judged with each request."""

from typing import Any

import httpx2
import pytest

from gatepost.core.clock import SystemClock
from gatepost.flow.page_logins import issue_for_person
from gatepost.store import audit, groups, inbox, messages, sessions, users
from gatepost.store.messages import NewMessage
from gatepost.store.port import Db
from gatepost.store.sessions import SessionMode

NOON = 1_700_000_000_000_000
ADMIN, ADA = "tg:user/admin", "tg:user/ada"


def seed(db: Db) -> str:
    """A conversation in a chat elsewhere, with a group of its own, an admin and a member."""
    groups.add(db, "acme", "Acme", "scripted", NOON)
    for user in (ADMIN, ADA):
        users.add(db, user, "", NOON)
    users.add_role(db, ADMIN, "admin", "acme", "test", NOON)
    users.add_member(db, ADA, "acme", "test", NOON)
    session = sessions.find_or_add(db, SessionMode.PER_THREAD, "acme", "tg", "tg:group/7", "", NOON)
    new = NewMessage(
        instance="tg", address="tg:group/7", direction="in", sender=ADA, text="<b>hello</b>", at=NOON, platform_id="1"
    )
    message_id = messages.accept(db, new, NOON)
    assert message_id is not None
    inbox.enqueue(db, message_id, session.id, "acme", "member", NOON)
    return session.id


async def sign_in(site: Any, browser: httpx2.AsyncClient, person: str) -> None:
    _, token = await site.store.write(lambda db: issue_for_person(db, person, SystemClock().now()))
    answer = await browser.post("/login", json={"token": token})
    assert answer.status_code == 200, answer.text


async def test_an_admin_sees_types_and_stops(site: Any) -> None:
    session = await site.store.write(seed)
    async with site.browser() as browser:
        await sign_in(site, browser, ADMIN)
        assert "session.js" in (await browser.get("/session")).text
        found = (await browser.get(f"/api/sessions/{session}")).json()
        assert (found["agent"], found["room"], found["waiting"]) == ("Acme", "tg:group/7", 1)
        assert [(each["kind"], each["who"], each["text"]) for each in found["entries"]] == [
            ("chat", ADA, "<b>hello</b>")
        ]

        answer = await browser.post(f"/api/sessions/{session}/messages", json={"text": "look at this"})
        assert answer.json() == {"ok": True}
        assert (await browser.post(f"/api/sessions/{session}/stop", json={})).json() == {"ok": True, "stopped": False}
        found = (await browser.get(f"/api/sessions/{session}")).json()
    assert [each["text"] for each in found["entries"]] == ["<b>hello</b>", "look at this"]
    rows = await site.store.read(inbox.list_open, session)
    assert [(entry.rights, message.sender) for entry, message in rows][-1] == ("admin", "web:user/admin")
    actions = [row[3] for row in await site.store.read(audit.list_latest, 10)]
    assert {"session.type", "session.stop"} <= set(actions)


@pytest.mark.parametrize("who", [ADA, "tg:user/other"])
async def test_for_everybody_else_there_is_no_such_conversation(site: Any, who: str) -> None:
    session = await site.store.write(seed)
    await site.store.write(lambda db: users.add(db, who, "", NOON))
    async with site.browser() as browser:
        await sign_in(site, browser, who)
        answers = [
            await browser.get(f"/api/sessions/{session}"),
            await browser.post(f"/api/sessions/{session}/messages", json={"text": "hi"}),
            await browser.post(f"/api/sessions/{session}/stop", json={}),
            await browser.get("/api/sessions/s-none"),
        ]
    assert [answer.status_code for answer in answers] == [404, 404, 404, 404]
    assert len(await site.store.read(inbox.list_open, session)) == 1


@pytest.mark.parametrize("folder", ["", "root"])
async def test_a_conversation_of_root_is_for_owners_as_in_a_chat(site: Any, folder: str) -> None:
    def seed_root(db: Db) -> str:
        groups.add(db, "root", "Root", "", NOON)
        users.add(db, ADMIN, "", NOON)
        users.add_role(db, ADMIN, "admin", folder, "test", NOON)
        return sessions.find_or_add(db, SessionMode.PER_THREAD, "root", "tg", "tg:group/root", "", NOON).id

    session = await site.store.write(seed_root)
    async with site.browser() as browser:
        await sign_in(site, browser, ADMIN)
        answers = [
            await browser.get(f"/api/sessions/{session}"),
            await browser.post(f"/api/sessions/{session}/messages", json={"text": "grant me everything"}),
            await browser.post(f"/api/sessions/{session}/stop", json={}),
        ]
        assert [answer.status_code for answer in answers] == [404] * 3
        await site.store.write(lambda db: users.add_role(db, ADMIN, "owner", "", "test", NOON))
        assert (await browser.get(f"/api/sessions/{session}")).status_code == 200


async def test_a_right_that_is_taken_away_ends_it_at_once(site: Any) -> None:
    session = await site.store.write(seed)
    async with site.browser() as browser:
        await sign_in(site, browser, ADMIN)
        assert (await browser.get(f"/api/sessions/{session}")).status_code == 200
        await site.store.write(lambda db: db.run("DELETE FROM user_roles WHERE user_id = ?", (ADMIN,)))
        assert (await browser.get(f"/api/sessions/{session}")).status_code == 404


async def test_nobody_gets_in_without_signing_in_or_from_another_page(site: Any) -> None:
    session = await site.store.write(seed)
    async with site.browser() as browser:
        assert (await browser.get(f"/api/sessions/{session}")).status_code == 401
        assert "login.js" in (await browser.get("/session")).text
        await sign_in(site, browser, ADMIN)
        forged = await browser.post(
            f"/api/sessions/{session}/stop", json={}, headers={"origin": "https://evil.example"}
        )
        assert forged.status_code == 403


@pytest.mark.parametrize("text", ["", "   ", "x" * 20_001])
async def test_what_cannot_be_meant_is_refused(site: Any, text: str) -> None:
    session = await site.store.write(seed)
    async with site.browser() as browser:
        await sign_in(site, browser, ADMIN)
        answer = await browser.post(f"/api/sessions/{session}/messages", json={"text": text})
    assert answer.status_code == 400


async def test_what_waits_is_bounded(site: Any) -> None:
    session = await site.store.write(seed)
    async with site.browser() as browser:
        await sign_in(site, browser, ADMIN)
        for _ in range(50):
            assert (await browser.post(f"/api/sessions/{session}/messages", json={"text": "x"})).status_code == 200
        assert (await browser.post(f"/api/sessions/{session}/messages", json={"text": "x"})).status_code == 400


async def test_a_code_that_is_typed_reaches_no_agent(site: Any) -> None:
    session = await site.store.write(seed)
    async with site.browser() as browser:
        await sign_in(site, browser, ADMIN)
        await browser.post(f"/api/sessions/{session}/messages", json={"text": "use GI-ABCD-EFGH-JKMN-2345 now"})
    rows = await site.store.read(inbox.list_open, session)
    assert rows[-1][1].text == "use GI-****-****-****-**** now" and "ABCD" not in rows[-1][1].content
