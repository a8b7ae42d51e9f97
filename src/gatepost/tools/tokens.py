"""Tokens for the caller's part of the tree: chat links, webhooks and invitations are made here, and every kind is
listed and revoked. `serve/web/widget` answers chat links, `serve/web/links` webhooks."""

from collections.abc import Iterable, Mapping
from typing import Annotated, Any

from msgspec import Meta, Struct

from gatepost.access.subjects import Subject
from gatepost.access.tiers import Tier, TreeScope, may_act_on
from gatepost.core.clock import iso
from gatepost.core.errors import Invalid, NotFound
from gatepost.core.keyring import Keyring
from gatepost.core.records import replace
from gatepost.flow import invitations, links
from gatepost.flow.intake.routing import MADE_BY
from gatepost.flow.invitations import MOST_USES, IssuedInvitation, NewInvitation
from gatepost.flow.links import LONGEST_INSTRUCTIONS, IssuedLink, NewLink
from gatepost.gate.tool_answers import fitting
from gatepost.store.port import Db
from gatepost.store.rights import tokens
from gatepost.store.rights.tokens import SignatureScheme, Token, TokenKind, TokenState
from gatepost.tools.call import ToolCall
from gatepost.tools.contract import tool
from gatepost.tools.kit.child_quota import check_quota
from gatepost.tools.kit.lookup_helpers import parse_time

OWN_GROUP = "/"
Group = Annotated[str | None, Meta(description="The group that gets what is written there. Default: your own.")]
Suffix = Annotated[str, Meta(description="Tells several rooms of one group apart: letters, digits, `_`, `-`.")]
Origins = Annotated[
    tuple[str, ...],
    Meta(
        max_length=10, description="Sites that may show the chat in a frame, like https://shop.example. Default: none."
    ),
]


class CreatedLink(Struct, frozen=True, kw_only=True):
    """`token`, `url`, `signing_secret`: nobody can read them here again. `url`: where to post or write; empty while no
    page of this gateway answers such tokens. `signing_secret`: what the sender signs with, if a signature was asked."""

    token: str
    id: str
    jid: str
    url: str = ""
    signing_secret: str = ""


class TokenInfo(Struct, frozen=True, kw_only=True):
    """`uses_left`: null for any number. `jid`: the room that it leads to, '' for an invitation. `signature`: how a
    webhook's sender proves what it posts."""

    id: str
    kind: TokenKind
    state: TokenState
    folder: str
    jid: str
    label: str
    uses_left: int | None
    expires_at: str | None
    created_by: str
    created_at: str | None
    last_used_at: str | None
    signature: SignatureScheme
    instructions: str


class TokenList(Struct, frozen=True):
    """The newest first. `more`: there are others, which do not fit; give the last id as `after`."""

    tokens: list[TokenInfo]
    more: bool


class RevokedTokens(Struct, frozen=True):
    deleted: int


Target = Annotated[
    str,
    Meta(
        description="The group that people are invited to, yours or one below it: acme/eng. With / behind it each"
        " of them gets a group of their own below it, from its prototype/ folder."
    ),
]


class CreatedInvitation(Struct, frozen=True, kw_only=True):
    """`token`: the code, which nobody can read here again. `id`: by which list_tokens and revoke_token know it.
    `accept_url`: a page that says what it gives, and how to accept it; '' if there is none."""

    token: str
    id: str
    target_glob: str
    max_uses: int
    expires_at: str | None
    accept_url: str = ""


@tool(tier=Tier.WORLD, scoped_by="target_folder", group="access", effects=(Subject.CHANGE_RIGHTS, Subject.PUBLISH))
async def issue_chat_link(
    call: ToolCall, target_folder: Group = None, jid_suffix: Suffix = "", origins: Origins = ()
) -> CreatedLink:
    """Make a link to a web chat with a group that needs no account. Everybody who has it may write there.

    The link is shown once. To take it back use revoke_token. For programs that report something use issue_webhook.
    """
    new = _make_link(call, TokenKind.CHAT_LINK, target_folder, "", jid_suffix)
    return await _issue(call, replace(new, origins=origins))


@tool(tier=Tier.WORLD, scoped_by="target_folder", group="access", effects=(Subject.CHANGE_RIGHTS, Subject.PUBLISH))
async def issue_webhook(
    call: ToolCall,
    source_label: Annotated[str, Meta(description="What reports there, like github: letters, digits, `_`, `-`.")],
    target_folder: Group = None,
    jid_suffix: Suffix = "",
    context: Annotated[
        str,
        Meta(
            max_length=LONGEST_INSTRUCTIONS,
            description="What the agent is to do with what comes by it. It is told so with each message.",
        ),
    ] = "",
    signature: Annotated[
        SignatureScheme,
        Meta(description="Whose way of signing proves what comes. A secret is made; the operator can set another."),
    ] = SignatureScheme.NONE,
) -> CreatedLink:
    """Make a link by which a program outside may hand messages to a group: it posts to `url`.

    The link is shown once. To take it back use revoke_token. For people use issue_chat_link.
    """
    new = _make_link(call, TokenKind.WEBHOOK, target_folder, source_label, jid_suffix)
    return await _issue(call, replace(new, instructions=context, signature=signature))


def _make_link(call: ToolCall, kind: TokenKind, folder: str | None, label: str, suffix: str) -> NewLink:
    own = call.caller.folder
    return NewLink(kind=kind, folder=folder or own, label=label, suffix=suffix, created_by=f"{MADE_BY}{own}")


async def _issue(call: ToolCall, new: NewLink) -> CreatedLink:
    deps = call.deps
    keyring = Keyring(deps.home)

    def issue(db: Db) -> IssuedLink:
        return links.issue_link(db, new, call.now, keyring)

    made = await call.write(issue)
    return CreatedLink(
        token=made.secret,
        id=made.token.id,
        jid=made.token.address,
        url=links.make_url(deps.config, deps.home, new.kind, made.secret),
        signing_secret=made.signing_secret,
    )


@tool(tier=Tier.WORLD, group="access", read_only=True, idempotent=True)
async def list_tokens(
    call: ToolCall,
    after: Annotated[str, Meta(description="Only those behind this id, if the last answer said `more`.")] = "",
) -> TokenList:
    """See the invitations, chat links and webhooks for your group and those below it, without their secrets.

    To take one back use revoke_token.
    """

    def read(db: Db) -> list[Token]:
        return [each for each in tokens.list_all(db) if _is_own(call, each) and (not after or each.id < after)]

    found = await call.read(read)
    return TokenList(*fitting(_render(each, call.now) for each in found))


@tool(
    tier=Tier.WORLD, group="access", effects=(Subject.CHANGE_RIGHTS, Subject.ERASE), destructive=True, idempotent=True
)
async def revoke_token(
    call: ToolCall,
    jid: Annotated[str, Meta(description="The room: every token that leads there is revoked.")] = "",
    id: Annotated[str, Meta(description="One token, as list_tokens shows it; an invitation has no room.")] = "",
) -> RevokedTokens:
    """Take back tokens for your group or those below it. They do not work from then on.

    People who came in by an invitation stay members.
    """
    if bool(jid) is bool(id):
        raise Invalid("jid", "name either a room by `jid` or one token by `id`")

    def revoke(db: Db) -> int:
        found = tokens.list_at(db, jid) if jid else [each for each in (tokens.get(db, id),) if each is not None]
        own = [each for each in found if _is_own(call, each)]
        if not own:
            raise NotFound("token", (jid or id)[:80], "use list_tokens to see them")
        return sum(tokens.revoke(db, each.id, call.now) for each in own)

    revoked = await call.write(revoke)
    call.deps.events.operation()  # a visitor's stream ends at once
    return RevokedTokens(revoked)


def _is_own(call: ToolCall, token: Token) -> bool:
    """Within the caller's reach, and no rule forbids it. Nobody's pairing link is."""
    folder = token.folder
    return folder is not None and may_act_on(TreeScope.SUBTREE, call.caller.folder, folder) and call.allows(folder)


def _render(token: Token, now: int) -> TokenInfo:
    return TokenInfo(
        id=token.id,
        kind=token.kind,
        state=token.get_state(now),
        folder=token.folder or "",
        jid=token.address,
        label=token.label,
        uses_left=token.uses_left,
        expires_at=iso(token.expires_at) if token.expires_at else None,
        created_by=token.created_by,
        created_at=iso(token.created_at),
        last_used_at=iso(token.last_used_at) if token.last_used_at else None,
        signature=token.signature,
        instructions=token.instructions,
    )


def _about(arguments: Mapping[str, Any]) -> Iterable[str]:
    return [_read_target(arguments["target_glob"])] if "target_glob" in arguments else []


def _read_target(text: str) -> str:
    """The group: with `/` behind it, the one below which new ones are made."""
    if any(sign in text for sign in "*?["):
        raise Invalid("target_glob", f"{text[:80]!r} is a pattern; an invitation is for one group")
    return text.removesuffix(OWN_GROUP)


@tool(tier=Tier.WORLD, about=_about, group="access", effects=(Subject.CHANGE_RIGHTS,))
async def invite_create(
    call: ToolCall,
    target_glob: Target,
    max_uses: Annotated[int, Meta(ge=1, le=MOST_USES, description="How many people may use it.")] = 1,
    expires_at: Annotated[
        str | None, Meta(description="Until when it can be used, like 2027-01-31T12:00:00Z. Leave it out for no end.")
    ] = None,
) -> CreatedInvitation:
    """Make an invitation: whoever sends its code in a chat becomes a member of the group and may write to it.

    The code is shown once, so pass it on now. People send it alone or as `/join CODE`. To take it back use
    revoke_token; list_tokens shows which there are.
    """
    folder, own_group = _read_target(target_glob), target_glob.endswith(OWN_GROUP)
    ends = parse_time(expires_at, "expires_at") if expires_at else None
    new = NewInvitation(
        folder=folder,
        uses=max_uses,
        expires_at=ends,
        own_group=own_group,
        created_by=f"{MADE_BY}{call.caller.folder}",
    )

    def issue(db: Db) -> IssuedInvitation:
        if own_group:
            check_quota(db, call, folder, max_uses)
        return invitations.issue(db, new, call.now)

    made = await call.write(issue)
    return CreatedInvitation(
        token=made.code,
        id=made.token.id,
        target_glob=target_glob,
        max_uses=max_uses,
        expires_at=iso(ends) if ends else None,
        accept_url=links.make_url(call.deps.config, call.deps.home, TokenKind.INVITE, made.code),
    )
