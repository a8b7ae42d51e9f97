"""Browsers that are signed in: whose are listed to whom, and who may end which."""

from typing import Any

import pytest

from gatepost.core.clock import HOUR, SystemClock
from gatepost.core.errors import Invalid, NotFound, Refused
from gatepost.core.event_bus import EventBus
from gatepost.core.home import Home
from gatepost.core.records import replace
from gatepost.core.settings import Config
from gatepost.messages.inbound import OPERATOR
from gatepost.serve.control.contract import OPERATIONS, OperationDeps
from gatepost.store.engine.sqlite_store import SqliteStore
from gatepost.store.people import identities, logins, users
from gatepost.store.people.logins import NewBrowser
from gatepost.store.people.users import UserRole
from gatepost.store.port import Db
from gatepost.store.rights import acl, audit
from gatepost.store.rights.acl import AclRow

OWNER, ANN, BEN, CLERK = "web:user/owner", "telegram:user/ann", "web:user/ben", "web:user/clerk"
ANN_WEB = "web:user/ann"


def fill(db: Db) -> dict[str, str]:
    """By person, the id of their browser."""
    now = SystemClock().now()
    for person in (OWNER, ANN, ANN_WEB, BEN, CLERK):
        users.add(db, person, person.rpartition("/")[2].title(), now)
    identities.add(db, ANN_WEB, ANN, "test", now)
    users.add_role(db, OWNER, UserRole.OWNER, "", "test", now)
    acl.put(db, AclRow(id=0, principal=CLERK, action="op:*", scope="acme/**"), now)
    found = {}
    for person in (OWNER, ANN_WEB, BEN):
        new = NewBrowser(user_id=person, way="one_time_link", device="Firefox on Linux", peer="::1")
        found[person] = logins.add_browser(db, new, now + HOUR, now)[1].id
    return found


@pytest.fixture
async def browsers(store: SqliteStore) -> dict[str, str]:
    return await store.write(fill)


@pytest.fixture
def operation_deps(store: SqliteStore, home: Home, browsers: dict[str, str]) -> OperationDeps:
    return OperationDeps(home=home, store=store, clock=SystemClock(), config=Config(), events=EventBus())


async def run(operation_deps: OperationDeps, name: str, caller: str, login: str = "", **args: Any) -> Any:
    return await OPERATIONS[name](replace(operation_deps, caller=caller, login=login), args)


async def list_ids(operation_deps: OperationDeps, caller: str = OPERATOR, **args: Any) -> set[str]:
    return {each["id"] for each in await run(operation_deps, "login.list", caller, **args)}


@pytest.mark.parametrize("caller", [ANN, ANN_WEB])
async def test_a_person_sees_her_own_browsers_whatever_she_is_called_by(
    operation_deps: OperationDeps, browsers: dict[str, str], caller: str
) -> None:
    (found,) = await run(operation_deps, "login.list", caller, login=browsers[ANN_WEB])
    assert (found["id"], found["person"], found["is_this"]) == (browsers[ANN_WEB], "Ann", True)
    assert "hash" not in found


@pytest.mark.parametrize("caller", [ANN, BEN, CLERK])
async def test_those_of_everybody_are_for_who_has_the_right(operation_deps: OperationDeps, caller: str) -> None:
    with pytest.raises(Refused, match="op:logins"):
        await run(operation_deps, "login.list", caller, everybody=True)


async def test_an_owner_sees_her_own_and_on_request_all(
    operation_deps: OperationDeps, browsers: dict[str, str]
) -> None:
    assert await list_ids(operation_deps, OWNER) == {browsers[OWNER]}
    assert (
        await list_ids(operation_deps, OWNER, everybody=True)
        == set(browsers.values())
        == await list_ids(operation_deps)
    )


@pytest.mark.parametrize("caller", [BEN, CLERK])
async def test_nobody_ends_or_learns_of_a_browser_of_somebody_else(
    operation_deps: OperationDeps, browsers: dict[str, str], caller: str
) -> None:
    for wanted in (browsers[OWNER], browsers[ANN_WEB], "lg-made-up", "", "x" * 10_000):
        with pytest.raises(NotFound) as refused:
            await run(operation_deps, "login.end", caller, id=wanted)
        assert len(str(refused.value)) < 300
    for person in (OWNER, ANN, ANN_WEB, "web:user/nobody"):
        with pytest.raises(NotFound):
            await run(operation_deps, "login.end_all", caller, person=person)
    assert await list_ids(operation_deps) == set(browsers.values())


async def test_a_browser_is_ended_by_its_person_or_by_an_owner_and_the_audit_has_it(
    operation_deps: OperationDeps, browsers: dict[str, str]
) -> None:
    woken: list[int] = []
    operation_deps.events.on_logins(lambda: woken.append(1))
    assert (await run(operation_deps, "login.end", ANN, id=browsers[ANN_WEB]))["user_id"] == ANN_WEB
    assert (await run(operation_deps, "login.end", OWNER, id=browsers[BEN]))["user_id"] == BEN
    assert await list_ids(operation_deps) == {browsers[OWNER]} and len(woken) == 2
    (record,) = await operation_deps.store.read(audit.list_latest, 1)
    assert record[2:5] == (OWNER, "login.end", "done")


async def test_a_person_signs_out_everywhere_or_everywhere_else(
    operation_deps: OperationDeps, browsers: dict[str, str]
) -> None:
    kept = await run(operation_deps, "login.end_all", ANN, login=browsers[ANN_WEB], keep_this=True)
    assert (kept["person"], kept["ended"]) == (ANN, 0) and browsers[ANN_WEB] in await list_ids(operation_deps)
    assert (await run(operation_deps, "login.end_all", ANN, login=browsers[ANN_WEB]))["ended"] == 1
    assert await list_ids(operation_deps) == {browsers[OWNER], browsers[BEN]}


async def test_an_owner_and_the_operator_sign_somebody_out_by_any_of_her_names(
    operation_deps: OperationDeps, browsers: dict[str, str]
) -> None:
    assert (await run(operation_deps, "login.end_all", OWNER, person=ANN))["ended"] == 1
    assert (await run(operation_deps, "login.end_all", OPERATOR, person=BEN))["ended"] == 1
    with pytest.raises(Invalid, match="whose"):
        await run(operation_deps, "login.end_all", OPERATOR)
    with pytest.raises(NotFound):
        await run(operation_deps, "login.end_all", OPERATOR, person="web:user/nobody")
