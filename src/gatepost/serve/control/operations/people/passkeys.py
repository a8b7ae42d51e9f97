"""Passkeys: list, remove. A person sees and removes their own; a holder of the right, those of everybody."""

import importlib.util

from gatepost.core.errors import NotFound, Refused
from gatepost.core.records import extend
from gatepost.serve.control.arguments.people.passkeys import (
    READ,
    WRITE,
    ListPasskeysArgs,
    PasskeyList,
    PasskeyView,
    RemovePasskeyArgs,
)
from gatepost.serve.control.contract import OPERATOR, OperationDeps, operation
from gatepost.serve.control.passkey_setting import EXTRA, LIBRARY, PASSKEY_LOGIN
from gatepost.serve.control.rights import ROOT_FOLDER, has_right
from gatepost.store.people import identities, passkeys, users
from gatepost.store.people.passkeys import Passkey
from gatepost.store.port import Db

LONGEST_SHOWN = 80  # characters of a name that is not known
MOST_LISTED = 500


@operation
async def list_passkeys(deps: OperationDeps, args: ListPasskeysArgs) -> PasskeyList:
    found = await deps.store.read(_list, deps, args.everybody or deps.caller == OPERATOR)
    wanted, there = deps.config[PASSKEY_LOGIN], importlib.util.find_spec(LIBRARY) is not None
    missing = f"pip install 'gatepost[{EXTRA}]'" if wanted and not there else ""
    return PasskeyList(is_on=wanted and there, missing=missing, passkeys=found)


def _list(db: Db, deps: OperationDeps, everybody: bool) -> list[PasskeyView]:
    if everybody and not _may(db, deps, READ):
        raise Refused(deps.caller, "passkey.list", "everybody", f"it needs op:{READ} (`gatepost grant allow`)")
    if everybody:
        found = passkeys.list_all(db, MOST_LISTED)
    else:
        found = [row for name in identities.list_names(db, deps.caller) for row in passkeys.list_of(db, name)]
    return [_make_view(db, row) for row in found]


@operation
async def remove_passkey(deps: OperationDeps, args: RemovePasskeyArgs) -> PasskeyView:
    def remove(db: Db) -> PasskeyView:
        row = passkeys.get(db, args.id)
        if row is None or not (row.user_id in identities.list_names(db, deps.caller) or _may(db, deps, WRITE)):
            raise NotFound("passkey", args.id[:LONGEST_SHOWN], "`gatepost passkey list` shows them")
        passkeys.remove(db, row.id)
        return _make_view(db, row)

    return await deps.write(remove)


def _may(db: Db, deps: OperationDeps, right: str) -> bool:
    return deps.caller == OPERATOR or has_right(db, deps.caller, f"op:{right}", ROOT_FOLDER)


def _make_view(db: Db, row: Passkey) -> PasskeyView:
    known = users.get(db, identities.get_person(db, row.user_id))
    called = (known.name if known else "") or row.user_id.rpartition("/")[2]
    return extend(PasskeyView, row, person=called)
