"""Secrets: their names, where they go and when they were used. Never their values."""

from gatepost.serve.control.arguments.secrets import ListSecretsArgs, SecretListItem, SecretLogArgs
from gatepost.serve.web.dashboard.contract import PageRequest, Section, page
from gatepost.serve.web.dashboard.tables import made, make_columns, make_table
from gatepost.serve.web.dashboard.view import Action, EmptyState, PageView, Tone
from gatepost.store.rights.secret_rows import SecretUse

LIMIT = 100
SET = Action(label="Set a secret", operation="secret.set", asks=True, tone=Tone.GOOD)
BIND = Action(label="Bind to a host", operation="secret.bind", asks=True)
SECRET = make_columns(
    SecretListItem, {"folder": made("folder", "Of", lambda each: each.folder or each.user_id or "all")}
)
USE = make_columns(SecretUse)


@page("/secrets", "Secrets", Section.ACCESS, "secret.list", "secret.log", order=50)
async def show_secrets(request: PageRequest) -> PageView:
    none = EmptyState(text="There is no secret. Agents use one without ever seeing it.", action=SET)
    unused = EmptyState(text="No secret was used yet.")
    found, uses = await request.ask(ListSecretsArgs()), await request.ask(SecretLogArgs(limit=LIMIT))
    return PageView(
        lead="Values are sealed. No page, no log and no agent shows them.",
        blocks=[
            make_table(found, SECRET, none, actions=list_actions),
            make_table(uses, USE, unused, title="Uses"),
        ],
        actions=(BIND, SET),
    )


def list_actions(secret: SecretListItem) -> tuple[Action, ...]:
    given = {"name": secret.name, "folder": secret.folder, "user": secret.user_id, "origin": secret.origin}
    given = {name: value for name, value in given.items() if value}
    return (Action(label="Remove", operation="secret.rm", args=given, asks=True, tone=Tone.BAD),)
