"""A prompt that does not fit by its bytes is counted by its own endpoint; the budget holds all the same."""

import asyncio
import json
from dataclasses import dataclass, field
from typing import Any

import pytest

from gatepost.core.settings import Config
from gatepost.egress import call_payments, model_proxy, request_bodies
from gatepost.egress.prices import Price
from gatepost.egress.prompt_sizes import CountedPrompts
from gatepost.egress.tool_costs import ANY_TOOL
from gatepost.store.sessions import groups
from gatepost_testing.waiting import until

MESSAGES, CHAT = "/anthropic/v1/messages", "/openai/v1/chat/completions"
PRICE = Price(input=3_000_000, output=15_000_000, cache_read=300_000, cache_write=3_750_000, cache_write_long=6_000_000)
LONG: dict[str, Any] = {
    "model": "known-1",
    "max_tokens": 1000,
    "temperature": 0.5,
    "metadata": {"user_id": "u"},
    "messages": [{"role": "user", "content": "word " * 20_000}],  # 100 kB, some 20 000 tokens
}
BY_BYTES = 100_000 * 3  # what that much costs at most, in millionths


@dataclass
class Endpoint:
    """Counts, and answers with what it says that it took."""

    counted: str = '{"input_tokens": 20000}'
    status: str = "200 OK"
    used: int = 20_000
    paths: list[str] = field(default_factory=list)
    bodies: list[dict[str, Any]] = field(default_factory=list)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        size = next(int(line.split(": ")[1]) for line in head.split("\r\n") if line.startswith("content-length"))
        self.paths.append(head.split(" ")[1])
        self.bodies.append(json.loads(await reader.readexactly(size)))
        usage = {"usage": {"input_tokens": self.used, "output_tokens": 10}}
        counts = self.paths[-1].endswith(("count_tokens", "input_tokens"))
        body, status = (self.counted, self.status) if counts else (json.dumps(usage), "200 OK")
        kind = "content-type: application/json\r\nconnection: close"
        writer.write(f"HTTP/1.1 {status}\r\n{kind}\r\ncontent-length: {len(body)}\r\n\r\n{body}".encode())
        writer.close()


@pytest.fixture
async def endpoint(way: Any) -> Any:
    found = Endpoint()
    server = await asyncio.start_server(found.serve, "127.0.0.1", 0)
    base = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    way.models.move(Config({"anthropic.base_url": base, "openai.base_url": f"{base}/v1"}))
    yield found
    server.close()


async def test_a_prompt_that_fits_by_its_bytes_is_not_counted(way: Any, endpoint: Endpoint) -> None:
    way.purse.left = BY_BYTES * 2
    assert (await way.post(MESSAGES, LONG)).status == 200
    assert endpoint.paths == ["/v1/messages"]


async def test_a_prompt_that_does_not_is_counted_and_set_aside_with_a_margin(way: Any, endpoint: Endpoint) -> None:
    way.purse.left = 200_000
    assert (await way.post(MESSAGES, LONG)).status == 200
    assert endpoint.paths == ["/v1/messages/count_tokens", "/v1/messages"]
    assert endpoint.bodies[0] == {name: LONG[name] for name in ("model", "messages")}
    assert endpoint.bodies[1]["max_tokens"] == 1000
    assert way.purse.held[1] == 22_500 * 3 + 1000 * 15
    assert way.purse.booked[0][0] == 20_000 * 3 + 10 * 15
    assert way.keys.purposes == ["count_tokens", "model"]


async def test_the_answer_is_still_cut_to_what_is_left(way: Any, endpoint: Endpoint) -> None:
    way.purse.left = 22_500 * 3 + 500 * 15 + 1
    assert (await way.post(MESSAGES, LONG)).status == 200
    assert endpoint.bodies[1]["max_tokens"] == 500 and way.purse.held[1] <= 22_500 * 3 + 500 * 15 + 1


@pytest.mark.parametrize(
    ("counted", "status"),
    [("{}", "404 Not Found"), ("{}", "200 OK"), ("no", "200 OK"), ('{"input_tokens": -5}', "200 OK"), ("{}", "401 No")],
)
async def test_without_a_count_the_bytes_decide(way: Any, endpoint: Endpoint, counted: str, status: str) -> None:
    way.purse.left, endpoint.counted, endpoint.status = 200_000, counted, status
    assert (await way.post(MESSAGES, LONG)).status == 402
    assert endpoint.paths == ["/v1/messages/count_tokens"] and way.purse.booked == []


async def test_what_does_not_fit_even_so_is_refused_and_no_key_is_used_for_the_call(
    way: Any, endpoint: Endpoint
) -> None:
    way.purse.left = 60_000
    assert (await way.post(MESSAGES, LONG)).status == 402
    assert "model" not in way.keys.purposes
    way.purse.left = 10
    assert (await way.post(MESSAGES, LONG)).status == 402  # nothing is left that a count could help with
    assert len(endpoint.paths) == 1


async def test_an_endpoint_without_such_a_count_is_not_asked_for_one(way: Any, endpoint: Endpoint) -> None:
    way.purse.left = 200_000
    assert (await way.post(CHAT, LONG)).status == 402
    assert endpoint.paths == [] and way.keys.purposes == []


async def test_a_group_whose_vendor_may_fetch_for_it_is_not_counted(way: Any, endpoint: Endpoint) -> None:
    await way.store.write(groups.update, "acme/eng", {"options": {"model_features": "url_sources"}})
    way.purse.left = 200_000
    assert (await way.post(MESSAGES, LONG)).status == 402
    assert endpoint.paths == []


async def test_what_cost_more_than_was_set_aside_is_booked_as_it_was(
    way: Any, endpoint: Endpoint, caplog: pytest.LogCaptureFixture
) -> None:
    way.purse.left, endpoint.used = 200_000, 60_000
    assert (await way.post(MESSAGES, LONG)).status == 200
    assert way.purse.booked[0][0] == 60_000 * 3 + 10 * 15 > way.purse.held[1]
    assert "a call cost more than was set aside" in caplog.text


def test_a_count_is_never_worse_than_the_bytes() -> None:
    asked = request_bodies.check_body(request_bodies.MESSAGES, LONG, frozenset(), 100)
    assert model_proxy.with_count(asked, 10_000_000).prompt == asked.prompt
    assert model_proxy.with_count(asked, 100).prompt == 610


def talk(*words: str, tools: str = "") -> dict[str, Any]:
    tool = {"type": "function", "function": {"name": "t", "description": tools}}
    asked = {"model": "known-1", "max_tokens": 1000, "messages": [{"role": "user", "content": each} for each in words]}
    return asked | ({"tools": [tool]} if tools else {})


async def test_a_prompt_that_grows_is_set_aside_by_what_its_endpoint_counted_before(
    way: Any, endpoint: Endpoint
) -> None:
    first, tools = "one " * 5_000, "tool " * 12_000
    assert (await way.post(CHAT, talk(first, tools=tools))).status == 200  # 80 kB, counted as 20 000 tokens
    way.purse.left = 150_000
    assert (await way.post(CHAT, talk(first, "and this", tools=tools))).status == 200
    most = 20_400 + ANY_TOOL  # a tool's own text is beside what was counted
    assert 20_000 * 3.75 < way.purse.held[2] < most * 3.75 + 1_000 * 15
    assert endpoint.bodies[-1]["max_tokens"] == 1000


async def test_another_conversation_with_the_same_tools_is_set_aside_by_their_count_also_after_a_restart(
    way: Any, endpoint: Endpoint
) -> None:
    tools = "tool " * 12_000
    assert (await way.post(CHAT, talk("one", tools=tools))).status == 200
    way.models._counted = CountedPrompts()  # what the store keeps is all that is left
    way.purse.left = 150_000
    assert (await way.post(CHAT, talk("two", tools=tools))).status == 200
    assert way.purse.held[2] < (20_400 + ANY_TOOL) * 3.75 + 1_000 * 15


async def test_a_client_that_hangs_up_with_the_last_byte_does_not_keep_a_count_from_being_learnt(
    way: Any, endpoint: Endpoint
) -> None:
    raw = json.dumps(talk("one", tools="tool " * 100)).encode()
    reader, writer = await asyncio.open_unix_connection(way.path)
    writer.write(b"POST %b HTTP/1.1\r\ncontent-length: %d\r\n\r\n%b" % (CHAT.encode(), len(raw), raw))
    await reader.readuntil(b'"output_tokens": 10}}')
    writer.close()
    await until(lambda: way.purse.counted, "the count")
    assert set(way.purse.counted.values()) == {20_000}


async def test_a_count_of_one_endpoint_or_model_says_nothing_of_another(way: Any) -> None:
    parts = [
        request_bodies.check_body(request_bodies.CHAT, talk("x"), frozenset(), 9, origin=each).parts for each in "ab"
    ]
    assert not {each.beginning for each in parts[0]} & {each.beginning for each in parts[1]}


async def test_what_a_vendor_leaves_out_of_a_prompt_is_not_learnt(way: Any, endpoint: Endpoint) -> None:
    asked = {"model": "known-1", "input": "hi", "truncation": "auto"}
    assert (await way.post("/openai/v1/responses", asked)).status == 200
    assert way.purse.counted == {}


async def test_a_prompt_of_the_responses_api_is_counted_by_its_endpoint(way: Any, endpoint: Endpoint) -> None:
    way.purse.left = 200_000
    asked = {"model": "known-1", "input": LONG["messages"], "max_output_tokens": 1000, "stream": False}
    assert (await way.post("/openai/v1/responses", asked)).status == 200
    assert endpoint.paths == ["/v1/responses/input_tokens", "/v1/responses"]
    assert endpoint.bodies[0] == {"model": "known-1", "input": LONG["messages"]}
    assert way.purse.held[1] == 22_500 * 3.75 + 1000 * 15


@pytest.mark.parametrize(("ttl", "price"), [(None, 3), ({}, 3.75), ({"ttl": "1h"}, 6)])
def test_the_dear_price_of_a_cache_is_set_aside_only_where_the_request_asks_for_it(
    ttl: dict[str, str] | None, price: float
) -> None:
    text = {"type": "text", "text": "x"} | ({} if ttl is None else {"cache_control": {"type": "ephemeral", **ttl}})
    asked = request_bodies.check_body(
        request_bodies.MESSAGES, LONG | {"messages": [{"role": "user", "content": [text]}]}, frozenset(), 100
    )
    deal = model_proxy.make_token_cost_bound(asked, PRICE, None)
    assert deal.worst == -(-round(asked.prompt * price * 100) // 100) + 100 * 15


async def test_calls_that_come_together_wait_for_each_other_and_none_is_refused(way: Any, endpoint: Endpoint) -> None:
    """Each may cost three times what it does: of twenty at once, a third would fit."""
    endpoint.used = 1_000
    way.purse.left, way.purse.busy = 110_000, True
    asked = talk("word " * 1_000)  # 5 kB
    answers = await asyncio.gather(*(way.post(CHAT, asked) for _ in range(20)))
    assert {each.status for each in answers} == {200}
    assert sum(booked for booked, _ in way.purse.booked) == 20 * (1_000 * 3 + 10 * 15) <= 110_000
    assert {each["max_tokens"] for each in endpoint.bodies} == {1000}  # and none was cut short for it


async def test_a_call_that_waits_in_vain_makes_do_with_what_is_left(
    way: Any, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(call_payments, "LONGEST_WAIT_S", 0.01)
    way.purse.held[99], way.purse.left, way.purse.busy = 10_000_000, 10_000, True  # a long call is under way
    assert (await way.post(CHAT, talk("hi"))).status == 200
    assert 256 <= endpoint.bodies[-1]["max_tokens"] < 1000
    way.purse.left = 1_000
    refused = await way.post(CHAT, talk("hi"))
    assert refused.status == 429 and int(refused.headers["retry-after"]) >= 1
