"""One conversation: for who has the right and for owners and admins of its agent, judged with each request."""

from typing import Any

import pytest

from gatepost.core.clock import SystemClock
from gatepost.core.errors import GatepostError, Invalid, NotFound, Refused
from gatepost.core.event_bus import EventBus
from gatepost.core.home import Home
from gatepost.core.records import replace
from gatepost.core.settings import Config
from gatepost.messages.inbound import OPERATOR
from gatepost.serve.control.contract import OPERATIONS, OperationDeps
from gatepost.store.engine.sqlite_store import SqliteStore
from gatepost.store.messages import inbox
from gatepost.store.money import costs
from gatepost.store.money.costs import NewCost
from gatepost.store.people import users
from gatepost.store.people.users import UserRole
from gatepost.store.port import Db
from gatepost.store.rights import audit
from gatepost.store.sessions import groups, sessions, turn_claims, turns
from gatepost.store.sessions.sessions import SessionMode
from gatepost_testing.arrivals import add_arrival

NOON = 1_700_000_000_000_000
ADMIN, ADA = "tg:user/admin", "tg:user/ada"


def seed(db: Db) -> str:
    """A conversation in a chat elsewhere, with a group of its own, an admin and a member."""
    groups.add(db, "acme", "Acme", "scripted", NOON)
    for user in (ADMIN, ADA):
        users.add(db, user, "", NOON)
    users.add_role(db, ADMIN, UserRole.ADMIN, "acme", "test", NOON)
    users.add_member(db, ADA, "acme", "test", NOON)
    session = sessions.find_or_add(db, SessionMode.PER_THREAD, "acme", "tg", "tg:group/7", "", NOON)
    message_id = add_arrival(
        db, NOON, instance="tg", address="tg:group/7", sender=ADA, text="<b>hello</b>", platform_id="1"
    )
    inbox.enqueue(db, message_id, session.id, "acme", "member", NOON)
    return session.id


@pytest.fixture
def deps(store: SqliteStore, home: Home) -> OperationDeps:
    return OperationDeps(home=home, store=store, clock=SystemClock(), config=Config(), events=EventBus())


async def run(deps: OperationDeps, caller: str, name: str, **args: Any) -> Any:
    return await OPERATIONS[name](replace(deps, caller=caller), args)


async def test_an_admin_sees_speaks_stops_and_resets(deps: OperationDeps) -> None:
    session = await deps.store.write(seed)
    found = await run(deps, ADMIN, "session.show", id=session)
    assert (found["agent"], found["address"], found["waiting"], found["speaks"]) == ("Acme", "tg:group/7", 1, True)
    assert [(each["kind"], each["who"], each["text"]) for each in found["events"]] == [("message", ADA, "<b>hello</b>")]

    said = await run(deps, ADMIN, "session.send", id=session, text="look at this")
    assert await run(deps, ADMIN, "session.stop", id=session) == {"id": session, "stopped": False}
    rows = await deps.store.read(inbox.list_open, session)
    assert [(entry.rights, message.sender, message.id) for entry, message in rows][-1] == (
        "admin",
        ADMIN,
        said["message"],
    )
    await deps.store.write(lambda db: sessions.set_conversation(db, session, "scripted", "c-1", NOON))
    await run(deps, ADMIN, "session.reset", id=session)
    assert await deps.store.read(sessions.get_conversation, session, "scripted") == ""
    recorded = await deps.store.read(audit.list_latest, 10)
    assert {"session.send", "session.stop", "session.reset"} <= {row[3] for row in recorded}
    assert "look at this" not in str(recorded)


async def test_the_time_line_has_turns_with_their_cost_and_pages_back(deps: OperationDeps) -> None:
    session = await deps.store.write(seed)

    def work(db: Db) -> str:
        claimed = turn_claims.claim(db, session, "scripted", "o", NOON + 5, 1000, 10, ready=True)
        assert claimed is not None
        spent = NewCost(
            key="k", at=NOON + 6, folder="acme", model="m", micro=1500, session_id=session, turn_id=claimed.turn.id
        )
        costs.record_cost(db, spent, "model", NOON + 6)
        turns.finish(db, claimed.turn.id, claimed.turn.epoch, "{}", NOON + 7)
        return claimed.turn.id

    turn = await deps.store.write(work)
    for number in range(3):
        await run(deps, ADMIN, "session.send", id=session, text=f"word {number}")
    found = await run(deps, "operator", "session.show", id=session)
    [ended] = [each for each in found["events"] if each["kind"] == "turn"]
    assert (ended["ref"], ended["state"], ended["cost"], found["cost"]) == (turn, "done", 1500, 1500)
    assert found["speaks"] is False  # the operator is nobody to the agent

    newest = await run(deps, ADMIN, "session.show", id=session, limit=2)
    assert [each["text"] for each in newest["events"]] == ["word 1", "word 2"] and newest["older"]
    older = await run(deps, ADMIN, "session.show", id=session, before=newest["older"])
    assert [each["text"] for each in older["events"] if each["kind"] == "message"] == ["<b>hello</b>", "word 0"]
    assert older["older"] == 0 and len([each for each in older["events"] if each["kind"] == "turn"]) == 1


@pytest.mark.parametrize("who", [ADA, "tg:user/other"])
async def test_for_everybody_else_there_is_no_such_conversation(deps: OperationDeps, who: str) -> None:
    session = await deps.store.write(seed)
    await deps.store.write(lambda db: users.add(db, who, "", NOON))
    for name, args in (
        ("session.show", {}),
        ("session.send", {"text": "hi"}),
        ("session.stop", {}),
        ("session.reset", {}),
    ):
        for named in (session, "s-none"):
            with pytest.raises(NotFound, match="you are no owner or admin of its agent"):
                await run(deps, who, name, id=named, **args)
    assert len(await deps.store.read(inbox.list_open, session)) == 1


async def test_the_operator_is_told_where_conversations_are_listed(deps: OperationDeps) -> None:
    with pytest.raises(NotFound, match="`gatepost session list` shows them"):
        await run(deps, OPERATOR, "session.show", id="s-none")


@pytest.mark.parametrize("folder", ["", "root"])
async def test_a_conversation_of_root_is_for_owners_as_in_a_chat(deps: OperationDeps, folder: str) -> None:
    def seed_root(db: Db) -> str:
        groups.add(db, "root", "Root", "", NOON)
        users.add(db, ADMIN, "", NOON)
        users.add_role(db, ADMIN, UserRole.ADMIN, folder, "test", NOON)
        return sessions.find_or_add(db, SessionMode.PER_THREAD, "root", "tg", "tg:group/root", "", NOON).id

    session = await deps.store.write(seed_root)
    for name, args in (("session.show", {}), ("session.send", {"text": "grant me all"}), ("session.stop", {})):
        with pytest.raises(NotFound):
            await run(deps, ADMIN, name, id=session, **args)
    await deps.store.write(lambda db: users.add_role(db, ADMIN, UserRole.OWNER, "", "test", NOON))
    assert (await run(deps, ADMIN, "session.show", id=session))["id"] == session


async def test_a_right_that_is_taken_away_ends_it_at_once(deps: OperationDeps) -> None:
    session = await deps.store.write(seed)
    await run(deps, ADMIN, "session.show", id=session)
    await deps.store.write(lambda db: db.run("DELETE FROM user_roles WHERE user_id = ?", (ADMIN,)))
    with pytest.raises(NotFound):
        await run(deps, ADMIN, "session.show", id=session)


async def test_a_row_for_the_right_lets_see_and_stop_but_not_speak(deps: OperationDeps) -> None:
    """Words to an agent carry the rights of who says them."""
    session = await deps.store.write(seed)
    for right in ("op:sessions.read", "op:sessions.write"):
        await run(deps, "operator", "acl.add", principal=ADA, action=right, scope="acme")
    assert (await run(deps, ADA, "session.show", id=session))["speaks"] is False
    await run(deps, ADA, "session.stop", id=session)
    with pytest.raises(Refused, match="owners and admins of its agent speak there"):
        await run(deps, ADA, "session.send", id=session, text="hi")


@pytest.mark.parametrize("text", ["", "   ", "x" * 20_001])
async def test_what_cannot_be_meant_is_refused(deps: OperationDeps, text: str) -> None:
    session = await deps.store.write(seed)
    with pytest.raises(Invalid):
        await run(deps, ADMIN, "session.send", id=session, text=text)


async def test_what_waits_is_bounded(deps: OperationDeps) -> None:
    session = await deps.store.write(seed)
    for _ in range(50):
        await run(deps, ADMIN, "session.send", id=session, text="x")
    with pytest.raises(GatepostError, match="wait until the agent has answered some"):
        await run(deps, ADMIN, "session.send", id=session, text="x")


async def test_a_code_that_is_said_reaches_no_agent(deps: OperationDeps) -> None:
    session = await deps.store.write(seed)
    await run(deps, ADMIN, "session.send", id=session, text="use GI-ABCD-EFGH-JKMN-2345 now")
    rows = await deps.store.read(inbox.list_open, session)
    assert rows[-1][1].text == "use GI-****-****-****-**** now" and "ABCD" not in rows[-1][1].content
