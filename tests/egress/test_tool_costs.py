"""Declared tools: what they may bill is set aside, what was used is booked, and what has no price is refused."""

import json
from pathlib import Path
from typing import Any

import pytest

from gatepost.core.errors import SetupError
from gatepost.egress import tool_costs
from gatepost.egress.prices import read_prices, read_tools
from gatepost.egress.prompt_sizes import WINDOW
from gatepost.egress.tool_costs import ANY_TOOL, DeclaredTool, Surcharge, ToolCost
from gatepost.store.sessions import groups

MESSAGES, CHAT, RESPONSES = "/anthropic/v1/messages", "/openai/v1/chat/completions", "/openai/v1/responses"
ASK: dict[str, Any] = {"model": "known-1", "max_tokens": 100, "messages": [{"role": "user", "content": "hi"}]}
SEARCH = {"type": "web_search_20250305", "name": "web_search"}
USAGE = {"input_tokens": 10, "output_tokens": 5}
PLAIN = 10 * 3 + 5 * 15  # millionths for that usage


def http(body: object) -> bytes:
    raw = json.dumps(body).encode()
    return b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (len(raw), raw)


async def allow(way: Any, features: str = "server_tools,remote_mcp") -> None:
    await way.store.write(groups.update, "acme/eng", {"options": {"model_features": features}})


def held(way: Any) -> int:
    return int(list(way.purse.held.values())[-1])


async def test_stranger_09_what_a_vendors_tool_may_bill_is_set_aside(way: Any) -> None:
    await allow(way)
    way.vendor.reply = http({"usage": {**USAGE, "cache_read_input_tokens": 0}})
    assert (await way.post(MESSAGES, ASK)).status == 200
    plain = held(way)
    assert (await way.post(MESSAGES, ASK | {"tools": [SEARCH]})).status == 200

    search = tool_costs.SHIPPED["web_search"]
    tokens = search.tokens * search.uses * (search.uses + 1) // 2  # each is read again after the later ones
    with_fees = held(way)
    assert with_fees >= plain + tokens * 3 + search.use * search.uses
    assert way.vendor.asked["tools"][0]["max_uses"] == search.uses

    fetch = {"type": "web_fetch_20250910", "name": "web_fetch"}  # the same but for the fee
    assert (await way.post(MESSAGES, ASK | {"tools": [fetch]})).status == 200
    assert abs(with_fees - held(way) - search.use * search.uses) < 1000  # but for the bytes


async def test_stranger_09_a_built_in_tools_own_text_is_set_aside(way: Any) -> None:
    way.vendor.reply = http({"usage": USAGE})
    assert (await way.post(MESSAGES, ASK)).status == 200
    plain = held(way)
    tools = [{"type": "computer_20250124", "name": "computer", "display_width_px": 1, "display_height_px": 1}]
    assert (await way.post(MESSAGES, ASK | {"tools": tools})).status == 200
    assert held(way) >= plain + (3_000 + ANY_TOOL) * 3
    assert way.vendor.asked["tools"] == tools  # and it is passed on as it is


async def test_stranger_09_a_call_that_the_surcharge_does_not_fit_is_refused(way: Any) -> None:
    await allow(way)
    way.purse.left = 100_000
    refused = await way.post(MESSAGES, ASK | {"tools": [SEARCH]})
    assert refused.status == 402 and way.vendor.bodies == []


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (MESSAGES, ASK | {"tools": [{"type": "teleport_20270101", "name": "teleport"}]}),
        (RESPONSES, {"model": "known-1", "input": "hi", "tools": [{"type": "shell"}]}),
        (CHAT, ASK | {"tools": [{"type": "bash_20250124"}]}),
        (
            RESPONSES,
            {"model": "known-1", "input": [{"type": "additional_tools", "tools": [{"type": "teleport"}]}]},
        ),
    ],
)
async def test_stranger_09_a_vendors_tool_without_a_price_is_refused(way: Any, path: str, body: object) -> None:
    await allow(way)
    refused = await way.post(path, body)
    assert refused.status == 400 and "has no price" in refused.text and "prices.file" in refused.text
    assert way.vendor.bodies == []


async def test_a_container_that_costs_more_and_an_odd_number_of_uses_are_refused(way: Any) -> None:
    await allow(way)
    box = {"type": "code_interpreter", "container": {"type": "auto", "memory_limit": "64g"}}
    assert (await way.post(RESPONSES, {"model": "known-1", "input": "hi", "tools": [box]})).status == 400
    for odd in (0, -1, 1.5, True, "5"):
        assert (await way.post(MESSAGES, ASK | {"tools": [SEARCH | {"max_uses": odd}]})).status == 400
    assert way.vendor.bodies == []


async def test_fewer_uses_cost_less_and_more_are_clamped(way: Any) -> None:
    await allow(way)
    way.vendor.reply = http({"usage": USAGE})
    amounts = []
    for uses in (1, 5, 500):
        assert (await way.post(MESSAGES, ASK | {"tools": [SEARCH | {"max_uses": uses}]})).status == 200
        amounts.append((held(way), way.vendor.asked["tools"][0]["max_uses"]))
    assert amounts[0][0] < amounts[1][0] and [each for _, each in amounts] == [1, 5, 5]
    assert abs(amounts[1][0] - amounts[2][0]) < 1000  # but for the bytes


async def test_what_was_used_is_booked(way: Any) -> None:
    await allow(way)
    use, asked = tool_costs.SHIPPED["web_search"].use, ASK | {"tools": [SEARCH]}
    for told, fee in (({"web_search_requests": 2}, 2 * use), ({"web_search_requests": 0}, 0), (None, 0)):
        usage = {**USAGE, "cache_read_input_tokens": 0, "server_tool_use": told}
        way.vendor.reply = http({"usage": usage})
        assert (await way.post(MESSAGES, asked)).status == 200
        assert way.purse.booked[-1][0] == PLAIN + fee


async def test_what_a_responses_answer_used_is_booked_and_its_number_is_bounded(way: Any) -> None:
    await allow(way)
    body = {"model": "known-1", "input": "hi", "max_tool_calls": 1000, "tools": [{"type": "web_search"}]}
    use = tool_costs.SHIPPED["web_search"].use
    way.vendor.reply = http({"usage": USAGE, "output": [{"type": "web_search_call"}, {"type": "message"}]})
    assert (await way.post(RESPONSES, body)).status == 200
    assert way.purse.booked[-1][0] == PLAIN + use
    assert way.vendor.asked["max_tool_calls"] == 5

    way.vendor.reply = http({"usage": USAGE})  # it does not say
    assert (await way.post(RESPONSES, body)).status == 200
    assert way.purse.booked[-1][0] == PLAIN + 5 * use


async def test_remote_servers_and_searching_models_have_a_surcharge_too(way: Any) -> None:
    await allow(way)
    way.vendor.reply = http({"usage": USAGE})
    assert (await way.post(MESSAGES, ASK)).status == 200
    plain = held(way)
    assert (await way.post(MESSAGES, ASK | {"mcp_servers": [{"type": "url", "url": "https://x"}]})).status == 200
    assert held(way) > plain + 1_000_000
    assert (await way.post(CHAT, ASK | {"web_search_options": {}})).status == 200
    assert held(way) > plain + 100_000


def test_the_prompt_is_read_again_after_each_use_up_to_what_a_model_reads() -> None:
    tool = DeclaredTool("x", ToolCost(uses=2, tokens=100), 2)
    assert Surcharge((tool,)).tokens(1000) == 3 * (1000 + ANY_TOOL) + 100 + 200 - 1000
    assert Surcharge().tokens(1000) == 0
    assert Surcharge((DeclaredTool("x", ToolCost(uses=9, tokens=WINDOW), 9),)).tokens(0) <= 10 * WINDOW


def test_an_operator_gives_a_tool_its_price(tmp_path: Path) -> None:
    file = tmp_path / "prices.toml"
    file.write_text('[m]\ninput = 1\noutput = 2\n["tool:teleport_1"]\nuse = 0.5\ntokens = 7\nuses = 3\n')
    assert list(read_prices(file)) == ["m"]
    assert read_tools(file) == {"teleport_1": ToolCost(use=500_000, tokens=7, uses=3, declared=3_000)}
    for bad in ("uses = 0\ntokens = 1", "use = 1", "tokens = -1", "tokens = 1\nfee = 2"):
        file.write_text(f'["tool:x"]\n{bad}\n')
        with pytest.raises(SetupError, match="tool:x"):
            read_tools(file)
