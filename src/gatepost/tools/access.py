"""Who may do what, as far as it concerns the caller's part of the tree."""

from typing import Annotated

from msgspec import Meta, Struct

from gatepost.access.acl import matches_scope
from gatepost.access.policy import above
from gatepost.access.structure import Within
from gatepost.access.tiers import Tier
from gatepost.store import acl
from gatepost.store.port import Db
from gatepost.tools.contract import Call, tool


class Entry(Struct, frozen=True, kw_only=True):
    """`kind` rule: of a group, in order; row: of the access list, a set in which deny wins."""

    kind: str
    principal: str
    action: str
    scope: str
    effect: str
    params: str = ""
    predicate: str = ""
    granted_by: str = ""


class Entries(Struct, frozen=True):
    folder: str
    rows: list[Entry]


@tool(tier=Tier.WORLD, scoped_by="folder", within=Within.WORLD, group="access", read_only=True, idempotent=True)
async def list_acl(
    call: Call, folder: Annotated[str, Meta(description="The group that it is about, in your world.")]
) -> Entries:
    """See the rules and rows that say who may do what in a group, those above it that bind it included.

    Nothing here changes anything; the operator does that.
    """

    def look(db: Db) -> list[Entry]:
        bound = {*above(folder), folder}
        rules = [
            Entry(
                kind="rule",
                principal=f"folder:{rule.folder}",
                action=rule.text.removeprefix("!"),
                scope=rule.folder,
                effect="deny" if rule.text.startswith("!") else "allow",
                granted_by=rule.added_by,
            )
            for rule in acl.rules(db)
            if rule.folder in bound
        ]
        return rules + [_row(row) for row in acl.rows(db) if matches_scope(row.scope, folder)]

    return Entries(folder, await call.read(look))


def _row(row: acl.Row) -> Entry:
    return Entry(
        kind="row",
        principal=row.principal,
        action=row.action,
        scope=row.scope,
        effect=row.effect.value,
        params=row.params,
        predicate=row.predicate,
        granted_by=row.granted_by,
    )
