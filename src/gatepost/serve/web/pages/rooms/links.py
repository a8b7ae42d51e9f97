"""Links: webhooks, chat links and invitations. Each is shown when it is made, and never again."""

from gatepost.serve.control.arguments.credentials import ListTokensArgs, TokenView
from gatepost.serve.web.dashboard.contract import PageRequest, Section, page
from gatepost.serve.web.dashboard.tables import (
    in_files,
    link,
    made,
    make_columns,
    make_moment,
    make_table,
    shorten,
)
from gatepost.serve.web.dashboard.view import Action, Badge, Cell, Code, EmptyState, PageView, Tone
from gatepost.store.rights.tokens import TokenKind, TokenState

PAGE = 100
SHOWN = 60  # characters of instructions
NEW_WEBHOOK = Action(
    label="New webhook", operation="token.add", args={"kind": TokenKind.WEBHOOK.value}, asks=True, tone=Tone.GOOD
)
NEW_CHAT = Action(label="New chat link", operation="token.add", args={"kind": TokenKind.CHAT_LINK.value}, asks=True)
NEW_INVITATION = Action(label="Invite", operation="invite.create", asks=True)
EMPTY = EmptyState(text="There are no links. By a webhook a program hands messages to an agent.", action=NEW_WEBHOOK)
OWN = {
    "label": made("label", "Label", lambda row: row.label or Code(row.id)),
    "kind": made("kind", "Kind", lambda row: Badge(row.kind.replace("_", " "))),
    "folder": link("folder", "Group", "/groups/{folder}"),
    "instructions": made("instructions", "Instructions", lambda row: shorten(row.instructions, SHOWN) or None),
    "expires_at": made("expires_at", "Ends", lambda row: show_end(row)),
    "state": in_files("state"),
}
LINK = make_columns(TokenView, OWN)


@page("/links", "Links", Section.ACCESS, "token.list", order=60)
async def show_links(request: PageRequest) -> PageView:
    found = await request.ask(ListTokensArgs(limit=PAGE, before=request.query.get("before", "")))
    more = f"?before={found[-1].id}" if len(found) == PAGE else ""
    return PageView(
        lead="Everybody who has one of these may use it. A link is shown when it is made, and never again.",
        blocks=[make_table(found, LINK, EMPTY, actions=list_actions, more=more)],
        actions=(NEW_WEBHOOK, NEW_CHAT, NEW_INVITATION),
    )


def show_end(token: TokenView) -> Cell:
    """When it ends, or what has ended it."""
    if token.state != TokenState.VALID:
        return Badge(token.state.replace("_", " "))
    return make_moment(token.expires_at) if token.expires_at else None


def list_actions(token: TokenView) -> tuple[Action, ...]:
    if token.state != TokenState.VALID:
        return ()
    given = {"id": token.id}
    revoke = Action(label="Revoke", operation="token.rm", args=given, asks=True, tone=Tone.BAD)
    if token.kind != TokenKind.WEBHOOK:
        return (revoke,)
    return (Action(label="Sign", operation="token.sign", args=given, asks=True), revoke)
