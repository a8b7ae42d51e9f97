"""Who answers in a conversation of the page, and who is told what it runs on and costs."""

from typing import Any

import pytest
from tests.serve.web.test_people import ANN, HERS, HOME, signed_in_as

from gatepost.core.clock import SystemClock
from gatepost.flow.sessions.runner.turn_timeline import make_timeline_entry
from gatepost.mailbox.runner_frames import EventFrame, EventKind
from gatepost.serve.web import chat_agents
from gatepost.store.money import costs
from gatepost.store.people import users
from gatepost.store.people.users import UserRole
from gatepost.store.port import Db
from gatepost.store.rights import audit
from gatepost.store.rights.audit import AuditRecord
from gatepost.store.rooms import rooms, routes
from gatepost.store.rooms.rooms import RoomPolicy
from gatepost.store.sessions import groups, sessions, timeline

NOTHING = {"session": "", "open": "", "turns": {}}


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


async def test_the_commands_that_are_offered_are_those_that_the_visitor_may_give_there(site: Any) -> None:
    async def list_commands(browser: Any, **where: str) -> dict[str, str]:
        found = (await browser.get("/api/agents", params=where)).json()["commands"]
        return {each["name"]: each["help"] for each in found}

    await site.store.write(set_up)
    async with signed_in_as(site, ANN) as ann, site.signed_in() as owner:
        assert await list_commands(ann) == {}
        await site.store.write(open_room)
        guest = await list_commands(ann)
        await site.store.write(make_member)
        member, admin = await list_commands(ann), await list_commands(owner, room=HOME)
        assert guest.keys() < member.keys() < admin.keys()
        assert "stop" in guest and "usage" in member and "clear" in admin.keys() - member.keys()
        assert not {"approve", "deny", "answer", "pair", "join", "ping", "chatid"} & admin.keys()
        assert not any("`" in words for words in admin.values())


async def test_a_member_may_choose_among_the_models_of_the_agent(site: Any) -> None:
    async def list_models(browser: Any, **where: str) -> list[str]:
        return list((await browser.get("/api/agents", params=where)).json()["models"])

    await site.store.write(set_up)
    await site.store.write(open_room)
    async with signed_in_as(site, ANN) as ann, site.signed_in() as owner:
        assert await list_models(owner, room=HOME) == []  # a script has none
        await site.store.write(lambda db: db.run("UPDATE groups SET provider = 'anthropic'"))
        assert await list_models(ann) == []  # she is a guest
        await site.store.write(make_member)
        found = await list_models(ann)
        assert len(found) > 1 and found == await list_models(owner, room=HOME)
        options = f'{{"chat_models": "{found[0]},{found[1]}"}}'
        await site.store.write(lambda db: db.run("UPDATE groups SET options = ?", (options,)))
        assert await list_models(ann) == found[:2]


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


@pytest.mark.slow
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


def tell_tool(db: Db, session: str, turn: str, call: str, name: str, failed: bool | None = None) -> None:
    """As a runner tells it: a call, and what came of it."""
    used = EventFrame("t", EventKind.TOOL_USE, {"id": call, "tool": name, "input": {"command": "ls " * 1000}})
    frames = [used]
    if failed is not None:
        frames.append(EventFrame("t", EventKind.TOOL_RESULT, {"id": call, "text": "out", "error": failed}))
    for frame in frames:
        entry = make_timeline_entry(frame)
        assert entry is not None
        timeline.add(db, session, turn, *entry, SystemClock().now())


async def test_an_agents_own_tools_are_told_beside_those_of_the_gate_and_each_call_once(site: Any) -> None:
    await site.store.write(set_up)
    turn = await begin(site)
    async with site.signed_in() as browser:
        session = (await ask(browser, room=HOME))["session"]
        await site.store.write(tell_tool, session, turn, "1", "Bash", False)
        await site.store.write(tell_tool, session, turn, "2", "send")  # the gate's: the agent tells of it, too
        await site.store.write(use_tool, turn, "send")
        await site.store.write(tell_tool, session, turn, "3", "<b>" + "x" * 500, True)
        await site.store.write(tell_tool, session, turn, "4", "Read")
        await site.store.write(tell_tool, session, "t-other", "5", "Spy")
        found = await ask(browser, room=HOME)
    assert [(each["name"], each["verdict"]) for each in found["turns"][turn]] == [
        ("Bash", ""),
        ("send", "allowed"),
        ("<b>" + "x" * 97, "failed"),
        ("Read", ""),
    ]


@pytest.mark.slow
async def test_what_is_read_of_a_timeline_is_bounded(site: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chat_agents, "MOST_TOLD", 1)
    await site.store.write(set_up)
    turn = await begin(site)
    async with site.signed_in() as browser:
        session = (await ask(browser, room=HOME))["session"]
        for number in range(40):
            await site.store.write(tell_tool, session, turn, str(number), f"Tool{number}")
        assert len((await ask(browser, room=HOME))["turns"][turn]) == chat_agents.MOST_TURNS
        assert len((await ask(browser, room=HOME, latest="1"))["turns"][turn]) == chat_agents.LATEST


async def test_guests_and_members_are_told_nothing_of_it_and_an_admin_is(site: Any) -> None:
    await site.store.write(set_up)
    async with signed_in_as(site, ANN) as browser:  # first: nobody gets a room in which something was said before
        await site.store.write(open_room)
        await site.store.write(use_tool, await begin(site, HERS), "send")
        assert await ask(browser) == NOTHING
        await site.store.write(make_member)
        assert await ask(browser) == NOTHING
        await site.store.write(users.add_role, ANN, UserRole.ADMIN, "home", "test", 1)
        assert [len(calls) for calls in (await ask(browser))["turns"].values()] == [1]
        assert (await browser.get("/api/work", params={"room": HOME})).status_code == 400


@pytest.mark.slow
async def test_a_message_names_the_turn_in_which_it_was_said(site: Any) -> None:
    async with site.signed_in() as browser:
        await browser.post("/api/messages", data={"text": "hi", "id": "key-00001", "room": HOME}, files=[("n", b"")])
        said = (await browser.get("/api/messages", params={"room": HOME})).json()["messages"]
    assert [bool(each["turn"]) for each in said] == [False, True]
