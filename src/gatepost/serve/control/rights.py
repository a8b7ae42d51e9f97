"""Whether a person may run an operation."""

import msgspec

from gatepost.access import acl
from gatepost.access.tiers import ROOT_FOLDER as ROOT_FOLDER
from gatepost.access.tiers import is_path
from gatepost.serve.control.declaration import OperationArgs, summarize
from gatepost.store import acl as acl_rows
from gatepost.store.port import Db


def has_right(db: Db, caller: str, action: str, scope: str, args: OperationArgs | None = None) -> bool:
    """By the rows of the access list, as for a tool call. Members of the operator's role may run everything. Only a
    person or a group calls: a role has members and is none. A scope that is no path could leave its group (`..`).
    Without arguments: whether it may be offered; a row that is about arguments is judged when they are known."""
    space, _, name = caller.partition(":")
    if not name or space == "role":
        return False
    members = acl_rows.list_members(db)
    who = acl.expand_roles([caller], members)
    if acl_rows.OPERATOR in who:
        return True
    given = summarize(args, secrets=True) if args is not None else {}
    params = {
        name: value if isinstance(value, str) else msgspec.json.encode(value).decode() for name, value in given.items()
    }
    rows = acl.list_valid_rows(acl_rows.list_rows(db), members)
    claims = {"user": caller, "platform": space}
    if any(acl.denies_by_other_name(row, who, action, scope, params, claims, members) for row in rows):
        return False
    return is_path(scope) and acl.authorize(rows, who, action, scope, params, claims) is True
