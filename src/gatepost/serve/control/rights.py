"""The right of a person to run an operation."""

from typing import Any

import msgspec

from gatepost.access.operation_rights import OperationRights
from gatepost.access.tiers import ROOT_FOLDER as ROOT_FOLDER
from gatepost.flow.sender_rights import has_operation_right
from gatepost.serve.control.declaration import OperationArgs, OperationInfo, summarize
from gatepost.store.port import Db


def has_right(db: Db, caller: str, action: str, scope: str, args: OperationArgs[Any] | None = None) -> bool:
    """Without arguments: whether it may be offered. A row that is about arguments is judged when they are known."""
    given = summarize(args, secrets=True) if args is not None else {}
    params = {
        name: value if isinstance(value, str) else msgspec.json.encode(value).decode() for name, value in given.items()
    }
    return has_operation_right(db, caller, action, scope, params)


def may_run(rights: OperationRights, info: OperationInfo, scope: str = ROOT_FOLDER) -> bool:
    """Return True if an operation may be offered there. One that answers each as far as their rights go, always."""
    return info.answers_all or rights.allows(f"op:{info.right}", scope)
