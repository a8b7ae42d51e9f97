"""Invitations: let people into the caller's part of the tree by a code."""

from collections.abc import Iterable, Mapping
from typing import Annotated, Any

from msgspec import Meta, Struct

from gatepost.access.subjects import Subject
from gatepost.access.tiers import Tier
from gatepost.core.clock import iso
from gatepost.core.errors import Invalid
from gatepost.flow import invitations, links
from gatepost.flow.intake.routing import MADE_BY
from gatepost.flow.invitations import MOST_USES, IssuedInvitation, NewInvitation
from gatepost.store.port import Db
from gatepost.store.rights.tokens import TokenKind
from gatepost.tools.call import ToolCall
from gatepost.tools.contract import tool
from gatepost.tools.kit.child_quota import check_quota
from gatepost.tools.kit.lookup_helpers import parse_time

OWN_GROUP = "/"
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
