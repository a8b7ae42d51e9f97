"""A person's own password for the web page: show whether it is set, set it, remove it."""

import importlib.util

from gatepost.core.clock import MINUTE
from gatepost.core.errors import Invalid, NotFound, Refused, SetupError
from gatepost.core.settings import Config
from gatepost.flow.groups import WEB_PERSON
from gatepost.serve.control.arguments.people.logins import WRITE
from gatepost.serve.control.arguments.people.passwords import (
    RemovePasswordArgs,
    SetPasswordArgs,
    ShowSignInArgs,
    SignInState,
)
from gatepost.serve.control.contract import OPERATOR, OperationDeps, operation
from gatepost.serve.control.rights import ROOT_FOLDER, has_right
from gatepost.serve.password_hashing import EXTRA, HASHING, MODULE, PASSWORD_LOGIN, check_new
from gatepost.serve.password_limits import PasswordLimits
from gatepost.store.people import identities, logins, passwords
from gatepost.store.people.passwords import Password
from gatepost.store.port import Db

FRESH = 10 * MINUTE  # after a sign-in nobody is asked for the old password
STALE = "you have signed in more than ten minutes ago: give the old password, or open an address of `gatepost login`"
_LIMITS = PasswordLimits()  # of old passwords, by browser


@operation
async def show_sign_in(deps: OperationDeps, args: ShowSignInArgs) -> SignInState:
    return await deps.store.read(_read_state, deps.config, deps.caller)


@operation
async def set_password(deps: OperationDeps, args: SetPasswordArgs) -> SignInState:
    user = deps.caller
    if not deps.login or not user.startswith(WEB_PERSON):
        raise Refused(
            user, "login.set_password", why="a person sets it themselves, on the page Sign-ins of the dashboard"
        )
    _check_on(deps.config)
    check_new(args.new_password, user.removeprefix(WEB_PERSON))
    before = await deps.store.read(passwords.get, user)
    proven = bool(args.old_password) and await _check_old(deps, before, args.old_password)
    hashed = await HASHING.hash(args.new_password)

    def write(db: Db) -> SignInState:
        now = deps.clock.now()
        browser = logins.get_browser(db, deps.login, now)
        if browser is None or browser.user_id != user:
            raise Refused(user, "login.set_password", why="this browser is not signed in any more")
        if passwords.get(db, user) != before or not (proven or now - browser.created_at <= FRESH):
            raise Refused(user, "login.set_password", why=STALE)
        passwords.put(db, user, hashed, now)
        logins.remove_all(db, identities.list_names(db, user), kept=deps.login)
        return _read_state(db, deps.config, user)

    state = await deps.write(write)
    deps.events.logins()
    return state


@operation
async def remove_password(deps: OperationDeps, args: RemovePasswordArgs) -> SignInState:
    def write(db: Db) -> SignInState:
        if not args.person and deps.caller == OPERATOR:
            raise Invalid(
                "person", "say whose password is removed (--person ID); `gatepost user list` shows who there is"
            )
        names = identities.list_names(db, args.person or deps.caller)
        may = deps.caller in names or deps.caller == OPERATOR or has_right(db, deps.caller, f"op:{WRITE}", ROOT_FOLDER)
        removed = may and [each for each in names if passwords.remove(db, each)]
        if not removed:
            whose = (args.person or deps.caller)[:80]
            raise NotFound("person with a password", whose, "`gatepost user list` shows who there is")
        logins.remove_all(db, names, kept=deps.login)
        return _read_state(db, deps.config, names[0])

    state = await deps.write(write)
    deps.events.logins()
    return state


def _check_on(config: Config) -> None:
    if not config[PASSWORD_LOGIN]:
        raise Invalid("web.password_login", "it is off here; the operator turns it on in gatepost.toml")
    if importlib.util.find_spec(MODULE) is None:
        raise SetupError(f"web.password_login needs gatepost[{EXTRA}]: `pip install 'gatepost[{EXTRA}]'`")


async def _check_old(deps: OperationDeps, before: Password | None, given: str) -> bool:
    """Check the old password, at a bounded rate: the thief of a signed-in browser must not guess it, either."""
    if _LIMITS.admit("", "", deps.login) != 0:
        raise Refused(deps.caller, "login.set_password", why="too many old passwords were tried; wait a minute")
    if not await HASHING.verify(before.hash if before else None, given):
        raise Invalid("old_password", "it is not the password until now")
    _LIMITS.forgive("", "", deps.login)
    return True


def _read_state(db: Db, config: Config, caller: str) -> SignInState:
    names = [each for each in identities.list_names(db, caller) if each.startswith(WEB_PERSON)]
    user = caller if caller in names else next(iter(names), "")
    stored = passwords.get(db, user) if user else None
    return SignInState(
        name=user.removeprefix(WEB_PERSON),
        password_login=config[PASSWORD_LOGIN],
        changed_at=stored.changed_at if stored else None,
    )
