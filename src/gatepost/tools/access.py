"""Who may do what, as far as it concerns the caller's part of the tree."""

from typing import Annotated

from msgspec import Meta, Struct

from gatepost.access.acl import covers_scope, expand, matches_principal, matches_scope
from gatepost.access.policy import above
from gatepost.access.structure import Within, world_of
from gatepost.access.tiers import Tier
from gatepost.core.bounds import fitting
from gatepost.store import acl, groups, past, sessions, users
from gatepost.store.port import Db
from gatepost.tools.contract import Call, tool
from gatepost.tools.looking import catch_up, part_of


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
    """`more`: there are others, which do not fit one answer; give the number of those you have seen as `after`."""

    folder: str
    rows: list[Entry]
    more: bool


@tool(tier=Tier.WORLD, scoped_by="folder", within=Within.WORLD, group="access", read_only=True, idempotent=True)
async def list_acl(
    call: Call,
    folder: Annotated[str, Meta(description="The group that it is about, in your world.")],
    after: Annotated[int, Meta(ge=0, le=2**53, description="Leave out so many, if the last answer said `more`.")] = 0,
) -> Entries:
    """See the rules and rows that say who may do what in a group, those above it that bind it included.

    Rows about others than your world are left out. Nothing here changes anything; the operator does that.
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
        shown = _Near(db, call, folder)
        return rules + [
            _row(row, shown.tells(row.granted_by, row))
            for row in acl.rows(db)
            if matches_scope(row.scope, folder) and shown.tells(row.principal, row)
        ]

    await catch_up(call)
    return Entries(folder, *fitting((await call.read(look))[after:]))


class _Near:
    """Who may be named to a caller: whoever has to do with its world. A row for everywhere may be about anybody."""

    def __init__(self, db: Db, call: Call, folder: str) -> None:
        self._db, self._part, self._folder, self._world = db, part_of(call), folder, world_of(call.caller.folder)
        own = [f"folder:{each.folder}" for each in groups.every(db) if world_of(each.folder) == self._world]
        self._who = expand(own, acl.members(db)) | {acl.OPERATOR}

    def tells(self, principal: str, row: acl.Row) -> bool:
        if self._part.everything or principal in self._who:
            return True
        kind, _, name = principal.partition(":")
        if "*" in principal and matches_principal(principal, f"folder:{self._folder}"):
            return True
        if kind == "folder":
            return "*" not in name and world_of(name) == self._world
        return covers_scope(f"{self._world}/**", row.scope) or (kind != "role" and self._knows(principal))

    def _knows(self, address: str) -> bool:
        """A person or a room that the world has met."""
        standing = users.standing(self._db, address)
        places = [*standing.member_of, *(folder for _, folder in standing.roles if folder)]
        places += [session.folder for session in sessions.in_room(self._db, address)]
        return any(world_of(each) == self._world for each in places) or past.has_spoken(self._db, self._part, address)


def _row(row: acl.Row, giver: bool) -> Entry:
    return Entry(
        kind="row",
        principal=row.principal,
        action=row.action,
        scope=row.scope,
        effect=row.effect.value,
        params=row.params,
        predicate=row.predicate,
        granted_by=row.granted_by if giver else "",
    )
