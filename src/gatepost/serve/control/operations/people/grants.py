"""Grants: what groups, people and roles may do. Every change reaches the agents' tool lists at once."""

from collections.abc import Callable
from typing import TypeVar

from gatepost.access.acl import list_valid_rows
from gatepost.access.grants import parse
from gatepost.core.errors import Invalid, NotFound
from gatepost.core.records import extend
from gatepost.flow import grant_changes
from gatepost.gate.call_explanation import list_gaps
from gatepost.serve.control.arguments.people.grants import (
    AclListItem,
    AddAclRowArgs,
    AddGrantRuleArgs,
    AddRoleMemberArgs,
    AllGrants,
    GrantRuleRemoval,
    ListGrantsArgs,
    NewGrantRule,
    NewRoleMember,
    RemoveAclRowArgs,
    RemoveGrantRuleArgs,
    RemoveRoleMemberArgs,
    RoleMember,
)
from gatepost.serve.control.contract import OPERATOR, OperationDeps, operation, read_operation
from gatepost.serve.control.declaration import list_declarations
from gatepost.serve.control.operations.people.policy import load_tools
from gatepost.store.port import Db
from gatepost.store.rights import acl
from gatepost.store.rights.acl import AclEffect, AclRow

T = TypeVar("T")


async def _write(deps: OperationDeps, change: Callable[[Db], T], **details: str) -> T:
    answer = await deps.write(change, **details)
    deps.events.tools(None)  # it binds the groups below, too
    return answer


@operation
async def add_rule(deps: OperationDeps, args: AddGrantRuleArgs) -> NewGrantRule:
    now = deps.clock.now()
    number = await _write(deps, lambda db: grant_changes.add_rule(db, args.folder, args.rule, deps.caller, now))
    tools = deps.extra["tools"] if "tools" in deps.extra else load_tools(deps.home)
    known = {each.text for each in await deps.store.read(acl.list_rules, args.folder)}
    gaps = list_gaps(tools, parse(args.rule), known)
    return NewGrantRule(id=number, folder=args.folder, rule=args.rule, not_covered=gaps)


@operation
async def remove_rule(deps: OperationDeps, args: RemoveGrantRuleArgs) -> GrantRuleRemoval:
    def remove(db: Db) -> int:
        gone = acl.remove_rule(db, args.folder, args.rule)
        if not gone:
            raise NotFound("rule", f"{args.rule} of {args.folder}", "`gatepost grant list` shows them")
        return gone

    return GrantRuleRemoval(folder=args.folder, rule=args.rule, removed=await _write(deps, remove))


@operation
async def add_row(deps: OperationDeps, args: AddAclRowArgs) -> AclRow:
    now = deps.clock.now()
    _check_right_exists(args.action)
    new = AclRow(
        id=0,
        principal=args.principal,
        action=args.action,
        scope=args.scope,
        effect=AclEffect.DENY if args.deny else AclEffect.ALLOW,
        params=args.params,
        predicate=args.predicate,
        grant_option=args.grant_option,
        granted_by=args.by if deps.caller == OPERATOR else deps.caller,  # nobody else gives in another's name
    )
    return await _write(deps, lambda db: grant_changes.add_row(db, new, now), row=str(new), by=new.granted_by)


def _check_right_exists(action: str) -> None:
    """A row about a right that no operation needs would say nothing."""
    rights = sorted({each.info.right for each in list_declarations()})
    if action.startswith("op:") and action not in ("op:*", *(f"op:{each}" for each in rights)):
        raise Invalid("action", f"{action!r}; rights are: op:*, {', '.join(f'op:{each}' for each in rights)}")


@operation
async def remove_row(deps: OperationDeps, args: RemoveAclRowArgs) -> AclRow:
    def remove(db: Db) -> AclRow:
        gone = acl.remove(db, args.id)
        if gone is None:
            raise NotFound("row", str(args.id), "`gatepost grant list` shows them")
        return gone

    return await _write(deps, remove)


@operation
async def add_member(deps: OperationDeps, args: AddRoleMemberArgs) -> NewRoleMember:
    now = deps.clock.now()
    new = await _write(deps, lambda db: grant_changes.add_member(db, args.child, args.role, deps.caller, now))
    return NewRoleMember(args.child, args.role, new)


@operation
async def remove_member(deps: OperationDeps, args: RemoveRoleMemberArgs) -> RoleMember:
    def remove(db: Db) -> None:
        if not acl.remove_member(db, args.child, args.role):
            raise NotFound("membership", f"{args.child} in {args.role}", "`gatepost grant list` shows them")

    await _write(deps, remove)
    return RoleMember(args.child, args.role)


def _is_role(principal: str) -> bool:
    return principal.startswith(acl.ROLE)


@read_operation
def list_grants(db: Db, args: ListGrantsArgs, now: int) -> AllGrants:
    """Rules in their order, rows with whether they count, and memberships."""
    rows, members = acl.list_rows(db), acl.list_members(db)
    counting = {row.id for row in list_valid_rows(rows, members)}
    return AllGrants(
        rules=acl.list_rules(db, args.folder or None),
        rows=[extend(AclListItem, row, counts=row.id in counting) for row in rows],
        members=[RoleMember(child, each) for child, above in members.items() for each in above if _is_role(each)],
    )
