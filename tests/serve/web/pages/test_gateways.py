"""Gateways that share a store, on their page."""

from typing import Any

from gatepost.serve.control.arguments.gateways import GatewayView
from gatepost.serve.health.findings import Finding
from gatepost.serve.web.dashboard.view import Tone
from gatepost.serve.web.pages.gateways import list_gateway_actions, make_summary, render_state, sort_findings
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
        shown[render_state(row)] = [action.operation for action in list_gateway_actions(row)]
    assert shown == {"up": ["gateway.drain"], "dead": [], "draining": [], "gone": ["gateway.forget"]}


async def test_a_store_of_one_gateway_says_so(site: Any) -> None:
    async with site.signed_in() as browser:
        assert "it has one gateway" in (await browser.get("/dashboard/gateways")).text


def test_the_summary_has_the_colour_of_the_worst_finding() -> None:
    ok, warn, fail = Finding("ok", "a", ""), Finding("warn", "b", ""), Finding("fail", "c", "")
    assert make_summary([ok, ok]).tone is Tone.GOOD
    assert make_summary([ok, warn]).text == "Nothing fails. 1 of 2 things need a look."
    assert make_summary([fail, warn]).tone is Tone.BAD


def test_what_is_not_well_comes_first_and_the_rest_keeps_its_order() -> None:
    found = [Finding("ok", "a", ""), Finding("warn", "b", ""), Finding("ok", "c", ""), Finding("fail", "d", "")]
    assert [each.subject for each in sort_findings(found)] == ["d", "b", "a", "c"]
