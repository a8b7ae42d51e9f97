"""Whether a person may run an operation."""

from gatepost.access import acl
from gatepost.access.tiers import ROOT_FOLDER as ROOT_FOLDER
from gatepost.serve.control.declaration import OperationArgs, summarize
from gatepost.store import acl as acl_rows
from gatepost.store.acl import AclEffect
from gatepost.store.port import Db


def has_right(db: Db, caller: str, action: str, scope: str, args: OperationArgs) -> bool:
    """By the rows of the access list, as for a tool call. Members of the operator's role may run everything. A row that
    allows every tool (`*`) allows no operation: only one whose action begins with `op:` does."""
    members = acl_rows.list_members(db)
    who = acl.expand_roles([caller], members)
    if acl_rows.OPERATOR in who:
        return True
    params = {name: str(value) for name, value in summarize(args).items()}
    claims = {"user": caller, "platform": caller.partition(":")[0]}
    valid = acl.list_valid_rows(acl_rows.list_rows(db), members)
    rows = [row for row in valid if row.effect is AclEffect.DENY or row.action.startswith("op:")]
    return acl.authorize(rows, who, action, scope, params, claims) is True
