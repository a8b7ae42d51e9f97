"""Grants: what groups, people and roles may do. Every change reaches the agents' tool lists at once."""

from typing import Any

from gatepost.access.acl import sound
from gatepost.core.errors import NotFound
from gatepost.flow import granting
from gatepost.serve.control.contract import OPERATOR, Args, Nothing, Office, as_told, operation, write_down
from gatepost.store import acl
from gatepost.store.acl import Effect, Row
from gatepost.store.port import Db


class Rule(Args, frozen=True):
    folder: str
    rule: str


class NewRow(Args, frozen=True):
    principal: str
    action: str
    scope: str = acl.ANYWHERE
    deny: bool = False
    params: str = ""
    predicate: str = ""
    grant_option: bool = False
    by: str = acl.OPERATOR


class Numbered(Args, frozen=True):
    id: int


class Member(Args, frozen=True):
    child: str
    role: str


@operation("grant.add", Rule)
async def add_rule(office: Office, args: Rule) -> dict[str, Any]:
    now = office.clock.now()

    def add(db: Db) -> int:
        return granting.add_rule(db, args.folder, args.rule, OPERATOR, now)

    number = await write_down(office, "grant.add", {"folder": args.folder, "rule": args.rule}, add)
    office.bells.tools(None)  # it binds the groups below, too
    return {"id": number, "folder": args.folder, "rule": args.rule}


@operation("grant.rm", Rule)
async def remove_rule(office: Office, args: Rule) -> dict[str, Any]:
    def remove(db: Db) -> int:
        gone = acl.remove_rule(db, args.folder, args.rule)
        if not gone:
            raise NotFound("rule", f"{args.rule} of {args.folder}", "`gatepost grant list` shows them")
        return gone

    gone = await write_down(office, "grant.rm", {"folder": args.folder, "rule": args.rule}, remove)
    office.bells.tools(None)
    return {"removed": gone, "folder": args.folder, "rule": args.rule}


@operation("acl.add", NewRow)
async def add_row(office: Office, args: NewRow) -> dict[str, Any]:
    now = office.clock.now()
    new = Row(
        id=0,
        principal=args.principal,
        action=args.action,
        scope=args.scope,
        effect=Effect.DENY if args.deny else Effect.ALLOW,
        params=args.params,
        predicate=args.predicate,
        grant_option=args.grant_option,
        granted_by=args.by,
    )

    def add(db: Db) -> Row:
        return granting.add_row(db, new, now)

    made = await write_down(office, "acl.add", {"row": str(new), "by": args.by}, add)
    office.bells.tools(None)
    return as_told(made)


@operation("acl.rm", Numbered)
async def remove_row(office: Office, args: Numbered) -> dict[str, Any]:
    def remove(db: Db) -> Row:
        gone = acl.remove(db, args.id)
        if gone is None:
            raise NotFound("row", str(args.id), "`gatepost grant list` shows them")
        return gone

    gone = await write_down(office, "acl.rm", {"id": args.id}, remove)
    office.bells.tools(None)
    return as_told(gone)


@operation("role.add", Member)
async def add_member(office: Office, args: Member) -> dict[str, Any]:
    now = office.clock.now()

    def add(db: Db) -> bool:
        return granting.add_member(db, args.child, args.role, OPERATOR, now)

    new = await write_down(office, "role.add", {"child": args.child, "role": args.role}, add)
    office.bells.tools(None)
    return {"child": args.child, "role": args.role, "new": new}


@operation("role.rm", Member)
async def remove_member(office: Office, args: Member) -> dict[str, Any]:
    def remove(db: Db) -> None:
        if not acl.remove_member(db, args.child, args.role):
            raise NotFound("membership", f"{args.child} in {args.role}", "`gatepost grant list` shows them")

    await write_down(office, "role.rm", {"child": args.child, "role": args.role}, remove)
    office.bells.tools(None)
    return {"child": args.child, "role": args.role}


@operation("grant.list", Nothing)
async def every(office: Office, args: Nothing) -> dict[str, Any]:
    return await office.store.read(listed)


def listed(db: Db, folder: str = "") -> dict[str, Any]:
    """Rules in their order, rows with whether they count, and memberships."""
    rows, members = acl.rows(db), acl.members(db)
    counting = {row.id for row in sound(rows, members)}
    return {
        "rules": [as_told(rule) for rule in acl.rules(db, folder or None)],
        "rows": [{**as_told(row), "counts": row.id in counting} for row in rows],
        "members": [{"child": child, "role": role} for child, roles in members.items() for role in roles],
    }
