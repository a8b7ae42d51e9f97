"""Gateways that share a store, on their page."""

from typing import Any

from gatepost.serve.control.arguments.gateways import GatewayView
from gatepost.serve.web.pages.gateway.gateways import list_actions, render_state
from gatepost.store.gateways.gateways import GatewayState


def make_gateway(*, alive: bool, state: GatewayState) -> GatewayView:
    return GatewayView(
        name="a",
        alive=alive,
        state=state,
        host="",
        listen="",
        version="",
        schema_number=1,
        epoch=1,
        capacity=1,
        sessions=0,
        duties=["retention", "schedule"],
        started_at=1,
        lease_until=1,
    )


def test_a_gateway_is_up_dead_draining_or_gone_and_has_the_actions_of_that() -> None:
    shown = {}
    running, draining, gone = GatewayState.RUNNING, GatewayState.DRAINING, GatewayState.GONE
    for alive, state in ((True, running), (False, running), (True, draining), (False, gone)):
        row = make_gateway(alive=alive, state=state)
        shown[render_state(row)] = [action.operation for action in list_actions(row)]
    assert shown == {"up": ["gateway.drain"], "dead": [], "draining": [], "gone": ["gateway.forget"]}


async def test_a_store_of_one_gateway_says_so(site: Any) -> None:
    async with site.signed_in() as browser:
        assert "it has one gateway" in (await browser.get("/dashboard/gateways")).text
