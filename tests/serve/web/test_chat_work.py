"""The tools that an agent used for its answers, told to those who may see the conversation."""

from typing import Any

from tests.serve.web.test_chat_agents import make_member, open_room, set_up
from tests.serve.web.test_people import ANN, HERS, HOME, signed_in_as

from gatepost.core.clock import SystemClock
from gatepost.store import audit, users
from gatepost.store.audit import AuditRecord
from gatepost.store.port import Db
from gatepost.store.users import UserRole

NOTHING = {"session": "", "open": "", "turns": {}}


async def begin(site: Any, room: str = HOME) -> str:
    """A turn that is at work."""
    site.answerer.by_itself = False
    async with site.signed_in() as browser:
        answer = await browser.post(
            "/api/messages",
            data={"text": "hi", "id": "key-00001", "room": room},
            files=[("n", b"")],
        )
    turn: str = await site.answerer.begin(answer.json()["id"])
    return turn


def use_tool(db: Db, turn: str, name: str, verdict: str = "allowed") -> None:
    audit.append(db, AuditRecord(SystemClock().now(), "agent:home", name, verdict, {"turn": turn, "secret": "x"}))


async def ask(browser: Any, **where: str) -> dict[str, Any]:
    answer = await browser.get("/api/work", params=where)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def test_the_owner_sees_the_calls_of_each_turn_and_which_one_runs(site: Any) -> None:
    await site.store.write(set_up)
    turn = await begin(site)
    await site.store.write(use_tool, turn, "send")
    await site.store.write(use_tool, turn, "delete_route", "refused")
    await site.store.write(use_tool, "t-other", "spy")
    async with site.signed_in() as browser:
        found = await ask(browser, room=HOME)
        latest = await ask(browser, room=HOME, latest="1")
        other = await ask(browser, room=HOME, thread="t-1")
    assert found["open"] == turn and found["session"]
    calls = [{"name": "send", "verdict": "allowed"}, {"name": "delete_route", "verdict": "refused"}]
    assert found["turns"] == latest["turns"] == {turn: calls}
    assert other == NOTHING


async def test_guests_and_members_are_told_nothing_of_it_and_an_admin_is(site: Any) -> None:
    await site.store.write(set_up)
    await site.store.write(open_room)
    await site.store.write(use_tool, await begin(site, HERS), "send")
    async with signed_in_as(site, ANN) as browser:
        assert await ask(browser) == NOTHING
        await site.store.write(make_member)
        assert await ask(browser) == NOTHING
        await site.store.write(users.add_role, ANN, UserRole.ADMIN, "home", "test", 1)
        assert [len(calls) for calls in (await ask(browser))["turns"].values()] == [1]
        assert (await browser.get("/api/work", params={"room": HOME})).status_code == 400


async def test_a_message_names_the_turn_in_which_it_was_said(site: Any) -> None:
    async with site.signed_in() as browser:
        await browser.post("/api/messages", data={"text": "hi", "id": "key-00001", "room": HOME}, files=[("n", b"")])
        said = (await browser.get("/api/messages", params={"room": HOME})).json()["messages"]
    assert [bool(each["turn"]) for each in said] == [False, True]
