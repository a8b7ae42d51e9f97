"""/status and /usage: what runs, what waits, what it costs."""

import pytest
from msgspec.structs import replace

from gatepost.core.clock import DAY, Period
from gatepost.store.money import budgets, costs
from gatepost.store.money.budgets import BudgetScope, BudgetScopeKind, CapSpan
from gatepost.store.money.costs import NewCost
from gatepost.store.port import Db
from gatepost.store.rights import acl, requests, switches
from gatepost.store.rights.acl import AclRow
from gatepost.store.rights.requests import NewRequest, RequestKind
from gatepost.store.schedule import tasks
from gatepost.store.schedule.tasks import NewTask, ScheduleKind
from gatepost.store.sessions import groups, sessions
from gatepost.store.sessions.sessions import SessionMode
from gatepost_testing.clock import NOON

from .conftest import ADA, BOB, GUEST, OWNER, CommandDesk

pytestmark = pytest.mark.anyio


async def test_status_before_anything_was_said_makes_no_conversation(desk: CommandDesk) -> None:
    assert await desk.ask("/status") == (
        "Agent: Home (home)\nProvider: scripted\nModel: the agent's own choice\n"
        "Now: nothing; this conversation has not begun"
    )
    assert await desk.store.read(sessions.list_open) == []


async def test_status_says_for_whom_the_agent_works_and_what_waits(desk: CommandDesk) -> None:
    await desk.do(lambda db: groups.update(db, "home", {"model": "m-1"}))
    await desk.say("work", ADA)
    await desk.claim()
    await desk.say("later", BOB)
    desk.clock.advance(5)

    hers, his = await desk.ask("/status", ADA), await desk.ask("/status", BOB)
    assert "Model: m-1\n" in hers
    assert "Now: working for you since 5 s\nWaiting messages: 1" in hers
    assert "Now: working for somebody else since 5 s" in his


async def test_status_shows_what_is_the_conversations_own_and_a_panic(desk: CommandDesk) -> None:
    await desk.say("hello")
    session = await desk.session()
    await desk.do(lambda db: sessions.set_provider(db, session.id, "demo"))
    await desk.do(lambda db: sessions.set_model(db, session.id, "m-2"))
    await desk.do(lambda db: switches.turn_on(db, switches.PANIC, "smoke", "op", NOON))

    told = await desk.ask("/status")
    assert "Provider: demo (of this conversation)\nModel: m-2 (of this conversation)" in told
    assert "Everything is stopped by the operator: smoke." in told


async def test_status_and_usage_are_for_members(desk: CommandDesk) -> None:
    assert await desk.ask("/status", GUEST) == "Only a member of this agent may use /status."
    assert await desk.ask("/usage", GUEST) == "Only a member of this agent may use /usage."


def spend(session: str, key: str, micro: int, at: int) -> NewCost:
    return NewCost(key=key, at=at, folder="home", model="m", micro=micro, user=ADA, session_id=session)


async def test_usage_tells_the_conversations_cost_and_what_is_left(desk: CommandDesk) -> None:
    await desk.say("hello")
    session = (await desk.session()).id
    for new in (spend(session, "a", 250_000, NOON), spend(session, "b", 1_000_000, NOON - DAY)):
        await desk.do(lambda db, new=new: costs.add_external(db, new, NOON))
    await desk.do(lambda db: costs.add_external(db, spend("s-other", "c", 5_000_000, NOON), NOON))
    limit = BudgetScope(BudgetScopeKind.USER, ADA)
    await desk.do(lambda db: budgets.put(db, limit, Period.DAY, 6_000_000, "op", NOON))

    assert await desk.ask("/usage", ADA) == (
        "This conversation: $0.25 today, $1.25 this month\nYou, today: $5.25 of $6.00 spent, $0.75 left"
    )
    assert "There is no budget" in await desk.ask("/usage", BOB)


async def test_usage_tells_what_is_left_of_the_limit_of_a_conversation(desk: CommandDesk) -> None:
    await desk.say("hello")
    session = (await desk.session()).id
    await desk.do(lambda db: costs.add_external(db, spend(session, "a", 250_000, NOON), NOON))
    everything = BudgetScope(BudgetScopeKind.INSTANCE)
    await desk.do(lambda db: budgets.put(db, everything, CapSpan.SESSION, 1_000_000, "op", NOON))
    assert await desk.ask("/usage", ADA) == (
        "This conversation: $0.25 today, $0.25 this month, $0.75 left of $1.00 until /new"
    )


async def test_usage_names_the_limits_of_answers_runs_and_conversations(desk: CommandDesk) -> None:
    everything = BudgetScope(BudgetScopeKind.INSTANCE)
    for at, span in enumerate(CapSpan, start=1):
        await desk.do(lambda db, at=at, span=span: budgets.put(db, everything, span, at * 1_000_000, "op", NOON))
    answers = ["Each answer: at most $1.00", "Each run of a task: at most $2.00"]
    of_all = [*answers, "Each conversation: at most $3.00"]
    assert (await desk.ask("/usage", ADA)).splitlines() == ["This conversation has cost nothing yet.", *of_all]
    await desk.say("hello")
    assert (await desk.ask("/usage", ADA)).splitlines()[1:] == answers


async def test_usage_without_a_conversation(desk: CommandDesk) -> None:
    assert (await desk.ask("/usage")).startswith("This conversation has cost nothing yet.")


async def test_status_says_when_the_next_task_of_the_room_runs(desk: CommandDesk) -> None:
    await desk.say("hello")
    session = await desk.session()
    new = NewTask(
        folder="home",
        instance=session.instance,
        address=session.address,
        prompt="the secret plan",
        kind=ScheduleKind.EVERY,
        schedule="1d",
        every=DAY,
        zone="Asia/Tokyo",
        next_at=NOON,
        created_by="operator",
    )
    await desk.do(lambda db: tasks.add(db, new, (), 0, NOON))
    await desk.do(lambda db: tasks.add(db, replace(new, address="fake:room/other", next_at=NOON - DAY), (), 0, NOON))

    told = await desk.ask("/status")
    assert "Next scheduled task: 2027-01-15 17:00 Asia/Tokyo" in told and "plan" not in told


def ask_elsewhere(db: Db, folder: str) -> None:
    groups.add(db, folder, "", "scripted", NOON)
    session = sessions.find_or_add(db, SessionMode.SHARED, folder, "fake", f"fake:room/{folder}", "", NOON)
    new = NewRequest(
        kind=RequestKind.CALL, name="n", digest="d", folder=folder, session_id=session.id, turn_id="t", input={}
    )
    requests.add(db, new, NOON)


async def test_status_names_who_needs_somebody_elsewhere_in_a_direct_chat_alone(desk: CommandDesk) -> None:
    await desk.do(lambda db: ask_elsewhere(db, "acme"))
    desk.clock.advance(180)
    own = {"address": "fake:user/owner", "direct": True}
    told = await desk.ask("/status", OWNER, **own)
    assert "Elsewhere: 1 need somebody, 0 have work\n- acme: waits for a person, 3 min" in told
    assert "Elsewhere" not in await desk.ask("/status", OWNER)


async def test_status_tells_each_of_the_agents_that_they_may_see(desk: CommandDesk) -> None:
    for folder in ("acme", "beta"):
        await desk.do(lambda db, folder=folder: ask_elsewhere(db, folder))
    own = {"address": "fake:user/ada", "direct": True}
    assert "Elsewhere" not in await desk.ask("/status", ADA, **own)
    row = AclRow(id=0, principal=ADA, action="op:overview.read", scope="beta")
    await desk.do(lambda db: acl.put(db, row, NOON))
    told = await desk.ask("/status", ADA, **own)
    assert "- beta: waits for a person" in told and "acme" not in told


async def test_status_lists_a_few_and_counts_the_rest(desk: CommandDesk) -> None:
    for number in range(8):
        await desk.do(lambda db, number=number: ask_elsewhere(db, f"g{number}"))
    told = await desk.ask("/status", OWNER, address="fake:user/owner", direct=True)
    assert "Elsewhere: 8 need somebody" in told and told.count("- g") == 5 and "… and 3 more" in told
