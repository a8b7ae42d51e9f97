"""The operations on passkeys: a person's own, and those of everybody for whom may."""

from typing import Any

import pytest

from gatepost.core.clock import SystemClock
from gatepost.core.errors import NotFound, Refused
from gatepost.core.event_bus import EventBus
from gatepost.core.home import Home
from gatepost.core.records import replace
from gatepost.core.settings import Config
from gatepost.messages.inbound import OPERATOR
from gatepost.serve.control.contract import OPERATIONS, OperationDeps
from gatepost.store.engine.sqlite_store import SqliteStore
from gatepost.store.people import identities, passkeys, users
from gatepost.store.people.passkeys import NewPasskey
from gatepost.store.port import Db

ANN, BOB, CHAT = "web:user/ann", "web:user/bob", "telegram:user/9"


@pytest.fixture
async def deps(store: SqliteStore, home: Home) -> OperationDeps:

    def write(db: Db) -> None:
        for user, name in ((CHAT, "Ann"), (ANN, "Ann"), (BOB, "Bob")):
            users.add(db, user, name, 1)
        identities.add(db, ANN, CHAT, "test", 1)
        for number, user in enumerate((ANN, BOB)):
            passkeys.add(db, _make_passkey(user, number), 1)

    await store.write(write)
    config = Config({"web.passkey_login": True})
    return OperationDeps(home=home, store=store, clock=SystemClock(), config=config, events=EventBus())


def _make_passkey(user: str, number: int) -> NewPasskey:
    return NewPasskey(
        credential_id=bytes([number]),
        credential=b"secret-looking",
        user_id=user,
        user_handle=b"handle",
        host="agents.example",
        sign_count=0,
        label=f"Phone {number}",
    )


async def run(deps: OperationDeps, caller: str, name: str, **args: Any) -> Any:
    return await OPERATIONS[name](replace(deps, caller=caller), args)


async def test_a_person_sees_her_own_by_any_of_her_identities(deps: OperationDeps) -> None:
    for caller in (ANN, CHAT):
        found = await run(deps, caller, "passkey.list")
        assert [(each["label"], each["person"]) for each in found["passkeys"]] == [("Phone 0", "Ann")]
        assert found["is_on"] is True
        assert not {"credential", "credential_id", "user_handle"} & found["passkeys"][0].keys()


async def test_the_operator_sees_all_and_others_need_the_right(deps: OperationDeps) -> None:
    assert len((await run(deps, OPERATOR, "passkey.list"))["passkeys"]) == 2
    with pytest.raises(Refused, match=r"op:logins\.read"):
        await run(deps, BOB, "passkey.list", everybody=True)


async def test_nobody_removes_what_is_somebody_elses(deps: OperationDeps) -> None:
    found = (await run(deps, ANN, "passkey.list"))["passkeys"][0]
    with pytest.raises(NotFound):
        await run(deps, BOB, "passkey.rm", id=found["id"])
    assert (await run(deps, CHAT, "passkey.rm", id=found["id"]))["label"] == "Phone 0"
    with pytest.raises(NotFound):
        await run(deps, ANN, "passkey.rm", id=found["id"])


async def test_the_operator_removes_anybodys(deps: OperationDeps) -> None:
    found = (await run(deps, BOB, "passkey.list"))["passkeys"][0]
    await run(deps, OPERATOR, "passkey.rm", id=found["id"])
    assert (await run(deps, BOB, "passkey.list"))["passkeys"] == []
