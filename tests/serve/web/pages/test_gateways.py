"""Gateways that share a store, on their page."""

from typing import Any

from gatepost.serve.web.pages.gateways import describe_gateway, list_actions


def make_gateway(*, alive: bool, state: str) -> dict[str, Any]:
    return {"name": "a", "alive": alive, "state": state, "duties": ["retention", "schedule"]}


def test_a_gateway_is_up_dead_draining_or_gone_and_has_the_actions_of_that() -> None:
    shown = {}
    for alive, state in ((True, "running"), (False, "running"), (True, "draining"), (False, "gone")):
        row = describe_gateway(make_gateway(alive=alive, state=state))
        shown[row["shown_state"]] = [action.operation for action in list_actions(row)]
    assert shown == {"up": ["gateway.drain"], "dead": [], "draining": [], "gone": ["gateway.forget"]}


async def test_a_store_of_one_gateway_says_so(site: Any) -> None:
    async with site.signed_in() as browser:
        assert "it has one gateway" in (await browser.get("/dashboard/gateways")).text
