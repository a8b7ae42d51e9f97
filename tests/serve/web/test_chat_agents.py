"""Who answers in a conversation of the page, and who is told what it runs on and costs."""

from typing import Any

from tests.serve.web.test_people import ANN, HERS, HOME, signed_in_as

from gatepost.store.money import costs
from gatepost.store.people import users
from gatepost.store.port import Db
from gatepost.store.rooms import rooms, routes
from gatepost.store.rooms.rooms import RoomPolicy
from gatepost.store.sessions import groups, sessions


def set_up(db: Db) -> None:
    users.add(db, ANN, "Ann", 1)
    groups.add(db, "home", "Helper", "scripted", 1)
    route = routes.Route(seq=1, match="platform=web", target="home", folder="home", created_by="test", created_at=1)
    routes.add(db, route)


def open_room(db: Db) -> None:
    rooms.add(db, "web", HERS, "", True, RoomPolicy.PUBLIC, 1)


def make_member(db: Db) -> None:
    users.add_member(db, ANN, "home", "test", 1)


def spend(db: Db) -> None:
    session = sessions.find_or_add(db, sessions.SessionMode.PER_THREAD, "home", "web", HOME, "", 1)
    sessions.set_model(db, session.id, "opus")
    new = costs.NewCost(key="c1", at=1, folder="home", session_id=session.id, model="opus", micro=420_000)
    costs.record_cost(db, new, "test", 1)


async def list_agents(browser: Any, **where: str) -> list[dict[str, Any]]:
    answer = await browser.get("/api/agents", params=where)
    assert answer.status_code == 200, answer.text
    return list(answer.json()["agents"])


async def test_the_owner_sees_the_agent_its_model_and_what_the_conversation_cost(site: Any) -> None:
    await site.store.write(set_up)
    async with site.signed_in() as browser:
        (before,) = await list_agents(browser, room=HOME)
        assert (before["name"], before["provider"], before["cost"]) == ("Helper", "scripted", "$0.00")
        await site.store.write(spend)
        (agent,) = await list_agents(browser, room=HOME)
        (other,) = await list_agents(browser, room=HOME, thread="t-1")
    assert (agent["model"], agent["cost"], agent["working"]) == ("opus", "$0.42", False)
    assert (other["model"], other["cost"]) == ("", "$0.00")


async def test_a_guest_is_told_the_name_alone_and_a_member_the_rest(site: Any) -> None:
    await site.store.write(set_up)
    async with signed_in_as(site, ANN) as browser:
        assert await list_agents(browser) == []  # the room lets no guest in
        await site.store.write(open_room)
        assert await list_agents(browser) == [{"folder": "home", "name": "Helper"}]
        await site.store.write(make_member)
        (agent,) = await list_agents(browser)
        assert (agent["provider"], agent["cost"]) == ("scripted", "$0.00")
        assert (await browser.get("/api/agents", params={"room": HOME})).status_code == 400


async def test_a_room_without_an_agent_has_none(site: Any) -> None:
    async with site.signed_in() as browser:
        assert await list_agents(browser, room="web:empty") == []


async def test_one_may_choose_whom_routes_lead_to_and_those_below_as_far_as_one_may_speak_there(site: Any) -> None:
    def add_more(db: Db) -> None:
        set_up(db)
        groups.add(db, "home/garden", "", "scripted", 1)
        groups.add(db, "elsewhere", "", "scripted", 1)
        users.add_member(db, ANN, "home/garden", "test", 1)

    await site.store.write(add_more)
    async with site.signed_in() as owner, signed_in_as(site, ANN) as browser:
        chosen = [(await each.get("/api/agents")).json()["choices"] for each in (owner, browser)]
    assert [each["folder"] for each in chosen[0]] == ["home", "home/garden"]
    assert chosen[0][0]["name"] == "Helper"
    assert [each["folder"] for each in chosen[1]] == ["home/garden"]
