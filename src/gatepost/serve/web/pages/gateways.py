"""Gateways that share this store: which live, and what each does."""

from gatepost.serve.web.dashboard.contract import PageRequest, Section, page
from gatepost.serve.web.dashboard.tables import Answer, badge, code, make_table, moment, number, text
from gatepost.serve.web.dashboard.view import Action, EmptyState, PageView, Tone
from gatepost.store.gateways.gateways import GatewayState

ALONE = EmptyState(
    text="This store is a file of one machine, so it has one gateway. Several share one on PostgreSQL: docs/scale.md."
)
GATEWAY = (
    code("name", "Gateway"),
    badge("shown_state", "State"),
    text("host", "Host"),
    text("listen", "Web"),
    number("sessions", "Sessions"),
    number("capacity", "At most"),
    text("does", "Does for all"),
    text("version", "Version"),
    moment("started_at", "Since"),
)


@page("/gateways", "Gateways", Section.GATEWAY, "gateway.list", order=95)
async def show_gateways(request: PageRequest) -> PageView:
    found = await request.ask("gateway.list")
    rows = [describe_gateway(each) for each in found]
    return PageView(
        lead="Machines that work on one store. When one is gone, the others go on with what it had.",
        blocks=[make_table(rows, GATEWAY, ALONE, actions=list_actions)],
    )


def describe_gateway(gateway: Answer) -> Answer:
    state = gateway["state"]
    shown = {GatewayState.RUNNING: "up"}.get(state, state) if gateway["alive"] or state == GatewayState.GONE else "dead"
    return {**gateway, "shown_state": shown, "does": ", ".join(gateway["duties"])}


def list_actions(gateway: Answer) -> tuple[Action, ...]:
    given = {"name": gateway["name"]}
    if gateway["alive"] and gateway["state"] == GatewayState.RUNNING:
        return (Action(label="Drain", operation="gateway.drain", args=given, asks=True, tone=Tone.BAD),)
    if gateway["state"] == GatewayState.GONE:
        return (Action(label="Forget", operation="gateway.forget", args=given, asks=True),)
    return ()
