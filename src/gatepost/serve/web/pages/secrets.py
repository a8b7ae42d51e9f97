"""Secrets: their names, where they go and when they were used, never their values. Egress: which hosts agents may
reach, and what they tried."""

from gatepost.serve.control.arguments.secrets import (
    EgressLogArgs,
    ListEgressRulesArgs,
    ListSecretsArgs,
    SecretListItem,
    SecretLogArgs,
)
from gatepost.serve.web.dashboard.contract import PageRequest, Section, page
from gatepost.serve.web.dashboard.hosts import list_wall_notes
from gatepost.serve.web.dashboard.tables import link, made, make_columns, make_table
from gatepost.serve.web.dashboard.view import Action, EmptyState, PageView, Tone
from gatepost.store.rights.egress import EgressAttempt, EgressRule
from gatepost.store.rights.secret_rows import SecretUse

MOST_USES = 100
SET_SECRET = Action(label="Set a secret", operation="secret.set", asks=True, tone=Tone.GOOD)
BIND_SECRET = Action(label="Bind to a host", operation="secret.bind", asks=True)
SECRET = make_columns(
    SecretListItem, {"folder": made("folder", "Of", lambda each: each.folder or each.user_id or "all")}
)
SECRET_USE = make_columns(SecretUse)
MOST_ATTEMPTS = 100
ALLOW_HOST = Action(label="Allow a host", operation="egress.allow", asks=True, tone=Tone.GOOD)
DENY_HOST = Action(label="Deny a host", operation="egress.deny", asks=True)
EGRESS_RULE = make_columns(EgressRule)
EGRESS_ATTEMPT = make_columns(
    EgressAttempt,
    {
        "folder": link("folder", "Group", "/groups/{folder}"),
        "session_id": link("session_id", "Conversation", "/sessions/{id}"),
    },
)


@page("/secrets", "Secrets", Section.SYSTEM, "secret.list", "secret.log", order=30)
async def show_secrets(request: PageRequest) -> PageView:
    none = EmptyState(text="There is no secret. Agents use one without ever seeing it.", action=SET_SECRET)
    unused = EmptyState(text="No secret was used yet.")
    found, uses = await request.ask(ListSecretsArgs()), await request.ask(SecretLogArgs(limit=MOST_USES))
    return PageView(
        lead="Values are sealed. No page, no log and no agent shows them.",
        blocks=[
            make_table(found, SECRET, none, actions=list_secret_actions),
            make_table(uses, SECRET_USE, unused, title="Uses"),
        ],
        actions=(BIND_SECRET, SET_SECRET),
    )


def list_secret_actions(secret: SecretListItem) -> tuple[Action, ...]:
    given = {"name": secret.name, "folder": secret.folder, "user": secret.user_id, "origin": secret.origin}
    given = {name: value for name, value in given.items() if value}
    return (Action(label="Remove", operation="secret.rm", args=given, asks=True, tone=Tone.BAD),)


@page("/egress", "Network", Section.SYSTEM, "egress.list", "egress.log", order=40)
async def show_egress(request: PageRequest) -> PageView:
    folder = request.query.get("folder", "")
    rules = await request.ask(ListEgressRulesArgs(folder=folder))
    tried = await request.ask(EgressLogArgs(folder=folder, limit=MOST_ATTEMPTS))
    none = EmptyState(text="No host is open to agents. Their models are reached another way.", action=ALLOW_HOST)
    quiet = EmptyState(text="No agent has tried to reach anything.")
    return PageView(
        blocks=[
            *await list_wall_notes(request, folder),
            make_table(rules, EGRESS_RULE, none, actions=list_egress_actions, title="Rules"),
            make_table(tried, EGRESS_ATTEMPT, quiet, title="What was tried"),
        ],
        actions=(DENY_HOST, ALLOW_HOST),
    )


def list_egress_actions(rule: EgressRule) -> tuple[Action, ...]:
    return (Action(label="Remove", operation="egress.rm", args={"id": rule.id}, asks=True, tone=Tone.BAD),)
