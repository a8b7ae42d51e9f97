"""A prompt that does not fit by its bytes is counted by its own endpoint; the budget holds all the same."""

import asyncio
import json
from dataclasses import dataclass, field
from typing import Any

import pytest

from gatepost.core.settings import Config
from gatepost.egress import model_proxy, request_bodies
from gatepost.egress.prices import Price
from gatepost.store import groups

MESSAGES, CHAT = "/anthropic/v1/messages", "/openai/v1/chat/completions"
PRICE = Price(input=3_000_000, output=15_000_000, cache_read=300_000, cache_write=3_750_000, cache_write_long=6_000_000)
LONG: dict[str, Any] = {
    "model": "known-1",
    "max_tokens": 1000,
    "temperature": 0.5,
    "metadata": {"user_id": "u"},
    "messages": [{"role": "user", "content": "word " * 20_000}],  # 100 kB, some 20 000 tokens
}
BY_BYTES = 100_000 * 6  # what that much costs at most, in millionths


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
        counts = "count_tokens" in self.paths[-1]
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
    assert way.purse.held[1] == 22_500 * 6 + 1000 * 15
    assert way.purse.booked[0][0] == 20_000 * 3 + 10 * 15
    assert way.keys.purposes == ["count_tokens", "model"]


async def test_the_answer_is_still_cut_to_what_is_left(way: Any, endpoint: Endpoint) -> None:
    way.purse.left = 22_500 * 6 + 500 * 15 + 1
    assert (await way.post(MESSAGES, LONG)).status == 200
    assert endpoint.bodies[1]["max_tokens"] == 500 and way.purse.held[1] <= 22_500 * 6 + 500 * 15 + 1


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
    way.purse.left = 100_000
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
    await way.store.write(groups.update, "acme/eng", {"model_features": "url_sources"})
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
