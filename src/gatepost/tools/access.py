"""Rights, as far as they concern the caller's part of the tree."""

from typing import Annotated

from msgspec import Meta, Struct

from gatepost.access.acl import covers_scope, expand_roles, matches_principal, matches_scope
from gatepost.access.grants import parse
from gatepost.access.policy import list_ancestors
from gatepost.access.tiers import Tier, TreeScope, world_of
from gatepost.gate.tool_answers import fitting
from gatepost.store.messages import room_history
from gatepost.store.people import users
from gatepost.store.port import Db
from gatepost.store.rights import acl
from gatepost.store.sessions import groups, sessions
from gatepost.tools.call import ToolCall
from gatepost.tools.contract import tool
from gatepost.tools.kit.lookup_helpers import get_own_part, update_search_index


class AclEntry(Struct, frozen=True, kw_only=True):
    """`kind` rule: of a group, in order; row: of the access list, a set in which deny wins."""

    kind: str
    principal: str
    action: str
    scope: str
    effect: str
    params: str = ""
    predicate: str = ""
    granted_by: str = ""


class AclEntries(Struct, frozen=True):
    """`more`: there are others, which do not fit one answer; give the number of those you have seen as `after`."""

    folder: str
    acl: list[AclEntry]
    more: bool


@tool(tier=Tier.WORLD, scoped_by="folder", within=TreeScope.WORLD, group="access", read_only=True, idempotent=True)
async def list_acl(
    call: ToolCall,
    folder: Annotated[str, Meta(description="The group that it is about, in your world.")],
    after: Annotated[int, Meta(ge=0, le=2**53, description="Leave out so many, if the last answer said `more`.")] = 0,
) -> AclEntries:
    """See the rules and rows that say who may do what in a group, those above it that bind it included.

    Rows about others than your world are left out. Nothing here changes anything; the operator does that.
    """

    def read(db: Db) -> list[AclEntry]:
        bound = {*list_ancestors(folder), folder}
        rules = [
            AclEntry(
                kind="rule",
                principal=f"folder:{rule.folder}",
                action=parse(rule.text).call,
                scope=rule.folder,
                effect=parse(rule.text).effect,
                granted_by=rule.added_by,
            )
            for rule in acl.list_rules(db)
            if rule.folder in bound
        ]
        shown = _VisiblePrincipals(db, call, folder)
        return rules + [
            _row(row, shown.is_visible(row.granted_by, row))
            for row in acl.list_rows(db)
            if matches_scope(row.scope, folder) and shown.is_visible(row.principal, row)
        ]

    await update_search_index(call)
    return AclEntries(folder, *fitting((await call.read(read))[after:]))


class _VisiblePrincipals:
    """Principals that may be named to a caller: whoever has to do with its world. A row for everywhere may be about
    anybody."""

    def __init__(self, db: Db, call: ToolCall, folder: str) -> None:
        self._db, self._part, self._folder, self._world = db, get_own_part(call), folder, world_of(call.caller.folder)
        own = [f"folder:{each.folder}" for each in groups.list_all(db) if world_of(each.folder) == self._world]
        self._who = expand_roles(own, acl.list_members(db)) | {acl.OPERATOR}

    def is_visible(self, principal: str, row: acl.AclRow) -> bool:
        if self._part.everything or principal in self._who:
            return True
        kind, _, name = principal.partition(":")
        if "*" in principal and matches_principal(principal, f"folder:{self._folder}"):
            return True
        if kind == "folder":
            return "*" not in name and world_of(name) == self._world
        return covers_scope(f"{self._world}/**", row.scope) or (kind != "role" and self._is_known(principal))

    def _is_known(self, address: str) -> bool:
        """A person or a room that the world has met."""
        sender_roles = users.get_roles(self._db, address)
        places = [*sender_roles.member_of, *(folder for _, folder in sender_roles.roles if folder)]
        places += [session.folder for session in sessions.list_in_room(self._db, address)]
        return any(world_of(each) == self._world for each in places) or room_history.has_written(
            self._db, self._part, address
        )


def _row(row: acl.AclRow, giver: bool) -> AclEntry:
    return AclEntry(
        kind="row",
        principal=row.principal,
        action=row.action,
        scope=row.scope,
        effect=row.effect.value,
        params=row.params,
        predicate=row.predicate,
        granted_by=row.granted_by if giver else "",
    )
