"""API tokens: make, list, revoke."""

from gatepost.access.operation_rights import check_scopes
from gatepost.core import ids
from gatepost.core.clock import DAY
from gatepost.core.errors import NotFound, Refused, Unavailable
from gatepost.core.records import extend
from gatepost.messages.text import clean
from gatepost.serve.control.arguments.people.api_tokens import (
    AddApiTokenArgs,
    ApiTokenView,
    ListApiTokensArgs,
    NewApiTokenView,
    RevokeApiTokenArgs,
)
from gatepost.serve.control.contract import OPERATIONS, OPERATOR, OperationDeps, operation
from gatepost.store.people import identities, users
from gatepost.store.port import Db
from gatepost.store.rights import api_tokens
from gatepost.store.rights.api_tokens import ApiToken, NewApiToken

SIGN = "gp_api_"  # how tokens begin, so that scanners for leaked secrets know them


def _make_view(token: ApiToken, now: int) -> ApiTokenView:
    return extend(ApiTokenView, token, state=token.get_state(now))


@operation
async def add_api_token(deps: OperationDeps, args: AddApiTokenArgs) -> NewApiTokenView:
    if args.person and deps.caller != OPERATOR:
        raise Refused(deps.caller, "api_token.add", args.person[:80], "only the operator makes tokens for others")
    now, secret = deps.clock.now(), SIGN + ids.token()
    rights = [each.info.right for _, each in OPERATIONS.items()]
    scopes, expires_at = check_scopes(args.scopes, rights), now + args.days * DAY if args.days else None

    def issue(db: Db) -> NewApiTokenView:
        maker = _find_person(db, args.person) if args.person else deps.caller
        new = NewApiToken(label=clean(args.label), maker=maker, scopes=scopes, expires_at=expires_at)
        made = api_tokens.add(db, new, secret, now)
        if made is None:
            raise Unavailable("tokens", f"there are {api_tokens.MOST}; `gatepost token api rm` ends one")
        return NewApiTokenView(secret=secret, token=_make_view(made, now))

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
    return [_make_view(each, now) for each in found]


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
        return _make_view(ended, now)

    return await deps.write(end)
