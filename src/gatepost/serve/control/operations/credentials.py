"""Credentials: tokens, API tokens, browsers that are signed in, passkeys and passwords.

A person sees and ends their own browsers and passkeys; a holder of the right, those of everybody. A password is its
person's own.
"""

import importlib.util

from gatepost.access.operation_rights import check_scopes
from gatepost.core import ids
from gatepost.core.clock import DAY, MINUTE
from gatepost.core.errors import Invalid, NotFound, Refused, SetupError, Unavailable
from gatepost.core.keyring import Keyring
from gatepost.core.records import extend, replace
from gatepost.core.settings import Config
from gatepost.flow import invitations, links
from gatepost.flow.groups import WEB_PERSON
from gatepost.flow.invitations import NewInvitation
from gatepost.flow.links import NewLink
from gatepost.messages.inbound import OPERATOR
from gatepost.messages.text import clean
from gatepost.serve.control.arguments.credentials import (
    LOGINS_READ,
    LOGINS_WRITE,
    AddApiTokenArgs,
    AddInvitationArgs,
    AddTokenArgs,
    ApiTokenView,
    BrowserLoginView,
    EndAllLoginsArgs,
    EndedLogins,
    EndLoginArgs,
    ListApiTokensArgs,
    ListInvitationsArgs,
    ListLoginsArgs,
    ListPasskeysArgs,
    ListTokensArgs,
    NewApiTokenView,
    NewTokenView,
    PasskeyList,
    PasskeyView,
    RemovePasskeyArgs,
    RemovePasswordArgs,
    RevokeApiTokenArgs,
    RevokeTokenArgs,
    SetPasswordArgs,
    ShowSignInArgs,
    SignedTokenView,
    SignInState,
    SignTokenArgs,
    TokenView,
)
from gatepost.serve.control.contract import OPERATIONS, OperationDeps, operation, read_operation
from gatepost.serve.control.passkey_setting import EXTRA as PASSKEY_EXTRA
from gatepost.serve.control.passkey_setting import LIBRARY, PASSKEY_LOGIN
from gatepost.serve.control.rights import ROOT_FOLDER, has_right
from gatepost.serve.passwords import EXTRA as PASSWORD_EXTRA
from gatepost.serve.passwords import HASHING, MODULE, PASSWORD_LOGIN, PasswordLimits, check_new
from gatepost.store.people import identities, logins, passkeys, passwords, users
from gatepost.store.people.logins import BrowserLogin
from gatepost.store.people.passkeys import Passkey
from gatepost.store.people.passwords import Password
from gatepost.store.port import Db
from gatepost.store.rights import api_tokens, tokens
from gatepost.store.rights.api_tokens import ApiToken, NewApiToken
from gatepost.store.rights.tokens import InvitedRights, SignatureScheme, Token, TokenKind

API_TOKEN_PREFIX = "gp_api_"  # how tokens begin, so that scanners for leaked secrets know them
LONGEST_SHOWN = 80  # characters of a name that is not known
MOST_PASSKEYS = 500
FRESH_LOGIN = 10 * MINUTE  # after a sign-in nobody is asked for the old password
STALE_LOGIN = (
    "you have signed in more than ten minutes ago: give the old password, or open an address of `gatepost login`"
)
_OLD_PASSWORDS = PasswordLimits()  # of old passwords, by browser


def _make_token_view(token: Token, now: int) -> TokenView:
    return extend(TokenView, token, state=token.get_state(now))


@operation
async def create_invitation(deps: OperationDeps, args: AddInvitationArgs) -> NewTokenView:
    now = deps.clock.now()
    if deps.via and (args.page or args.rights is not InvitedRights.TALK):
        raise Refused(deps.caller, "invite", args.folder, "a program's token gives nobody the rights of its person")
    new = NewInvitation(
        folder=args.folder,
        uses=args.uses,
        expires_at=_find_end(args.days, now),
        own_group=args.own_group,
        label=clean(args.label),
        created_by=deps.caller,
        rights=args.rights,
        page=args.page,
    )

    def issue(db: Db) -> NewTokenView:
        made = invitations.issue(db, new, now)
        return NewTokenView(secret=made.code, token=_make_token_view(made.token, now))

    made = _add_url(deps, await deps.write(issue))
    return replace(made, secret="") if args.page and made.url else made  # the link has it


@operation
async def add_token(deps: OperationDeps, args: AddTokenArgs) -> NewTokenView:
    now = deps.clock.now()
    new = NewLink(
        kind=TokenKind(args.kind.value),
        folder=args.folder,
        label=args.label,
        suffix=args.suffix,
        expires_at=_find_end(args.days, now),
        created_by=deps.caller,
        instructions=args.instructions,
        signature=SignatureScheme(args.signature.value),
        signing_secret=args.signing_secret,
        origins=tuple(args.origins),
    )
    keyring = Keyring(deps.home)

    def issue(db: Db) -> NewTokenView:
        made = links.issue_link(db, new, now, keyring)
        return NewTokenView(
            secret=made.secret, token=_make_token_view(made.token, now), signing_secret=made.signing_secret
        )

    return _add_url(deps, await deps.write(issue))


def _add_url(deps: OperationDeps, made: NewTokenView) -> NewTokenView:
    return replace(made, url=links.make_url(deps.config, deps.home, made.token.kind, made.secret))


@operation
async def sign_token(deps: OperationDeps, args: SignTokenArgs) -> SignedTokenView:
    now, keyring, scheme = deps.clock.now(), Keyring(deps.home), SignatureScheme(args.signature.value)

    def sign(db: Db) -> SignedTokenView:
        link = _find_token(db, args.id, args.folder)
        made = links.set_signature(db, link, scheme, args.signing_secret, now, keyring)
        return SignedTokenView(token=_make_token_view(_find_token(db, link.id, ""), now), signing_secret=made)

    return await deps.write(sign)


def _find_token(db: Db, token_id: str, folder: str) -> Token:
    token = tokens.get(db, token_id)
    if token is None or token.folder is None or (folder and token.folder != folder):
        raise NotFound("token", token_id[:80], "`gatepost token list` shows them")
    return token


def _find_end(days: int, now: int) -> int | None:
    return now + days * DAY if days else None


@read_operation
def list_invitations(db: Db, args: ListInvitationsArgs, now: int) -> list[TokenView]:
    return [_make_token_view(each, now) for each in tokens.list_all(db) if each.kind is TokenKind.INVITE]


@read_operation
def list_tokens(db: Db, args: ListTokensArgs, now: int) -> list[TokenView]:
    return [_make_token_view(each, now) for each in tokens.list_page(db, args.before, args.limit)]


@operation
async def revoke_token(deps: OperationDeps, args: RevokeTokenArgs) -> TokenView:
    now = deps.clock.now()

    def end(db: Db) -> TokenView:
        token = _find_token(db, args.id, args.folder)
        tokens.revoke(db, token.id, now)
        return _make_token_view(_find_token(db, token.id, ""), now)

    return await deps.write(end)


def _make_api_token_view(token: ApiToken, now: int) -> ApiTokenView:
    return extend(ApiTokenView, token, state=token.get_state(now))


@operation
async def add_api_token(deps: OperationDeps, args: AddApiTokenArgs) -> NewApiTokenView:
    if args.person and deps.caller != OPERATOR:
        raise Refused(deps.caller, "api_token.add", args.person[:80], "only the operator makes tokens for others")
    now, secret = deps.clock.now(), API_TOKEN_PREFIX + ids.token()
    rights = [each.info.right for _, each in OPERATIONS.items()]
    scopes, expires_at = check_scopes(args.scopes, rights), now + args.days * DAY if args.days else None

    def issue(db: Db) -> NewApiTokenView:
        maker = _find_person(db, args.person) if args.person else deps.caller
        new = NewApiToken(label=clean(args.label), maker=maker, scopes=scopes, expires_at=expires_at)
        made = api_tokens.add(db, new, secret, now)
        if made is None:
            raise Unavailable("tokens", f"there are {api_tokens.MOST}; `gatepost token api rm` ends one")
        return NewApiTokenView(secret=secret, token=_make_api_token_view(made, now))

    return await deps.write(issue)


def _find_person(db: Db, named: str) -> str:
    person = identities.get_person(db, named)
    if users.get(db, person) is None:
        raise NotFound("user", named[:80], "`gatepost user list` shows them")
    return person


@operation
async def list_api_tokens(deps: OperationDeps, args: ListApiTokensArgs) -> list[ApiTokenView]:
    now = deps.clock.now()
    if deps.caller == OPERATOR:
        found = await deps.store.read(api_tokens.list_all)
    else:
        found = await deps.store.read(api_tokens.list_of, deps.caller)
    return [_make_api_token_view(each, now) for each in found]


@operation
async def revoke_api_token(deps: OperationDeps, args: RevokeApiTokenArgs) -> ApiTokenView:
    now = deps.clock.now()

    def end(db: Db) -> ApiTokenView:
        token = api_tokens.get(db, args.id)
        if token is None or deps.caller not in (OPERATOR, token.maker):
            raise NotFound("token", args.id[:80], "`gatepost token api list` shows them")
        api_tokens.revoke(db, token.id, now)
        ended = api_tokens.get(db, token.id)
        assert ended is not None
        return _make_api_token_view(ended, now)

    return await deps.write(end)


@operation
async def list_logins(deps: OperationDeps, args: ListLoginsArgs) -> list[BrowserLoginView]:
    return await deps.store.read(_list_logins, deps, args.everybody or deps.caller == OPERATOR)


def _list_logins(db: Db, deps: OperationDeps, everybody: bool) -> list[BrowserLoginView]:
    now = deps.clock.now()
    if everybody and not _may(db, deps, LOGINS_READ):
        raise Refused(deps.caller, "login.list", "everybody", f"it needs op:{LOGINS_READ} (`gatepost grant allow`)")
    found = logins.list_all(db, now) if everybody else logins.list_of(db, identities.list_names(db, deps.caller), now)
    called = {each: _get_called(db, each) for each in {row.user_id for row in found}}
    return [_make_login_view(row, deps, called[row.user_id]) for row in found]


@operation
async def end_login(deps: OperationDeps, args: EndLoginArgs) -> BrowserLoginView:
    def end(db: Db) -> BrowserLoginView:
        row = logins.get_browser(db, args.id, deps.clock.now())
        if row is None or not (row.user_id in identities.list_names(db, deps.caller) or _may(db, deps, LOGINS_WRITE)):
            raise NotFound("login", args.id[:LONGEST_SHOWN], "`gatepost login list` shows them")
        logins.remove_browser(db, row.id)
        return _make_login_view(row, deps, _get_called(db, row.user_id))

    ended = await deps.write(end)
    deps.events.logins()
    return ended


@operation
async def end_all_logins(deps: OperationDeps, args: EndAllLoginsArgs) -> EndedLogins:
    def end(db: Db) -> EndedLogins:
        names = identities.list_names(db, args.person or deps.caller)
        if not args.person and deps.caller == OPERATOR:
            raise Invalid("person", "say whose browsers are signed out; `gatepost user list` shows who there is")
        if deps.caller not in names and (not _may(db, deps, LOGINS_WRITE) or users.get(db, names[0]) is None):
            raise NotFound("user", args.person[:LONGEST_SHOWN], "`gatepost user list` shows them")
        ended = logins.remove_all(db, names, deps.login if args.keep_this else "")
        return EndedLogins(person=names[0], ended=ended)

    done = await deps.write(end)
    deps.events.logins()
    return done


def _may(db: Db, deps: OperationDeps, right: str) -> bool:
    return deps.caller == OPERATOR or has_right(db, deps.caller, f"op:{right}", ROOT_FOLDER)


def _get_called(db: Db, identity: str) -> str:
    known = users.get(db, identities.get_person(db, identity))
    return (known.name if known else "") or identity.rpartition("/")[2]


def _make_login_view(row: BrowserLogin, deps: OperationDeps, called: str) -> BrowserLoginView:
    return extend(BrowserLoginView, row, person=called, is_this=bool(deps.login) and row.id == deps.login)


@operation
async def list_passkeys(deps: OperationDeps, args: ListPasskeysArgs) -> PasskeyList:
    found = await deps.store.read(_list_passkeys, deps, args.everybody or deps.caller == OPERATOR)
    wanted, there = deps.config[PASSKEY_LOGIN], importlib.util.find_spec(LIBRARY) is not None
    missing = f"pip install 'gatepost[{PASSKEY_EXTRA}]'" if wanted and not there else ""
    return PasskeyList(is_on=wanted and there, missing=missing, passkeys=found)


def _list_passkeys(db: Db, deps: OperationDeps, everybody: bool) -> list[PasskeyView]:
    if everybody and not _may(db, deps, LOGINS_READ):
        raise Refused(deps.caller, "passkey.list", "everybody", f"it needs op:{LOGINS_READ} (`gatepost grant allow`)")
    if everybody:
        found = passkeys.list_all(db, MOST_PASSKEYS)
    else:
        found = [row for name in identities.list_names(db, deps.caller) for row in passkeys.list_of(db, name)]
    return [_make_passkey_view(db, row) for row in found]


@operation
async def remove_passkey(deps: OperationDeps, args: RemovePasskeyArgs) -> PasskeyView:
    def remove(db: Db) -> PasskeyView:
        row = passkeys.get(db, args.id)
        if row is None or not (row.user_id in identities.list_names(db, deps.caller) or _may(db, deps, LOGINS_WRITE)):
            raise NotFound("passkey", args.id[:LONGEST_SHOWN], "`gatepost passkey list` shows them")
        passkeys.remove(db, row.id)
        return _make_passkey_view(db, row)

    return await deps.write(remove)


def _make_passkey_view(db: Db, row: Passkey) -> PasskeyView:
    return extend(PasskeyView, row, person=_get_called(db, row.user_id))


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
    _check_password_login(deps.config)
    check_new(args.new_password, user.removeprefix(WEB_PERSON))
    before = await deps.store.read(passwords.get, user)
    proven = bool(args.old_password) and await _check_old(deps, before, args.old_password)
    hashed = await HASHING.hash(args.new_password)

    def write(db: Db) -> SignInState:
        now = deps.clock.now()
        browser = logins.get_browser(db, deps.login, now)
        if browser is None or browser.user_id != user:
            raise Refused(user, "login.set_password", why="this browser is not signed in any more")
        if passwords.get(db, user) != before or not (proven or now - browser.created_at <= FRESH_LOGIN):
            raise Refused(user, "login.set_password", why=STALE_LOGIN)
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
        may = deps.caller in names or _may(db, deps, LOGINS_WRITE)
        removed = may and [each for each in names if passwords.remove(db, each)]
        if not removed:
            whose = (args.person or deps.caller)[:80]
            raise NotFound("person with a password", whose, "`gatepost user list` shows who there is")
        logins.remove_all(db, names, kept=deps.login)
        return _read_state(db, deps.config, names[0])

    state = await deps.write(write)
    deps.events.logins()
    return state


def _check_password_login(config: Config) -> None:
    if not config[PASSWORD_LOGIN]:
        raise Invalid("web.password_login", "it is off here; the operator turns it on in gatepost.toml")
    if importlib.util.find_spec(MODULE) is None:
        raise SetupError(
            f"web.password_login needs gatepost[{PASSWORD_EXTRA}]: `pip install 'gatepost[{PASSWORD_EXTRA}]'`"
        )


async def _check_old(deps: OperationDeps, before: Password | None, given: str) -> bool:
    """Check the old password, at a bounded rate: the thief of a signed-in browser must not guess it, either."""
    if _OLD_PASSWORDS.admit("", "", deps.login) != 0:
        raise Refused(deps.caller, "login.set_password", why="too many old passwords were tried; wait a minute")
    if not await HASHING.verify(before.hash if before else None, given):
        raise Invalid("old_password", "it is not the password until now")
    _OLD_PASSWORDS.forgive("", "", deps.login)
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
