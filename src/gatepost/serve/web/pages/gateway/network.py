"""Egress: which hosts agents may reach, and what they tried."""

from gatepost.serve.control.arguments.secrets import EgressLogArgs, ListEgressRulesArgs
from gatepost.serve.web.dashboard.contract import PageRequest, Section, page
from gatepost.serve.web.dashboard.tables import link, make_columns, make_table
from gatepost.serve.web.dashboard.view import Action, EmptyState, PageView, Tone
from gatepost.store.rights.egress import EgressAttempt, EgressRule

LIMIT = 100
ALLOW = Action(label="Allow a host", operation="egress.allow", asks=True, tone=Tone.GOOD)
DENY = Action(label="Deny a host", operation="egress.deny", asks=True)
RULE = make_columns(EgressRule)
ATTEMPT = make_columns(
    EgressAttempt,
    {
        "folder": link("folder", "Group", "/groups/{folder}"),
        "session_id": link("session_id", "Conversation", "/sessions/{id}"),
    },
)


@page("/egress", "Egress", Section.ACCESS, "egress.list", "egress.log", order=40)
async def show_egress(request: PageRequest) -> PageView:
    folder = request.query.get("folder", "")
    rules = await request.ask(ListEgressRulesArgs(folder=folder))
    tried = await request.ask(EgressLogArgs(folder=folder, limit=LIMIT))
    none = EmptyState(text="No host is open. Agents reach their model and nothing else.", action=ALLOW)
    quiet = EmptyState(text="No agent has tried to reach anything.")
    return PageView(
        blocks=[
            make_table(rules, RULE, none, actions=list_actions, title="Rules"),
            make_table(tried, ATTEMPT, quiet, title="What was tried"),
        ],
        actions=(DENY, ALLOW),
    )


def list_actions(rule: EgressRule) -> tuple[Action, ...]:
    return (Action(label="Remove", operation="egress.rm", args={"id": rule.id}, asks=True, tone=Tone.BAD),)
