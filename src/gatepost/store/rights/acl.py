"""Rules on groups, rows of the access list, and memberships in roles: the facts that the evaluator judges by."""

from collections import defaultdict
from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated

from msgspec import Struct
from msgspec.structs import asdict

from gatepost.core.record_fields import ShownAs, shown
from gatepost.store.engine.table import Table
from gatepost.store.port import Db, inline_read

ROLE = "role:"  # what the names of roles begin with
OPERATOR = "role:operator"  # holds everything; owners are members of it
ANYWHERE = "**"


class AclEffect(StrEnum):
    ALLOW = "allow"
    DENY = "deny"


class AclRow(Struct, frozen=True, kw_only=True):
    """`action`: `mcp:<tool>`, `mcp:*`, interact, admin, `*`. `scope`: a glob over folders. `params`: what the call
    carries, like `jid=telegram:*, !topic`. `predicate`: the same over who calls, like `platform=slack, user`.
    `grant_option`: its holder may give it on."""

    id: Annotated[int, shown("Row", ShownAs.ID, head="row")]
    effect: Annotated[AclEffect, shown("Effect", ShownAs.BADGE)] = AclEffect.ALLOW
    principal: Annotated[str, shown("Who", ShownAs.CODE)]
    action: Annotated[str, shown("What", ShownAs.CODE)]
    scope: Annotated[str, shown("Where", ShownAs.CODE)] = ANYWHERE
    params: Annotated[str, shown("If it carries", ShownAs.CODE)] = ""
    predicate: Annotated[str, shown("If", ShownAs.CODE, head="when")] = ""
    grant_option: Annotated[bool, shown("Given on", ShownAs.FLAG, head="grant option", word="may be given on")] = False
    granted_by: Annotated[str, shown("By", head="by")] = OPERATOR
    granted_at: Annotated[int, shown("Since", ShownAs.MOMENT, head="since")] = 0

    def __str__(self) -> str:
        conditions = f"({self.params})" if self.params else ""
        when = f" if {self.predicate}" if self.predicate else ""
        return f"{self.effect} {self.principal} {self.action}{conditions} on {self.scope}{when}"


ACL = Table("acl", AclRow)


class GrantRow(Struct, frozen=True):
    """A rule of a group, as it was written."""

    id: int
    folder: Annotated[str, shown("Group", ShownAs.CODE)]
    text: Annotated[str, shown("Rule", ShownAs.CODE, head="rule")]
    added_by: Annotated[str, shown("By", head="by")]
    added_at: Annotated[int, shown("Since", ShownAs.MOMENT, head="since")]


# Rules, in the order in which they were given.


@inline_read
def list_rules(db: Db, folder: str | None = None) -> list[GrantRow]:
    """A group's, or everybody's."""
    sql = (
        "SELECT id, folder, rule, added_by, added_at FROM grants WHERE folder = COALESCE(?, folder) ORDER BY folder, id"
    )
    return [GrantRow(*row) for row in db.rows(sql, (folder,))]


def add_rule(db: Db, folder: str, text: str, by: str, now: int) -> int:
    sql = "INSERT INTO grants (folder, rule, added_by, added_at) VALUES (?, ?, ?, ?) RETURNING id"
    return int(db.rows(sql, (folder, text, by, now))[0][0])


def remove_rule(db: Db, folder: str, text: str) -> int:
    """Every rule of this text. How many there were."""
    return db.run("DELETE FROM grants WHERE folder = ? AND rule = ?", (folder, text))


def replace_rules(db: Db, folder: str, rules: Sequence[GrantRow]) -> None:
    """Give a group these rules, in this order. Each keeps who gave it, and when."""
    db.run("DELETE FROM grants WHERE folder = ?", (folder,))
    for each in rules:
        add_rule(db, folder, each.text, each.added_by, each.added_at)


# Rows, a set.


@inline_read
def list_rows(db: Db) -> list[AclRow]:
    return ACL.list(db, "ORDER BY id")


@inline_read
def has_people_rows(db: Db) -> bool:
    """Return True if the list says anything about who may speak: asked with every message, and mostly no."""
    return db.row("SELECT 1 FROM acl WHERE action IN ('interact', 'admin', '*') LIMIT 1") is not None


def put(db: Db, new: AclRow, now: int) -> AclRow:
    """The row as it stands now. Said twice, it is there once."""
    values = asdict(new) | {"granted_at": now}
    del values["id"]
    return ACL.put(
        db,
        "ON CONFLICT (principal, action, scope, params, predicate, effect)"
        " DO UPDATE SET grant_option = excluded.grant_option, granted_by = excluded.granted_by",
        **values,
    )


def remove(db: Db, row_id: int) -> AclRow | None:
    """None if there is none."""
    row = db.row(f"DELETE FROM acl WHERE id = ? RETURNING {ACL.columns}", (row_id,))
    return ACL.parse(row) if row else None


def has_any(db: Db) -> bool:
    """Return True if anything but tiers decides about calls: a rule or a row. In one statement."""
    return db.row("SELECT 1 FROM grants UNION ALL SELECT 1 FROM acl LIMIT 1") is not None


# Memberships.


@inline_read
def list_members(db: Db) -> dict[str, list[str]]:
    """Child → parents. The owners are operators. The identities of one person are members of each other: what is
    said about one of them holds for all."""
    found: dict[str, list[str]] = defaultdict(list)
    for child, parent in db.rows(
        "SELECT child, parent FROM memberships"
        " UNION SELECT user_id, ? FROM user_roles WHERE role = 'owner' AND folder = ''"
        " UNION SELECT identity, person FROM identities UNION SELECT person, identity FROM identities ORDER BY 1, 2",
        (OPERATOR,),
    ):
        found[child].append(parent)
    return dict(found)


def add_member(db: Db, child: str, parent: str, by: str, now: int) -> bool:
    """False if it was one already."""
    return bool(
        db.run(
            "INSERT INTO memberships (child, parent, added_by, added_at) VALUES (?, ?, ?, ?)"
            " ON CONFLICT (child, parent) DO NOTHING",
            (child, parent, by, now),
        )
    )


def remove_member(db: Db, child: str, parent: str) -> bool:
    return bool(db.run("DELETE FROM memberships WHERE child = ? AND parent = ?", (child, parent)))
