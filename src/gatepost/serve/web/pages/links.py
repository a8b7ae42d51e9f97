"""Links: webhooks, chat links and invitations. Each is shown when it is made, and never again."""

from gatepost.serve.web.dashboard.contract import PageRequest, Section, page
from gatepost.serve.web.dashboard.tables import Answer, badge, code, link, made, make_table, moment, text
from gatepost.serve.web.dashboard.view import Action, Badge, EmptyState, PageView, Tone
from gatepost.store.tokens import SignatureScheme, TokenKind, TokenState

PAGE = 100
NEW_WEBHOOK = Action(
    label="New webhook", operation="token.add", args={"kind": TokenKind.WEBHOOK.value}, asks=True, tone=Tone.GOOD
)
NEW_INVITATION = Action(label="Invite", operation="invite.create", asks=True)
EMPTY = EmptyState(text="There are no links. By a webhook a program hands messages to an agent.", action=NEW_WEBHOOK)
LINK = (
    code("id", "Link"),
    badge("kind", "Kind"),
    link("folder", "Group", "/groups/{folder}"),
    text("label", "Label"),
    made("signature", "Signed", lambda row: Badge(row["signature"]) if is_signed(row) else None),
    text("instructions", "Instructions"),
    badge("state", "State"),
    moment("expires_at", "Ends"),
    moment("last_used_at", "Last used"),
    text("created_by", "Made by"),
)


@page("/links", "Links", Section.ACCESS, "token.list", order=60)
async def show_links(request: PageRequest) -> PageView:
    found = await request.ask("token.list", limit=PAGE, before=request.query.get("before", ""))
    more = f"?before={found[-1]['id']}" if len(found) == PAGE else ""
    return PageView(
        lead="Whoever has one of these may use it. A link is shown when it is made, and never again.",
        blocks=[make_table(found, LINK, EMPTY, actions=list_actions, more=more)],
        actions=(NEW_WEBHOOK, NEW_INVITATION),
    )


def is_signed(token: Answer) -> bool:
    return bool(token["signature"] != SignatureScheme.NONE)


def list_actions(token: Answer) -> tuple[Action, ...]:
    if token["state"] != TokenState.VALID:
        return ()
    given = {"id": token["id"]}
    revoke = Action(label="Revoke", operation="token.rm", args=given, asks=True, tone=Tone.BAD)
    if token["kind"] != TokenKind.WEBHOOK:
        return (revoke,)
    return (Action(label="Sign", operation="token.sign", args=given, asks=True), revoke)
