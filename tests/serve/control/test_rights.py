"""Rights: a person runs an operation only where a row of the access list allows it."""

import json
from pathlib import Path
from typing import Any

import pytest

from gatepost.core.errors import Refused
from gatepost.core.event_bus import EventBus
from gatepost.core.home import Home
from gatepost.core.records import replace
from gatepost.core.registry import load_package
from gatepost.core.settings import Config
from gatepost.serve.control.contract import OPERATIONS, OperationDeps
from gatepost.store import acl, audit, groups, users
from gatepost.store.acl import AclEffect, AclRow
from gatepost.store.port import Db
from gatepost.store.sqlite_store import SqliteStore
from gatepost.testing.clock import FixedClock

ADA = "telegram:user/9"
DAILY = {"folder": "acme/eng", "daily": "5"}


@pytest.fixture
async def deps(store: SqliteStore, tmp_path: Path) -> OperationDeps:
    """As Ada calls, who is known and nothing else."""
    load_package("gatepost.serve.control.operations")

    def add(db: Db) -> None:
        for folder in ("acme", "acme/eng", "other"):
            groups.add(db, folder, folder, "", 1)
        users.add(db, ADA, "Ada", 1)

    await store.write(add)
    home = Home(tmp_path)
    return OperationDeps(home=home, store=store, clock=FixedClock(), config=Config(), bells=EventBus(), caller=ADA)


async def give(
    deps: OperationDeps, action: str, scope: str = "**", effect: AclEffect = AclEffect.ALLOW, **more: Any
) -> None:
    row = AclRow(id=0, principal=more.pop("principal", ADA), action=action, scope=scope, effect=effect, **more)
    await deps.store.write(acl.put, row, 1)


async def run(deps: OperationDeps, name: str, /, **args: Any) -> Any:
    return await OPERATIONS[name](deps, args)


async def recorded(deps: OperationDeps) -> list[tuple[Any, ...]]:
    rows = await deps.store.read(audit.list_latest, 10)
    return [(actor, action, verdict, json.loads(details)) for _, _, actor, action, verdict, details in reversed(rows)]


async def test_without_a_row_an_operation_is_refused_and_the_refusal_is_audited(deps: OperationDeps) -> None:
    with pytest.raises(Refused, match=r"telegram:user/9 may not budget.set on acme/eng: it needs op:budgets.write"):
        await run(deps, "budget.set", **DAILY)

    assert await recorded(deps) == [(ADA, "budget.set", "refused", {"right": "op:budgets.write", "scope": "acme/eng"})]
    assert await run(replace(deps, caller="operator"), "budget.show") == []


@pytest.mark.parametrize("action", ["op:budgets.write", "op:*"])
async def test_a_row_that_allows_the_right_lets_it_run_in_the_persons_name(deps: OperationDeps, action: str) -> None:
    await give(deps, action)

    await run(deps, "budget.set", **DAILY)

    assert await recorded(deps) == [(ADA, "budget.set", "done", DAILY)]


@pytest.mark.parametrize("action", ["op:budgets.read", "op:budgets", "admin", "mcp:*", "interact", "*"])
async def test_a_row_for_something_else_gives_no_operation(deps: OperationDeps, action: str) -> None:
    await give(deps, action)
    with pytest.raises(Refused):
        await run(deps, "budget.set", **DAILY)


@pytest.mark.parametrize("denied", ["op:budgets.write", "*"])
async def test_a_row_that_denies_wins(deps: OperationDeps, denied: str) -> None:
    await give(deps, "op:*")
    await give(deps, denied, "acme/**", AclEffect.DENY)

    with pytest.raises(Refused):
        await run(deps, "budget.set", **DAILY)
    await run(deps, "budget.set", folder="other", daily="5")


async def test_the_scope_is_the_group_that_the_operation_names_else_the_root(deps: OperationDeps) -> None:
    await give(deps, "op:*", "acme/**")

    await run(deps, "budget.set", **DAILY)
    for name, args in (
        ("budget.set", {"folder": "other", "daily": "5"}),
        ("budget.set", {"instance": True, "daily": "5"}),  # everybody's
        ("budget.set", {"user": ADA, "daily": "5"}),
        ("route.add", {"match": "", "target": "acme"}),
        ("secret.bind", {"name": "TOKEN", "host": "evil.test", "folder": "acme"}),  # it may be a secret from above
        ("acl.add", {"principal": ADA, "action": "*"}),
    ):
        with pytest.raises(Refused, match="may not"):
            await run(deps, name, **args)


async def test_a_role_gives_its_rights_to_its_members_and_the_operators_role_gives_all(deps: OperationDeps) -> None:
    await give(deps, "op:budgets.write", principal="role:money")
    await deps.store.write(acl.add_member, ADA, "role:money", "operator", 1)
    await run(deps, "budget.set", **DAILY)
    with pytest.raises(Refused):
        await run(deps, "route.list")

    await deps.store.write(acl.add_member, ADA, acl.OPERATOR, "operator", 1)
    assert await run(deps, "route.list") == []


async def test_a_row_can_ask_for_arguments_and_for_the_caller(deps: OperationDeps) -> None:
    await give(deps, "op:budgets.write", params="!monthly", predicate="platform=telegram", principal="**")

    await run(deps, "budget.set", **DAILY)
    with pytest.raises(Refused):
        await run(deps, "budget.set", **DAILY, monthly="5")
    with pytest.raises(Refused):
        await run(replace(deps, caller="slack:user/9"), "budget.set", **DAILY)


async def test_a_row_that_nobody_could_give_counts_for_nothing(deps: OperationDeps) -> None:
    await give(deps, "op:*", granted_by="telegram:user/1")
    with pytest.raises(Refused):
        await run(deps, "budget.set", **DAILY)


async def test_a_person_gives_on_in_their_own_name_alone(deps: OperationDeps) -> None:
    await give(deps, "op:grants.write")

    with pytest.raises(Refused, match="does not hold"):
        await run(deps, "acl.add", principal="telegram:user/10", action="*", by="role:operator")


async def test_who_has_no_right_writes_little_into_the_audit_log(deps: OperationDeps) -> None:
    with pytest.raises(Refused) as refused:
        await run(deps, "budget.set", folder="x" * 100_000, daily="5" * 100_000)
    assert len(str(await recorded(deps))) < 1000 and len(str(refused.value)) < 1000


async def test_a_secret_is_not_in_the_record_of_a_refusal(deps: OperationDeps) -> None:
    with pytest.raises(Refused):
        await run(deps, "secret.set", name="TOKEN", value="xyzzy")
    assert "xyzzy" not in str(await recorded(deps))
