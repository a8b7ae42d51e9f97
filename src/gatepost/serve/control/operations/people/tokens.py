"""Tokens that let somebody in: make, list, revoke."""

from gatepost.core.clock import DAY
from gatepost.core.errors import NotFound
from gatepost.core.keyring import Keyring
from gatepost.core.records import extend, replace
from gatepost.flow import invitations, links
from gatepost.flow.invitations import NewInvitation
from gatepost.flow.links import NewLink
from gatepost.messages.text import clean
from gatepost.serve.control.arguments.people.tokens import (
    AddInvitationArgs,
    AddTokenArgs,
    ListInvitationsArgs,
    ListTokensArgs,
    NewTokenView,
    RevokeTokenArgs,
    SignedTokenView,
    SignTokenArgs,
    TokenView,
)
from gatepost.serve.control.contract import OperationDeps, operation, read_operation
from gatepost.store.port import Db
from gatepost.store.rights import tokens
from gatepost.store.rights.tokens import SignatureScheme, Token, TokenKind


def _make_view(token: Token, now: int) -> TokenView:
    return extend(TokenView, token, state=token.get_state(now))


@operation
async def create_invitation(deps: OperationDeps, args: AddInvitationArgs) -> NewTokenView:
    now = deps.clock.now()
    new = NewInvitation(
        folder=args.folder,
        uses=args.uses,
        expires_at=_find_end(args.days, now),
        own_group=args.own_group,
        label=clean(args.label),
        created_by=deps.caller,
    )

    def issue(db: Db) -> NewTokenView:
        made = invitations.issue(db, new, now)
        return NewTokenView(secret=made.code, token=_make_view(made.token, now))

    return _add_url(deps, await deps.write(issue))


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
        made = links.issue(db, new, now, keyring)
        return NewTokenView(secret=made.secret, token=_make_view(made.token, now), signing_secret=made.signing_secret)

    return _add_url(deps, await deps.write(issue))


def _add_url(deps: OperationDeps, made: NewTokenView) -> NewTokenView:
    return replace(made, url=links.make_url(deps.config, deps.home, made.token.kind, made.secret))


@operation
async def sign_token(deps: OperationDeps, args: SignTokenArgs) -> SignedTokenView:
    now, keyring, scheme = deps.clock.now(), Keyring(deps.home), SignatureScheme(args.signature.value)

    def sign(db: Db) -> SignedTokenView:
        link = _find_token(db, args.id, args.folder)
        made = links.set_signature(db, link, scheme, args.signing_secret, now, keyring)
        return SignedTokenView(token=_make_view(_find_token(db, link.id, ""), now), signing_secret=made)

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
    return [_make_view(each, now) for each in tokens.list_all(db) if each.kind is TokenKind.INVITE]


@read_operation
def list_tokens(db: Db, args: ListTokensArgs, now: int) -> list[TokenView]:
    return [_make_view(each, now) for each in tokens.list_page(db, args.before, args.limit)]


@operation
async def revoke(deps: OperationDeps, args: RevokeTokenArgs) -> TokenView:
    now = deps.clock.now()

    def end(db: Db) -> TokenView:
        token = _find_token(db, args.id, args.folder)
        tokens.revoke(db, token.id, now)
        return _make_view(_find_token(db, token.id, ""), now)

    return await deps.write(end)
