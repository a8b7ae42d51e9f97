"""Egress: which hosts agents may reach, and what they tried."""

from gatepost.serve.control.arguments.gateway.egress import EgressLogArgs, ListEgressRulesArgs
from gatepost.serve.web.dashboard.contract import PageRequest, Section, page
from gatepost.serve.web.dashboard.tables import badge, code, link, made, make_table, moment, number, text
from gatepost.serve.web.dashboard.view import Action, Badge, EmptyState, PageView, Tone
from gatepost.store.rights.egress import EgressRule

LIMIT = 100
ALLOW = Action(label="Allow a host", operation="egress.allow", asks=True, tone=Tone.GOOD)
DENY = Action(label="Deny a host", operation="egress.deny", asks=True)
RULE = (
    made("folder", "Group", lambda rule: rule.folder or "all groups"),
    made("host", "Host", lambda rule: rule.host + (f":{rule.port}" if rule.port else "")),
    made("allow", "Says", lambda rule: Badge("allow", Tone.GOOD) if rule.allow else Badge("deny", Tone.BAD)),
    text("created_by", "By"),
    moment("created_at", "Since"),
)
ATTEMPT = (
    moment("last_at", "Last"),
    moment("at", "First"),
    link("folder", "Group", "/groups/{folder}"),
    link("session_id", "Conversation", "/sessions/{id}"),
    code("target", "To"),
    badge("verdict", "Outcome"),
    text("reason", "Why"),
    number("times", "Times"),
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
