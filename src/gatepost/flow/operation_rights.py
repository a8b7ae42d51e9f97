"""The right of a person or a group to run an operation of the control API, by the access list as it stands now."""

from collections.abc import Mapping

from gatepost.access.operation_rights import OperationRights
from gatepost.store.port import Db
from gatepost.store.rights import acl


def read_operation_rights(db: Db, caller: str) -> OperationRights:
    """For several questions about one caller."""
    return OperationRights(caller, acl.list_rows(db), acl.list_members(db))


def has_operation_right(db: Db, caller: str, action: str, scope: str, params: Mapping[str, str]) -> bool:
    """As for a tool call."""
    return read_operation_rights(db, caller).allows(action, scope, params)
