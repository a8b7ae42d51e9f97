"""Whether a person or a group may run an operation of the control API, by the access list as it stands now."""

from collections.abc import Mapping

from gatepost.access import acl
from gatepost.access.tiers import is_path
from gatepost.store import acl as acl_rows
from gatepost.store.port import Db


def has_operation_right(db: Db, caller: str, action: str, scope: str, params: Mapping[str, str]) -> bool:
    """As for a tool call. Members of the operator's role may run everything. Only a person or a group calls: a role has
    members and is none. A scope that is no path could leave its group (`..`)."""
    space, _, name = caller.partition(":")
    if not name or space == "role":
        return False
    members = acl_rows.list_members(db)
    who = acl.expand_roles([caller], members)
    if acl_rows.OPERATOR in who:
        return True
    rows = acl.list_valid_rows(acl_rows.list_rows(db), members)
    claims = {"user": caller, "platform": space}
    if any(acl.denies_by_other_name(row, who, action, scope, params, claims, members) for row in rows):
        return False
    return is_path(scope) and acl.authorize(rows, who, action, scope, params, claims) is True
