"""Rights: a person runs an operation only where a row of the access list allows it."""

import json
from pathlib import Path
from typing import Any

import pytest

from gatepost.core.errors import Invalid, NotFound, Refused
from gatepost.core.event_bus import EventBus
from gatepost.core.home import Home
from gatepost.core.records import replace
from gatepost.core.settings import Config
from gatepost.serve.control.contract import OPERATIONS, OperationDeps
from gatepost.serve.control.declaration import OperationArgs, list_fields
from gatepost.store.engine.sqlite_store import SqliteStore
from gatepost.store.people import users
from gatepost.store.port import Db
from gatepost.store.rights import acl, audit
from gatepost.store.rights.acl import AclEffect, AclRow
from gatepost.store.sessions import groups, sessions
from gatepost.store.sessions.sessions import SessionMode
from gatepost_testing.clock import FixedClock

ADA = "telegram:user/9"
DAILY = {"folder": "acme/eng", "daily": "5"}


@pytest.fixture
async def deps(store: SqliteStore, tmp_path: Path) -> OperationDeps:
    """As Ada calls, who is known and nothing else."""

    def add(db: Db) -> None:
        for folder in ("acme", "acme/eng", "other"):
            groups.add(db, folder, folder, "", 1)
        users.add(db, ADA, "Ada", 1)

    await store.write(add)
    home = Home(tmp_path)
    return OperationDeps(home=home, store=store, clock=FixedClock(), config=Config(), events=EventBus(), caller=ADA)


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


async def test_a_flood_of_refused_operations_is_counted_and_not_written_down(deps: OperationDeps) -> None:
    for _ in range(60):
        with pytest.raises(Refused):
            await run(deps, "budget.set", **DAILY)
    assert len(await deps.store.read(audit.list_latest, 100)) == 20
    deps.clock.advance(3601)  # type: ignore[attr-defined]
    with pytest.raises(Refused):
        await run(deps, "budget.set", **DAILY)
    counted, last = (await recorded(deps))[-2:]
    assert counted[:3] == last[:3] == (ADA, "budget.set", "refused")
    assert counted[3]["repeated"] == 40 and last[3]["right"] == "op:budgets.write"


@pytest.mark.parametrize(
    ("principal", "action"),
    [
        ("nobody", "interact"),
        (":user/9", "interact"),
        ("telegram:", "interact"),
        (ADA, "op:nothing.such"),
        (ADA, "op:"),
    ],
)
async def test_a_row_that_could_match_nothing_is_refused(deps: OperationDeps, principal: str, action: str) -> None:
    with pytest.raises(Invalid):
        await run(replace(deps, caller="operator"), "acl.add", principal=principal, action=action)
    assert await deps.store.read(acl.list_rows) == []


async def test_only_who_may_erase_forgets_a_person(deps: OperationDeps) -> None:
    await give(deps, "op:users.write")
    with pytest.raises(Refused, match=r"op:users\.erase"):
        await run(deps, "user.forget", id="telegram:user/77", erase=True)
    await give(deps, "op:users.erase")
    assert (await run(deps, "user.forget", id="telegram:user/77"))["erased"] is False
    with pytest.raises(Invalid, match="another owner"):
        await run(deps, "user.forget", id=ADA, erase=True)


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
        await run(deps, "secret.set", name="TOKEN", value="xyzzy-0123")
    assert "xyzzy-0123" not in str(await recorded(deps))


def make_args(each: type[OperationArgs[Any]]) -> dict[str, Any]:
    """The least that the operation is called with."""
    samples = {str: "x", bytes: b"x", int: 1, bool: True, dict[str, str]: {}, list[str]: ["x"]}
    needed = [field for field in list_fields(each) if field.required]
    return {field.name: {} if field.is_change else [*field.choices, samples.get(field.kind)][0] for field in needed}


# They refuse nobody. Each needs tests of its own that nobody gets what is another group's.
ANSWERS_ALL = {
    "activity.list": "tests/serve/control/test_activity.py",
    "login.end": "tests/serve/control/test_logins.py",
    "login.end_all": "tests/serve/control/test_logins.py",
    "login.list": "tests/serve/control/test_logins.py",
    "login.remove_password": "tests/serve/control/test_passwords.py",
    "login.set_password": "tests/serve/control/test_passwords.py",
    "login.show": "tests/serve/control/test_passwords.py",
    "overview.show": "tests/serve/control/test_overview.py",
    "passkey.list": "tests/serve/control/test_passkeys.py",
    "passkey.rm": "tests/serve/control/test_passkeys.py",
    "site.list": "tests/serve/web/pages/test_sites.py",
    "user.language": "tests/serve/web/test_people.py",
}
ELSEWHERE = ("", "root", "other", "acme/../other", "acme/eng/../../other", "acme/..", "acme//eng", "acmes", " ", "*")


@pytest.mark.parametrize("scope", ELSEWHERE)
async def test_a_person_with_every_right_in_one_group_runs_nothing_outside_it(deps: OperationDeps, scope: str) -> None:
    await give(deps, "op:*", "acme/**")

    for name, each in OPERATIONS.items():
        if name in ANSWERS_ALL:
            continue
        named = {field.name: scope for field in list_fields(each.args) if field.spec.scope}
        wanted = NotFound if each.info.judges else Refused  # which does not tell what there is
        with pytest.raises(wanted) as refused:
            await run(deps, name, **make_args(each.args) | named)
        assert type(refused.value) is wanted, f"{name} was not refused for want of a right: {refused.value}"


def test_few_operations_answer_everybody_and_each_is_known() -> None:
    assert {name for name, each in OPERATIONS.items() if each.info.answers_all} == ANSWERS_ALL.keys()


def test_few_operations_judge_their_callers_themselves_and_each_is_known() -> None:
    """tests/serve/control/test_session_control.py and test_overview.py have who may."""
    known = {"session.show", "session.send", "session.stop", "session.reset", "overview.why"}
    assert {name for name, each in OPERATIONS.items() if each.info.judges} == known


async def test_a_right_for_a_group_gives_nothing_of_the_machine(deps: OperationDeps) -> None:
    """A sandbox without isolation, host folders, endpoints and local hosts would be a way out of the group."""
    await give(deps, "op:*", "acme/**")

    await run(deps, "group.set", folder="acme/eng", values={"name": "Engineers", "limits": {"turn_s": 60}})
    await run(deps, "egress.allow", folder="acme/eng", host="example.com")
    for name, args in (
        ("group.set", {"values": {"sandbox": "process"}}),
        ("group.set", {"values": {"name": "x", "mounts": ["/etc:/workspace/extra/etc"]}}),
        ("group.set", {"values": {"options": {"anthropic_base_url": "http://127.0.0.1:8080"}}}),
        ("egress.allow", {"host": "localhost:6379"}),
        ("egress.allow", {"host": " box.lan:80"}),
        ("worktree.create", {"source": "/srv/repositories/of-others"}),
    ):
        with pytest.raises(Refused, match=f"may not {name} on root"):
            await run(deps, name, folder="acme/eng", **args)


async def test_the_answer_about_a_person_is_limited_to_the_group_that_the_right_is_for(deps: OperationDeps) -> None:
    bob = "telegram:user/10"
    operator = replace(deps, caller="operator")
    await run(operator, "user.add", id=bob)
    await run(operator, "user.role", id=bob, role="admin", folder="other")
    everything = await run(operator, "user.member", id=bob, folder="other")
    assert (everything["roles"], everything["member_of"]) == ((("admin", "other"),), ("other",))

    await give(deps, "op:users.write", "acme/**")
    member = await run(deps, "user.member", id=bob, folder="acme")
    owner = await run(deps, "user.role", id=bob, role="owner", folder="acme")

    assert (member["roles"], member["member_of"]) == ((), ("acme",))
    assert (owner["roles"], owner["member_of"]) == ((("owner", "acme"),), ("acme",))
    with pytest.raises(Refused):
        await run(deps, "user.show", id=bob)


async def test_a_right_for_a_group_leads_nobodys_room_of_the_page_there(deps: OperationDeps) -> None:
    operator = replace(deps, caller="operator")
    await run(operator, "user.add", id="web:user/bob")
    await give(deps, "op:users.write", "acme/**")
    before = await run(operator, "route.list")
    await run(deps, "user.member", id="web:user/bob", folder="acme")
    assert await run(operator, "route.list") == before


@pytest.mark.parametrize(
    ("name", "args", "params"),
    [
        ("budget.set", {"instance": True, "daily": "5"}, "instance=true"),
        ("agent.create", {"labels": {"team": "red"}}, 'labels=*"red"*'),
        ("secret.set", {"name": "TOKEN", "value": "xyzzy-0123"}, "value"),  # a secret argument, too
    ],
)
async def test_a_row_that_denies_by_arguments_reads_them_as_json(
    deps: OperationDeps, name: str, args: dict[str, Any], params: str
) -> None:
    await give(deps, "op:*")
    await give(deps, "op:*", effect=AclEffect.DENY, params=params)
    with pytest.raises(Refused, match="it needs op:"):
        await run(deps, name, **args)


@pytest.mark.parametrize("scope", ["acme/*", "**/eng", "acme/e??", "acme/[a-f]ng", "acme/[z-a]"])
async def test_a_denial_by_a_glob_holds_also_if_the_glob_cannot_be_read(deps: OperationDeps, scope: str) -> None:
    await give(deps, "op:*")
    await give(deps, "op:budgets.write", scope, AclEffect.DENY)
    with pytest.raises(Refused, match=r"it needs op:budgets\.write"):
        await run(deps, "budget.set", **DAILY)


async def test_who_may_give_on_every_tool_can_give_no_operation(deps: OperationDeps) -> None:
    await give(deps, "*", grant_option=True)
    await give(deps, "op:grants.write")

    with pytest.raises(Refused, match="does not hold op:"):
        await run(deps, "acl.add", principal=ADA, action="op:*")
    await give(deps, "op:*", granted_by=ADA)
    with pytest.raises(Refused):
        await run(deps, "budget.set", **DAILY)


@pytest.mark.parametrize("caller", ["role:operator", "role:ops", ""])
async def test_a_caller_that_is_no_person_has_no_right(deps: OperationDeps, caller: str) -> None:
    await give(deps, "op:*", principal="**")
    await deps.store.write(acl.add_member, "role:ops", acl.OPERATOR, "operator", 1)
    with pytest.raises(Refused):
        await run(replace(deps, caller=caller), "budget.set", **DAILY)


async def test_a_session_that_a_person_ends_is_ended_in_their_name(deps: OperationDeps) -> None:
    told: list[tuple[str, str]] = []

    async def stop(session: str, by: str) -> bool:
        told.append((session, by))
        return True

    def begin(db: Db) -> str:
        return sessions.find_or_add(db, SessionMode.SHARED, "acme/eng", "terminal", "terminal:x", "", 1).id

    key = await deps.store.write(begin)
    await give(deps, "op:sessions.write")
    await run(replace(deps, stop_session=stop), "session.stop", id=key)
    await run(replace(deps, caller="operator", stop_session=stop), "session.stop", id=key)
    assert told == [(key, ADA), (key, "the operator")]
