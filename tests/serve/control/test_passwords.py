"""Passwords of the web page: who may set, see and remove whose."""

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
from gatepost.store.people import identities, logins, passwords, users
from gatepost.store.people.logins import NewBrowser
from gatepost.store.people.users import UserRole
from gatepost.store.port import Db

OWNER, ANN, BEN, ANN_WEB = "web:user/owner", "telegram:user/ann", "web:user/ben", "web:user/ann"
NEW = "four words of hers"


def fill(db: Db) -> None:
    now = SystemClock().now()
    for person in (OWNER, ANN, ANN_WEB, BEN):
        users.add(db, person, "", now)
    identities.add(db, ANN_WEB, ANN, "test", now)
    users.add_role(db, OWNER, UserRole.OWNER, "", "test", now)
    passwords.put(db, ANN_WEB, "a hash", now)


def sign_in(db: Db, user: str) -> str:
    now = SystemClock().now()
    new = NewBrowser(user_id=user, way="one_time_link", device="", peer="")
    return logins.add_browser(db, new, now + HOUR, now)[1].id


@pytest.fixture
async def operation_deps(store: SqliteStore, home: Home, cheap_passwords: None) -> OperationDeps:
    await store.write(fill)
    config = Config({"web.password_login": True})
    return OperationDeps(home=home, store=store, clock=SystemClock(), config=config, events=EventBus())


async def run(operation_deps: OperationDeps, name: str, caller: str, login: str = "", **args: Any) -> Any:
    return await OPERATIONS[name](replace(operation_deps, caller=caller, login=login), args)


async def test_a_person_sees_her_name_and_whether_she_has_a_password_and_never_anothers(
    operation_deps: OperationDeps,
) -> None:
    shown = await run(operation_deps, "login.show", ANN)
    assert (shown["name"], shown["changed_at"] is not None) == ("ann", True) and "a hash" not in str(shown)
    for caller in (BEN, OWNER, OPERATOR, "telegram:user/stranger"):
        assert (await run(operation_deps, "login.show", caller))["changed_at"] is None


async def test_a_password_is_set_in_a_browser_of_its_person_and_nowhere_else(operation_deps: OperationDeps) -> None:
    bens, anns = await operation_deps.store.write(sign_in, BEN), await operation_deps.store.write(sign_in, ANN_WEB)
    for caller, login in ((OPERATOR, ""), (BEN, ""), (ANN, anns), (BEN, anns), (BEN, "lg-made-up")):
        with pytest.raises(Refused):
            await run(operation_deps, "login.set_password", caller, login, new_password=NEW)
    assert await operation_deps.store.read(passwords.get, BEN) is None
    assert (await run(operation_deps, "login.set_password", BEN, bens, new_password=NEW))["changed_at"]


async def test_where_passwords_are_off_none_is_set(operation_deps: OperationDeps) -> None:
    login = await operation_deps.store.write(sign_in, BEN)
    with pytest.raises(Invalid, match="password_login"):
        await run(replace(operation_deps, config=Config()), "login.set_password", BEN, login, new_password=NEW)


async def test_a_password_is_removed_by_its_person_by_an_owner_or_by_the_operator(
    operation_deps: OperationDeps,
) -> None:
    for caller, person in ((BEN, ANN), (BEN, ANN_WEB), (BEN, ""), (BEN, "web:user/nobody"), (OWNER, "")):
        with pytest.raises(
            NotFound, match=f"no person with a password named '{person or caller}'; `gatepost user list`"
        ):
            await run(operation_deps, "login.remove_password", caller, person=person)
    with pytest.raises(Invalid, match=r"--person ID.*gatepost user list"):
        await run(operation_deps, "login.remove_password", OPERATOR)
    for caller, person in ((ANN, ""), (OWNER, ANN), (OPERATOR, ANN_WEB)):
        await operation_deps.store.write(passwords.put, ANN_WEB, "a hash", 1)
        await operation_deps.store.write(sign_in, ANN_WEB)
        assert (await run(operation_deps, "login.remove_password", caller, person=person))["name"] == "ann"
        assert await operation_deps.store.read(passwords.get, ANN_WEB) is None
        assert (await run(operation_deps, "login.list", ANN)) == []


async def test_old_passwords_are_not_guessed_from_a_browser_that_was_stolen(
    operation_deps: OperationDeps, monkeypatch: pytest.MonkeyPatch
) -> None:
    from gatepost.serve import passwords

    monkeypatch.setattr(passwords, "TRIES", replace(passwords.TRIES, burst=2))
    login = await operation_deps.store.write(sign_in, ANN_WEB)
    for expected in ("old_password", "old_password", "too many"):
        with pytest.raises(Refused, match=expected):
            await run(operation_deps, "login.set_password", ANN_WEB, login, new_password=NEW, old_password="a guess")
