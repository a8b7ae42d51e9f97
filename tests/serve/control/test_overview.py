"""overview.show: who sees which agents, and which steps are offered to whom."""

from typing import Any

import pytest

from gatepost.core.clock import HOUR, Period, SystemClock
from gatepost.core.errors import NotFound
from gatepost.core.event_bus import EventBus
from gatepost.core.home import Home
from gatepost.core.records import replace
from gatepost.core.settings import Config
from gatepost.flow.overview import AwakeSandbox
from gatepost.messages.inbound import OPERATOR
from gatepost.serve.control.contract import OPERATIONS, OperationDeps
from gatepost.store.engine.sqlite_store import SqliteStore
from gatepost.store.messages import inbox
from gatepost.store.money import budgets
from gatepost.store.money.budgets import BudgetScope, BudgetScopeKind
from gatepost.store.people import users
from gatepost.store.people.users import UserRole
from gatepost.store.port import Db
from gatepost.store.rights import acl, requests, switches
from gatepost.store.rights.acl import AclRow
from gatepost.store.rights.requests import NewRequest, RequestKind
from gatepost.store.sessions import agents, errands, groups, sessions, turns
from gatepost.store.sessions.agents import NewAgent
from gatepost.store.sessions.errands import NewErrand
from gatepost.store.sessions.sessions import Session, SessionMode
from gatepost_testing.arrivals import add_arrival

pytestmark = pytest.mark.anyio

OWNER, ADA, GUEST = "web:user/owner", "telegram:user/9", "telegram:user/10"
FOLDERS = ("acme", "acme/eng", "acme/ops", "beta")


def fill(db: Db) -> None:
    now = SystemClock().now()
    users.add(db, OWNER, "", now)
    users.add_role(db, OWNER, UserRole.OWNER, "", "test", now)
    for folder in FOLDERS:
        groups.add(db, folder, folder.title(), "claude", now)
    acl.put(db, AclRow(id=0, principal=ADA, action="op:overview.read", scope="acme/*"), now)


@pytest.fixture
async def operation_deps(store: SqliteStore, home: Home) -> OperationDeps:
    await store.write(fill)
    return OperationDeps(home=home, store=store, clock=SystemClock(), config=Config(), events=EventBus())


async def show(operation_deps: OperationDeps, caller: str = OPERATOR, **args: Any) -> dict[str, Any]:
    found: dict[str, Any] = await OPERATIONS["overview.show"](replace(operation_deps, caller=caller), args)
    return found


def list_ids(found: dict[str, Any]) -> list[str]:
    return sorted(each["id"] for each in found["agents"])


def find(found: dict[str, Any], agent: str) -> dict[str, Any]:
    return next(each for each in found["agents"] if each["id"] == agent)


def add_session(db: Db, folder: str) -> Session:
    return sessions.find_or_add(
        db, SessionMode.SHARED, folder, "fake", f"fake:room/{folder}", "", SystemClock().now() - HOUR
    )


def ask(db: Db, folder: str) -> None:
    session = add_session(db, folder)
    new = NewRequest(
        kind=RequestKind.TOOL,
        name="n",
        digest=folder,
        folder=folder,
        session_id=session.id,
        turn_id="t",
        tool="Bash",
        input={},
        why="it deletes files",
    )
    requests.add(db, new, SystemClock().now())


async def test_each_sees_the_groups_where_they_have_the_right_and_nobody_is_refused(
    operation_deps: OperationDeps,
) -> None:
    for caller in (OPERATOR, OWNER):
        found = await show(operation_deps, caller)
        assert (found["extent"], list_ids(found)) == ("all", sorted(FOLDERS))
    hers = await show(operation_deps, ADA)
    assert (hers["extent"], list_ids(hers), hers["total"]) == ("some", ["acme/eng", "acme/ops"], 2)
    theirs = await show(operation_deps, GUEST)
    assert (theirs["extent"], theirs["agents"], sum(theirs["counts"].values())) == ("nothing", [], 0)


async def test_a_denial_hides_a_group_again(operation_deps: OperationDeps) -> None:
    row = AclRow(id=0, principal=ADA, action="op:*", scope="acme/ops", effect=acl.AclEffect.DENY)
    await operation_deps.store.write(acl.put, row, 1)
    assert list_ids(await show(operation_deps, ADA)) == ["acme/eng"]


async def test_requests_and_agents_of_groups_that_one_may_not_see_are_not_even_counted(
    operation_deps: OperationDeps,
) -> None:
    await operation_deps.store.write(ask, "beta")
    await operation_deps.store.write(agents.create, NewAgent(folder="beta", provider="claude", title="secret plan"), 1)
    hers = await show(operation_deps, ADA)
    assert hers["counts"]["waiting"] == 0 and "secret" not in str(hers) and hers["homeless"] == 0
    assert (await show(operation_deps, OWNER))["counts"]["waiting"] == 1


async def test_a_step_is_offered_to_who_may_do_it(operation_deps: OperationDeps) -> None:
    await operation_deps.store.write(ask, "acme/eng")
    owners = find(await show(operation_deps, OWNER), "acme/eng")
    assert owners["next"]["operation"] == "permit.answer"
    assert owners["next"]["args"] == {"id": owners["request"]["id"]}
    assert owners["next"]["command"] == f"gatepost permit allow {owners['request']['id']}"
    hers = find(await show(operation_deps, ADA), "acme/eng")
    assert (hers["state"], hers["request"]["what"], hers["next"]) == ("waiting", "Bash", None)


async def test_a_budget_may_be_raised_with_the_right_in_that_group(operation_deps: OperationDeps) -> None:
    def spend(db: Db) -> None:
        now = SystemClock().now()
        budgets.put(db, BudgetScope(BudgetScopeKind.GROUP, "acme/eng"), Period.DAY, 10, "test", now)
        budgets.add_spending(db, "acme/eng", "", now, spent=10)
        acl.put(db, AclRow(id=0, principal=ADA, action="op:budgets.write", scope="acme/eng"), now)

    await operation_deps.store.write(spend)
    hers = find(await show(operation_deps, ADA), "acme/eng")
    assert (hers["state"], hers["next"]["operation"], hers["next"]["args"]) == (
        "over_budget",
        "budget.set",
        {"folder": "acme/eng"},
    )
    assert hers["budget"] == {"folder": "acme/eng", "period": "day", "limit": 10, "spent": 10}


async def test_an_errand_shows_who_waits_for_whom_and_hides_the_name_of_a_hidden_group(
    operation_deps: OperationDeps,
) -> None:
    def give(db: Db) -> None:
        caller, worker = add_session(db, "beta"), add_session(db, "acme/eng")
        message = add_arrival(db, 1, address="x", platform_id="1", sender="a", text="do it")
        errand = NewErrand(
            id=errands.make_id(),
            call_key="k",
            parent="",
            caller_folder="beta",
            caller_session=caller.id,
            caller_turn="",
            rights="owner",
            instance="fake",
            address="x",
            thread="",
            folder="acme/eng",
            session_id=worker.id,
            room="r",
            message_id=message,
        )
        errands.add(db, errand, SystemClock().now())

    await operation_deps.store.write(give)
    [seen] = find(await show(operation_deps, OWNER), "beta")["waits"]
    assert (seen["who"], seen["whom"], seen["what"], seen["count"]) == ("beta", "acme/eng", "errand", 1)
    [hers] = find(await show(operation_deps, ADA), "acme/eng")["waits"]
    assert (hers["who"], hers["whom"]) == ("another group", "acme/eng")


def hear(db: Db, sender: str = ADA, folder: str = "beta") -> int:
    session = add_session(db, folder)
    message = add_arrival(db, 1, address="fake:room/1", platform_id=f"{sender}/{folder}", sender=sender, text="do it")
    inbox.enqueue(db, message, session.id, folder, "member", SystemClock().now())
    return message


async def why(operation_deps: OperationDeps, caller: str, message: object) -> dict[str, Any]:
    found: dict[str, Any] = await OPERATIONS["overview.why"](
        replace(operation_deps, caller=caller), {"message": str(message)}
    )
    return found


async def test_whoever_wrote_a_message_is_told_why_it_has_no_answer_and_others_as_their_rights_let_them(
    operation_deps: OperationDeps,
) -> None:
    hers = await operation_deps.store.write(hear, ADA, "beta")
    theirs = await operation_deps.store.write(hear, GUEST, "beta")
    shared = await operation_deps.store.write(hear, GUEST, "acme/eng")
    assert (await why(operation_deps, ADA, hers))["text"].startswith("It is next: Beta")
    assert (await why(operation_deps, ADA, shared))["text"].startswith("It is next: Acme/Eng")
    assert (await why(operation_deps, OWNER, theirs))["text"].startswith("It is second in line: Beta")
    hidden = (
        (ADA, theirs),
        (GUEST, hers),
        (ADA, 999),
        (ADA, f"{ADA}/beta"),
        (ADA, "²"),
        (ADA, "9" * 30),
    )
    for caller, message in hidden:
        with pytest.raises(NotFound):
            await why(operation_deps, caller, message)
    assert (await why(operation_deps, OPERATOR, f"{ADA}/beta"))["text"].startswith("It is next: Beta")


async def test_the_step_that_helps_is_for_who_may_do_it_and_says_if_it_is_decided_elsewhere(
    operation_deps: OperationDeps,
) -> None:
    message = await operation_deps.store.write(hear, ADA, "beta")
    await operation_deps.store.write(switches.turn_on, switches.name_rest("beta"), "", "op", 1)
    hers, owners = await why(operation_deps, ADA, message), await why(operation_deps, OWNER, message)
    assert hers["text"] == owners["text"] == "Beta is at rest. It is kept."
    assert (hers["next"], hers["label"]) == (None, "")
    assert (owners["next"]["operation"], owners["next"]["args"]) == ("group.wake", {"folder": "beta"})
    assert (owners["label"], owners["asks"]) == ("Wake it", False)

    def hold(db: Db) -> None:
        asked = NewRequest(kind=RequestKind.BUDGET, name="day 1 group beta", folder="beta", input={"more": "$2.00"})
        request = requests.add(db, asked, 1)[0]
        db.run("UPDATE inbox SET state = 'held', reason = ? WHERE message_id = ?", (request.id, message))

    await operation_deps.store.write(hold)
    money = await why(operation_deps, OWNER, message)
    assert (money["label"], money["asks"], money["next"]["operation"]) == ("Allow $2.00 more", False, "permit.answer")
    assert (await why(operation_deps, ADA, message))["next"] is None


async def test_parts_words_folders_and_pages_choose_among_the_agents(operation_deps: OperationDeps) -> None:
    await operation_deps.store.write(ask, "acme/ops")
    assert list_ids(await show(operation_deps, part="attention")) == ["acme/ops"]
    assert list_ids(await show(operation_deps, part="idle")) == ["acme", "acme/eng", "beta"]
    assert list_ids(await show(operation_deps, words="ENG claude")) == ["acme/eng"]
    assert list_ids(await show(operation_deps, folder="acme")) == ["acme", "acme/eng", "acme/ops"]
    first, second = await show(operation_deps, limit=3), await show(operation_deps, start=3, limit=3)
    assert (len(first["agents"]), first["total"]) == (3, 4)
    assert first["agents"][0]["id"] == "acme/ops"
    assert sorted([*list_ids(first), *list_ids(second)]) == sorted(FOLDERS)


async def test_a_running_turn_has_its_sandbox_and_a_long_one_may_be_stopped(operation_deps: OperationDeps) -> None:
    session = await operation_deps.store.write(add_session, "beta")

    def work(db: Db) -> None:
        now = SystemClock().now()
        turns.TURNS.put(
            db,
            id="t-1",
            session_id=session.id,
            folder="beta",
            provider="claude",
            instance="fake",
            address="x",
            thread="",
            rights="owner",
            state="begun",
            next_at=now,
            owner="me",
            lease_until=now + HOUR,
            started_at=now - HOUR,
        )

    await operation_deps.store.write(work)
    operation_deps.extra["awake"] = lambda: [AwakeSandbox(session.id, "beta")]
    agent = find(await show(operation_deps), "beta")
    assert (agent["state"], agent["sandboxes"], agent["next"]["args"]) == ("working", 1, {"id": session.id})
    assert agent["next"]["operation"] == "session.stop"


async def test_a_panic_and_requests_without_a_group_are_shown_to_the_owner(operation_deps: OperationDeps) -> None:
    def stop(db: Db) -> None:
        switches.turn_on(db, switches.PANIC, "smoke", "op", 5_000_000)
        requests.add(db, NewRequest(kind=RequestKind.ROOM, name="fake:room/1", input={}), 1)

    await operation_deps.store.write(stop)
    found = await show(operation_deps, OWNER)
    assert (found["panic"]["reason"], found["homeless"]) == ("smoke", 1)
