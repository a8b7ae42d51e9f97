"""Grants: what groups, people and roles may do. Every change reaches the agents' tool lists at once."""

from typing import Any

from gatepost.access.acl import list_valid_rows
from gatepost.core.errors import NotFound
from gatepost.flow import grant_changes
from gatepost.serve.control.contract import (
    OPERATOR,
    NoArgs,
    OperationArgs,
    OperationDeps,
    operation,
    run_audited,
    to_json,
)
from gatepost.store import acl
from gatepost.store.acl import AclEffect, AclRow
from gatepost.store.port import Db


class GrantRuleArgs(OperationArgs, frozen=True):
    folder: str
    rule: str


class AddAclRowArgs(OperationArgs, frozen=True):
    principal: str
    action: str
    scope: str = acl.ANYWHERE
    deny: bool = False
    params: str = ""
    predicate: str = ""
    grant_option: bool = False
    by: str = acl.OPERATOR


class AclRowIdArgs(OperationArgs, frozen=True):
    id: int


class RoleMemberArgs(OperationArgs, frozen=True):
    child: str
    role: str


@operation("grant.add", GrantRuleArgs)
async def add_rule(office: OperationDeps, args: GrantRuleArgs) -> dict[str, Any]:
    now = office.clock.now()

    def add(db: Db) -> int:
        return grant_changes.add_rule(db, args.folder, args.rule, OPERATOR, now)

    number = await run_audited(office, "grant.add", {"folder": args.folder, "rule": args.rule}, add)
    office.bells.tools(None)  # it binds the groups below, too
    return {"id": number, "folder": args.folder, "rule": args.rule}


@operation("grant.rm", GrantRuleArgs)
async def remove_rule(office: OperationDeps, args: GrantRuleArgs) -> dict[str, Any]:
    def remove(db: Db) -> int:
        gone = acl.remove_rule(db, args.folder, args.rule)
        if not gone:
            raise NotFound("rule", f"{args.rule} of {args.folder}", "`gatepost grant list` shows them")
        return gone

    gone = await run_audited(office, "grant.rm", {"folder": args.folder, "rule": args.rule}, remove)
    office.bells.tools(None)
    return {"removed": gone, "folder": args.folder, "rule": args.rule}


@operation("acl.add", AddAclRowArgs)
async def add_row(office: OperationDeps, args: AddAclRowArgs) -> dict[str, Any]:
    now = office.clock.now()
    new = AclRow(
        id=0,
        principal=args.principal,
        action=args.action,
        scope=args.scope,
        effect=AclEffect.DENY if args.deny else AclEffect.ALLOW,
        params=args.params,
        predicate=args.predicate,
        grant_option=args.grant_option,
        granted_by=args.by,
    )

    def add(db: Db) -> AclRow:
        return grant_changes.add_row(db, new, now)

    made = await run_audited(office, "acl.add", {"row": str(new), "by": args.by}, add)
    office.bells.tools(None)
    return to_json(made)


@operation("acl.rm", AclRowIdArgs)
async def remove_row(office: OperationDeps, args: AclRowIdArgs) -> dict[str, Any]:
    def remove(db: Db) -> AclRow:
        gone = acl.remove(db, args.id)
        if gone is None:
            raise NotFound("row", str(args.id), "`gatepost grant list` shows them")
        return gone

    gone = await run_audited(office, "acl.rm", {"id": args.id}, remove)
    office.bells.tools(None)
    return to_json(gone)


@operation("role.add", RoleMemberArgs)
async def add_member(office: OperationDeps, args: RoleMemberArgs) -> dict[str, Any]:
    now = office.clock.now()

    def add(db: Db) -> bool:
        return grant_changes.add_member(db, args.child, args.role, OPERATOR, now)

    new = await run_audited(office, "role.add", {"child": args.child, "role": args.role}, add)
    office.bells.tools(None)
    return {"child": args.child, "role": args.role, "new": new}


@operation("role.rm", RoleMemberArgs)
async def remove_member(office: OperationDeps, args: RoleMemberArgs) -> dict[str, Any]:
    def remove(db: Db) -> None:
        if not acl.remove_member(db, args.child, args.role):
            raise NotFound("membership", f"{args.child} in {args.role}", "`gatepost grant list` shows them")

    await run_audited(office, "role.rm", {"child": args.child, "role": args.role}, remove)
    office.bells.tools(None)
    return {"child": args.child, "role": args.role}


@operation("grant.list", NoArgs)
async def list_grants(office: OperationDeps, args: NoArgs) -> dict[str, Any]:
    return await office.store.read(read_grants)


def read_grants(db: Db, folder: str = "") -> dict[str, Any]:
    """Rules in their order, rows with whether they count, and memberships."""
    rows, members = acl.list_rows(db), acl.list_members(db)
    counting = {row.id for row in list_valid_rows(rows, members)}
    return {
        "rules": [to_json(rule) for rule in acl.list_rules(db, folder or None)],
        "rows": [{**to_json(row), "counts": row.id in counting} for row in rows],
        "members": [{"child": child, "role": role} for child, roles in members.items() for role in roles],
    }
