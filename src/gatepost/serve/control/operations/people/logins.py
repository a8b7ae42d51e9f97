"""Browsers that are signed in: list, sign out. A person has their own; a holder of the right, those of everybody."""

from gatepost.core.errors import Invalid, NotFound, Refused
from gatepost.core.records import extend
from gatepost.serve.control.arguments.people.logins import (
    READ,
    WRITE,
    BrowserLoginView,
    EndAllLoginsArgs,
    EndedLogins,
    EndLoginArgs,
    ListLoginsArgs,
)
from gatepost.serve.control.contract import OPERATOR, OperationDeps, operation
from gatepost.serve.control.rights import ROOT_FOLDER, has_right
from gatepost.store.people import identities, logins, users
from gatepost.store.people.logins import BrowserLogin
from gatepost.store.port import Db

LONGEST_SHOWN = 80  # characters of a name that is not known


@operation
async def list_logins(deps: OperationDeps, args: ListLoginsArgs) -> list[BrowserLoginView]:
    return await deps.store.read(_list, deps, args.everybody or deps.caller == OPERATOR)


def _list(db: Db, deps: OperationDeps, everybody: bool) -> list[BrowserLoginView]:
    now = deps.clock.now()
    if everybody and not _may(db, deps, READ):
        raise Refused(deps.caller, "login.list", "everybody", f"it needs op:{READ} (`gatepost grant allow`)")
    found = logins.list_all(db, now) if everybody else logins.list_of(db, _list_names(db, deps.caller), now)
    called = {each: _get_called(db, each) for each in {row.user_id for row in found}}
    return [_make_view(row, deps, called[row.user_id]) for row in found]


@operation
async def end_login(deps: OperationDeps, args: EndLoginArgs) -> BrowserLoginView:
    def end(db: Db) -> BrowserLoginView:
        row = logins.get_browser(db, args.id, deps.clock.now())
        if row is None or not (row.user_id in _list_names(db, deps.caller) or _may(db, deps, WRITE)):
            raise NotFound("login", args.id[:LONGEST_SHOWN], "`gatepost login list` shows them")
        logins.remove_browser(db, row.id)
        return _make_view(row, deps, _get_called(db, row.user_id))

    ended = await deps.write(end)
    deps.events.logins()
    return ended


@operation
async def end_all_logins(deps: OperationDeps, args: EndAllLoginsArgs) -> EndedLogins:
    def end(db: Db) -> EndedLogins:
        names = _list_names(db, args.person or deps.caller)
        if not args.person and deps.caller == OPERATOR:
            raise Invalid("person", "say whose browsers are signed out; `gatepost user list` shows who there is")
        if deps.caller not in names and (not _may(db, deps, WRITE) or users.get(db, names[0]) is None):
            raise NotFound("user", args.person[:LONGEST_SHOWN], "`gatepost user list` shows them")
        ended = logins.remove_all(db, names, deps.login if args.keep_this else "")
        return EndedLogins(person=names[0], ended=ended)

    done = await deps.write(end)
    deps.events.logins()
    return done


def _may(db: Db, deps: OperationDeps, right: str) -> bool:
    return deps.caller == OPERATOR or has_right(db, deps.caller, f"op:{right}", ROOT_FOLDER)


def _list_names(db: Db, caller: str) -> tuple[str, ...]:
    return identities.list_names(db, caller)


def _get_called(db: Db, identity: str) -> str:
    known = users.get(db, identities.get_person(db, identity))
    return (known.name if known else "") or identity.rpartition("/")[2]


def _make_view(row: BrowserLogin, deps: OperationDeps, called: str) -> BrowserLoginView:
    return extend(BrowserLoginView, row, person=called, is_this=bool(deps.login) and row.id == deps.login)
