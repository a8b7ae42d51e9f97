"""Gateways that share this store: which live, and what each does."""

from gatepost.serve.control.arguments.gateways import GatewayView, ListGatewaysArgs
from gatepost.serve.web.dashboard.contract import PageRequest, Section, page
from gatepost.serve.web.dashboard.tables import get_tone, made, make_columns, make_table
from gatepost.serve.web.dashboard.view import Action, Badge, EmptyState, PageView, Tone
from gatepost.store.gateways.gateways import GatewayState

ALONE = EmptyState(
    text="This store is a file of one machine, so it has one gateway. Several share one on PostgreSQL: docs/scale.md."
)


def render_state(gateway: GatewayView) -> str:
    """In one word. One that is dead has not been taken over from yet."""
    if not gateway.alive and gateway.state is not GatewayState.GONE:
        return "dead"
    return "up" if gateway.state is GatewayState.RUNNING else gateway.state


def _make_badge(state: str) -> Badge:
    return Badge(state, get_tone(state))


STATE = made("shown_state", "State", lambda each: _make_badge(render_state(each)))
GATEWAY = make_columns(GatewayView, {"state": STATE}, details=True)


@page("/gateways", "Gateways", Section.GATEWAY, "gateway.list", order=95)
async def show_gateways(request: PageRequest) -> PageView:
    found = await request.ask(ListGatewaysArgs())
    return PageView(
        lead="Machines that work on one store. When one is gone, the others go on with what it had.",
        blocks=[make_table(found, GATEWAY, ALONE, actions=list_actions)],
    )


def list_actions(gateway: GatewayView) -> tuple[Action, ...]:
    given = {"name": gateway.name}
    if gateway.alive and gateway.state is GatewayState.RUNNING:
        return (Action(label="Drain", operation="gateway.drain", args=given, asks=True, tone=Tone.BAD),)
    if gateway.state is GatewayState.GONE:
        return (Action(label="Forget", operation="gateway.forget", args=given, asks=True),)
    return ()
