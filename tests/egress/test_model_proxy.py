"""Model calls over the real socket: what is asked of the vendor, what comes back, and what is booked."""

import asyncio
import gc
import json
import threading
import weakref
from typing import Any

import pytest

from gatepost.core.durations import TimedStep
from gatepost.egress import call_payments, request_bodies
from gatepost.egress.egress_socket import WeightedSemaphore
from gatepost.egress.http import HttpRefusal
from gatepost.egress.token_usage import ON_THE_WAY
from gatepost.store.money.costs import TokenCounts
from gatepost.store.sessions import groups
from gatepost_testing.waiting import PATIENCE_S, until

KEY = "sk-ant-the-real-key-0123456789"
MESSAGES, CHAT, RESPONSES = "/anthropic/v1/messages", "/openai/v1/chat/completions", "/openai/v1/responses"
ASK: dict[str, Any] = {"model": "known-1", "max_tokens": 100, "messages": [{"role": "user", "content": "hi"}]}
ANSWER = json.dumps({"content": [], "usage": {"input_tokens": 10, "output_tokens": 5}})
STREAM = (
    'event: message_start\ndata: {"type":"message_start","message":{"usage":{"input_tokens":10,'
    '"cache_creation_input_tokens":100,"cache_creation":{"ephemeral_1h_input_tokens":40},"cache_read_input_tokens":20,'
    '"output_tokens":1}}}\n\n'
    'event: content_block_delta\ndata: {"type":"content_block_delta","delta":{"text":"hello"}}\n\n'
    'event: message_delta\ndata: {"type":"message_delta","delta":{},"usage":{"output_tokens":7}}\n\n'
    'event: message_stop\ndata: {"type":"message_stop"}\n\n'
)


def http(body: str, kind: str = "application/json", status: str = "200 OK", extra: str = "") -> bytes:
    return f"HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {len(body)}\r\n{extra}\r\n{body}".encode()


def part(**content: object) -> dict[str, Any]:
    return ASK | {"messages": [{"role": "user", "content": [content]}]}


async def test_a_call_goes_out_with_the_key_and_is_booked_as_measured(way: Any) -> None:
    way.vendor.reply = http(ANSWER, extra="request-id: r1\r\nset-cookie: a=b\r\nx-internal: 1\r\n")
    answer = await way.post(
        MESSAGES, ASK, "x-api-key: gatepost\r\nauthorization: Bearer x\r\naccept-encoding: gzip\r\ncookie: c\r\n"
    )

    assert (answer.status, answer.text) == (200, ANSWER)
    assert answer.headers["request-id"] == "r1"
    assert not {"set-cookie", "x-internal"} & answer.headers.keys()
    head = way.vendor.heads[0].lower()
    assert head.startswith("post /v1/messages http/1.1") and f"x-api-key: {KEY}" in head
    assert "accept-encoding: identity" in head and "anthropic-version: 2023-06-01" in head
    assert "bearer" not in head and "cookie" not in head
    assert way.purse.booked == [(10 * 3 + 5 * 15, TokenCounts(input=10, output=5))]
    assert way.purse.spenders[0].folder == "acme/eng"
    (counted,) = way.models.durations.list_counted(TimedStep.MODEL_CALL)
    assert (counted.label, sum(counted.counts)) == ("anthropic", 1) and counted.total_s > 0
    assert [each.target for each in await way.log()] == ["anthropic /messages"]


async def test_a_key_that_is_too_short_to_be_struck_out_is_not_used(way: Any) -> None:
    way.keys.keys = {"ANTHROPIC_API_KEY": "k"}
    answer = await way.post(MESSAGES, ASK)
    assert answer.status == 502 and "ANTHROPIC_API_KEY has fewer than 8 characters" in answer.text
    assert way.vendor.heads == []
    assert list(way.models.durations.list_counted(TimedStep.MODEL_CALL)) == []  # nothing was asked of a model


async def test_a_subscription_token_is_sent_as_such(way: Any) -> None:
    way.keys.keys = {"ANTHROPIC_AUTH_TOKEN": KEY}
    way.vendor.reply = http(ANSWER)
    await way.post(MESSAGES + "?beta=true", ASK, "anthropic-beta: effort-2025-11-24,files-api-2025-04-14\r\n")
    head = way.vendor.heads[0].lower()
    assert f"authorization: bearer {KEY}" in head and "anthropic-beta: effort-2025-11-24,oauth-2025-04-20\r\n" in head
    assert "beta=true" not in head


async def test_a_stream_is_passed_on_and_booked_with_what_was_cached(way: Any) -> None:
    way.vendor.reply = http(STREAM, "text/event-stream")
    answer = await way.post(MESSAGES, ASK | {"stream": True})
    assert answer.text == STREAM
    told = TokenCounts(input=10, output=7, cache_read=20, cache_write=100)
    assert way.purse.booked == [(30 + 105 + 6 + 60 * 15 // 4 + 40 * 6, told)]


async def test_a_stream_that_is_cut_is_booked_by_what_it_said_and_has_no_end_for_the_client(way: Any) -> None:
    begun = STREAM.partition("event: message_delta")[0]
    way.vendor.reply = http(begun, "text/event-stream").replace(b"content-length: ", b"content-length: 9")
    body = json.dumps(ASK | {"stream": True, "max_tokens": 16_000}).encode()
    raw = await way.raw(b"POST /anthropic/v1/messages HTTP/1.1\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body))
    assert b"message_start" in raw and not raw.endswith(b"0\r\n\r\n")
    [(_, told)] = way.purse.booked
    assert (told.input, told.cache_read, told.cache_write) == (10, 20, 100) and way.purse.estimated == [True]
    assert len("hello") + ON_THE_WAY <= told.output < 16_000


@pytest.mark.parametrize(
    ("path", "body", "events"),
    [
        (MESSAGES, ASK, STREAM.partition("event: message_delta")[0]),
        (CHAT, ASK, 'data: {"choices":[{"delta":{"content":"hello"}}]}\n\n'),
        (
            RESPONSES,
            {"model": "known-1", "input": "hi"},
            'data: {"type":"response.output_text.delta","delta":"hello"}\n\n',
        ),
    ],
)
async def test_a_stopped_answer_costs_what_was_said_and_never_the_whole_of_what_it_might_have(
    way: Any, path: str, body: dict[str, Any], events: str
) -> None:
    way.vendor.reply = http(events, "text/event-stream").replace(b"content-length: ", b"content-length: 9")
    way.vendor.hang = True
    raw = json.dumps(body | {"stream": True, "max_tokens": 16_000} if "messages" in body else body | {"stream": True})
    reader, writer = await asyncio.open_unix_connection(way.path)
    writer.write(f"POST {path} HTTP/1.1\r\ncontent-length: {len(raw)}\r\n\r\n{raw}".encode())
    async with asyncio.timeout(PATIENCE_S):
        await reader.readuntil(b"hello")
        writer.close()
        await way.purse.settled.wait()
    [(booked, usage)] = way.purse.booked
    assert usage.output >= len("hello") and usage.input and way.purse.estimated == [True]
    assert 0 < booked < way.purse.held[1] and usage.output < 16_000


async def test_a_stream_without_usage_is_booked_by_what_arrived_and_said_to_be_estimated(way: Any) -> None:
    said = "x" * 300
    events = f'data: {{"choices":[{{"delta":{{"content":"{said}"}}}}]}}\n\ndata: [DONE]\n\n'
    way.vendor.reply = http(events, "text/event-stream")
    await way.post(CHAT, ASK | {"stream": True, "max_tokens": 1_000_000})
    [(booked, usage)], [estimated] = way.purse.booked, way.purse.estimated
    assert 300 + ON_THE_WAY <= usage.output < way.purse.held[1] and usage.input > 0 and estimated
    assert 0 < booked < way.purse.held[1]


async def test_usage_is_asked_for_and_kept_from_a_client_that_did_not(way: Any) -> None:
    text, last = 'data: {"choices":[{"delta":{"content":"x"}}]}\n\n', "data: [DONE]\n\n"
    counted = (
        'data: {"choices":[],"usage":{"prompt_tokens":30,"completion_tokens":4,'
        '"prompt_tokens_details":{"cached_tokens":20}}}\r\n\r\n'
    )
    way.vendor.reply = http(text + counted + last, "text/event-stream")
    plain = await way.post(CHAT, ASK | {"stream": True})
    asked = await way.post(CHAT, ASK | {"stream": True, "stream_options": {"include_usage": True}})

    assert way.vendor.asked["stream_options"] == {"include_usage": True}
    assert (plain.text, asked.text) == (text + last, text + counted + last)
    assert way.purse.booked[0] == (30 + 60 + 6, TokenCounts(input=10, output=4, cache_read=20))


async def test_a_response_stream_is_measured_at_its_end(way: Any) -> None:
    usage = {"input_tokens": 9, "input_tokens_details": {"cached_tokens": 4}, "output_tokens": 2}
    event = json.dumps({"type": "response.completed", "response": {"usage": usage}})
    way.vendor.reply = http(f"event: response.completed\ndata: {event}\n\n", "text/event-stream")
    await way.post(RESPONSES, {"model": "known-1", "input": "hi", "stream": True, "store": True})
    assert way.vendor.asked["store"] is False and way.vendor.asked["max_output_tokens"] == 16_000
    assert way.purse.booked[0][1] == TokenCounts(input=5, output=2, cache_read=4)


@pytest.mark.parametrize(("path", "prompt"), [(CHAT, "prompt"), (RESPONSES, "input")])
async def test_what_a_vendor_writes_to_its_cache_is_booked_as_such(way: Any, path: str, prompt: str) -> None:
    details = {"cached_tokens": 20, "cache_write_tokens": 30}
    usage = {f"{prompt}_tokens": 100, f"{prompt}_tokens_details": details, "output_tokens": 1}
    way.vendor.reply = http(json.dumps({"usage": usage}))
    await way.post(path, ASK if path == CHAT else {"model": "known-1", "input": "hi"})
    assert way.purse.booked[0][1] == TokenCounts(input=50, output=1, cache_read=20, cache_write=30)


async def test_the_answer_is_clamped_to_the_setting_and_to_what_the_budget_buys(way: Any) -> None:
    way.vendor.reply = http(ANSWER)
    thinking = {"type": "enabled", "budget_tokens": 31_999}
    await way.post(MESSAGES, ASK | {"max_tokens": 32_000, "thinking": thinking})
    assert (way.vendor.asked["max_tokens"], way.vendor.asked["thinking"]["budget_tokens"]) == (16_000, 15_744)

    way.purse.left = 100_000
    await way.post(MESSAGES, ASK | {"max_tokens": 32_000})
    assert 6_000 < way.vendor.asked["max_tokens"] < 6_667
    assert way.purse.held[2] <= 100_000


async def test_thoughts_are_shortened_with_the_answer_and_left_out_where_only_an_answer_fits(way: Any) -> None:
    way.vendor.reply = http(ANSWER)
    edits = [{"type": "clear_thinking_20251015", "keep": "all"}, {"type": "clear_tool_uses_20250919"}]
    body = ASK | {
        "max_tokens": 9000,
        "thinking": {"type": "enabled", "budget_tokens": 5000},
        "context_management": {"edits": edits},
    }
    sent = []
    for left in (None, 40_000, 15_000):  # all of it, some 2400 tokens, some 700
        way.purse.left = left
        assert (await way.post(MESSAGES, body)).status == 200
        sent.append(way.vendor.asked)

    assert [each.get("thinking", {}).get("budget_tokens") for each in sent] == [5000, sent[1]["max_tokens"] - 256, None]
    assert [each["context_management"]["edits"] for each in sent] == [edits, edits, edits[1:]]


async def test_thoughts_that_do_not_fit_are_the_purses_to_refuse(way: Any) -> None:
    way.purse.left = 100
    answer = await way.post(MESSAGES, ASK | {"thinking": {"type": "enabled", "budget_tokens": 5000}})
    assert (answer.status, len(way.purse.spenders)) == (402, 1)
    assert "the budget of acme is spent" in answer.text


@pytest.mark.parametrize(
    ("path", "field", "value"),
    [
        (MESSAGES, "speed", "fast"),
        (MESSAGES, "service_tier", "auto"),
        (MESSAGES, "inference_geo", "us"),
        (CHAT, "service_tier", "priority"),
        (CHAT, "store", True),
        (CHAT, "modalities", ["audio"]),
        (CHAT, "prediction", {"type": "content", "content": "x"}),
        (CHAT, "prompt_cache_retention", "24h"),
        (RESPONSES, "service_tier", "priority"),
        (RESPONSES, "store", True),
        (RESPONSES, "background", False),
        (RESPONSES, "prompt_cache_retention", "24h"),
        (RESPONSES, "max_tool_calls", 9),
        (RESPONSES, "a_field_of_next_year", {"x": 1}),
    ],
)
async def test_what_changes_the_price_or_the_place_is_left_out(way: Any, path: str, field: str, value: object) -> None:
    way.vendor.reply = http(ANSWER)
    asked = {"model": "known-1", "input": "hi"} if path == RESPONSES else ASK
    assert (await way.post(path, asked | {field: value})).status == 200
    assert way.vendor.asked.get(field) in (None, False)


def test_the_vendor_itself_is_told_to_charge_the_listed_price() -> None:
    for shape, tier in (
        (request_bodies.MESSAGES, "standard_only"),
        (request_bodies.CHAT, "default"),
        (request_bodies.RESPONSES, "default"),
    ):
        asked = request_bodies.check_body(shape, {"model": "m", "service_tier": "priority"}, frozenset(), 100)
        assert json.loads(request_bodies.render_clamped_body(shape, asked, 100, at_vendor=True))["service_tier"] == tier
        assert "service_tier" not in json.loads(request_bodies.render_clamped_body(shape, asked, 100))


async def test_what_the_budget_does_not_buy_is_refused_before_anything_is_sent(
    way: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(call_payments, "LONGEST_WAIT_S", 0.01)
    way.purse.left = 100
    answer = await way.post(MESSAGES, ASK)
    assert answer.status == 402
    assert json.loads(answer.body)["error"]["message"] == "gatepost: the budget of acme is spent"
    way.purse.busy = True
    later = await way.post(CHAT, ASK)
    assert (later.status, later.headers["retry-after"]) == (429, "2")
    assert way.vendor.heads == [] and way.purse.booked == []


async def test_a_short_answer_that_was_asked_for_is_not_too_little(way: Any) -> None:
    way.vendor.reply = http(ANSWER)
    way.purse.left = 2_000
    assert (await way.post(MESSAGES, ASK | {"max_tokens": 1})).status == 200


@pytest.mark.parametrize(
    ("status", "body"), [("500 Oops", "{}"), ("529 Overloaded", "{}"), ("400 Bad Request", '{"error":{}}')]
)
async def test_a_refusal_of_the_vendor_is_passed_on_and_costs_nothing(way: Any, status: str, body: str) -> None:
    way.vendor.reply = http(body, status=status, extra="retry-after: 7\r\n")
    answer = await way.post(MESSAGES, ASK)
    assert (answer.status, answer.text, answer.headers["retry-after"]) == (int(status[:3]), body, "7")
    assert way.purse.booked == [(0, TokenCounts())]


async def test_the_key_comes_back_in_nothing(way: Any) -> None:
    way.vendor.reply = http(json.dumps({"echo": KEY}), extra=f"request-id: {KEY}\r\nx-api-key: {KEY}\r\n")
    whole = await way.raw(b"GET /anthropic/v1/models HTTP/1.1\r\n\r\n")
    way.vendor.reply = http(f'data: {{"x":"{KEY}"}}\n\nrest {KEY}', "text/event-stream")
    streamed = (await way.post(MESSAGES, ASK | {"stream": True})).text
    way.vendor.reply = http(f"you said {KEY[:12]}***", status="401 No")
    refused = await way.post(MESSAGES, ASK)
    way.vendor.reply = http("", status="307 Go", extra=f"location: https://evil.com/{KEY}\r\n")
    sent_on = await way.post(MESSAGES, ASK)

    assert KEY.encode() not in whole and KEY not in streamed and "*" * len(KEY) in streamed
    assert refused.status == 401 and KEY[:12] not in refused.text
    assert sent_on.status == 502 and "location" not in sent_on.headers
    assert not any(KEY in each.reason or KEY in each.target for each in await way.log())


async def test_without_a_key_the_vendors_own_endpoint_is_not_asked(way: Any) -> None:
    way.keys.keys = {}
    way.vendor.reply = http(ANSWER)
    assert (await way.post(MESSAGES, ASK)).status == 200  # a local endpoint may need none
    assert "x-api-key" not in way.vendor.heads[0]


@pytest.mark.parametrize(
    "line",
    [
        "POST /anthropic/v1/files",
        "POST /anthropic/v1/messages/batches",
        "POST /anthropic/v1/messages/",
        "POST /openai/v1/files",
        "POST /anthropic/v1//messages",
        "POST /anthropic/v1/x/../messages",
        "POST /anthropic/v1/%6dessages",
        "GET /",
        "POST /anthropic/v1/messages%2fbatches",
        "GET /anthropic/v1/messages",
        "DELETE /openai/v1/models",
        "POST /openai/v1/batches",
        "POST /Anthropic/v1/messages",
        "POST /anthropic/v1/messages;x",
        "GET /anthropic/v1/models/x",
        "POST /openai/v1/embeddings",
        "POST /anthropic/v1/messages?x=/../batches",
        "POST /openai/v1/responses?beta=true&x",
        "POST //anthropic/v1/messages",
    ],
)
async def test_nothing_near_an_endpoint_is_one(way: Any, line: str) -> None:
    answer = await way.send(f"{line} HTTP/1.1\r\ncontent-length: 0\r\n\r\n".encode())
    assert answer.status in (400, 404)
    assert way.vendor.heads == []


async def test_a_model_without_a_price_is_refused_with_the_command_that_gives_it_one(way: Any) -> None:
    answer = await way.post(MESSAGES, ASK | {"model": "my model"})
    assert answer.status == 400 and way.vendor.heads == []
    said = json.loads(answer.body)["error"]["message"]
    assert "'my model' has no price" in said and said.endswith("`gatepost price set 'my model' IN/OUT`")


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (MESSAGES, part(type="image", source={"type": "url", "url": "http://169.254.169.254/"})),
        (MESSAGES, part(type="document", source={"type": "file", "file_id": "f1"})),
        (MESSAGES, part(type="container_upload", file_id="f1")),
        (MESSAGES, part(type="tool_result", content=[{"type": "image", "source": {"type": "url", "url": "x"}}])),
        (MESSAGES, part(type="something_new", href="https://evil.com")),
        (MESSAGES, ASK | {"system": [{"type": "document", "source": {"type": "url", "url": "x"}}]}),
        (MESSAGES, ASK | {"tools": [{"type": "web_search_20250305", "name": "web_search"}]}),
        (MESSAGES, ASK | {"tools": [{"type": "web_fetch_20250910", "name": "web_fetch"}]}),
        (MESSAGES, ASK | {"tools": [{"type": "code_execution_20250825", "name": "c"}]}),
        (MESSAGES, ASK | {"tools": [{"type": "mcp_toolset", "mcp_server_name": "x"}]}),
        (MESSAGES, ASK | {"mcp_servers": [{"type": "url", "url": "https://evil.com", "name": "x"}]}),
        (MESSAGES, ASK | {"container": {"skills": []}}),
        (MESSAGES, ASK | {"context_management": {"edits": [{"type": "compact_20260112"}]}}),
        (MESSAGES, ASK | {"model": "unknown"}),
        (MESSAGES + "/count_tokens", part(type="image", source={"type": "url", "url": "x"})),
        (CHAT, part(type="image_url", image_url={"url": "https://evil.com/?q=secret"})),
        (CHAT, part(type="file", file={"file_id": "f"})),
        (CHAT, ASK | {"web_search_options": {"x": 1}}),
        (CHAT, ASK | {"tools": [{"type": "web_search"}]}),
        (CHAT, ASK | {"audio": {"voice": "x"}}),
        (
            RESPONSES,
            {
                "model": "known-1",
                "input": [{"role": "user", "content": [{"type": "input_image", "image_url": "http://x"}]}],
            },
        ),
        (
            RESPONSES,
            {
                "model": "known-1",
                "input": [{"role": "user", "content": [{"type": "input_file", "file_url": "http://x"}]}],
            },
        ),
        (RESPONSES, {"model": "known-1", "input": [{"type": "item_reference", "id": "x"}]}),
        (RESPONSES, {"model": "known-1", "input": "x", "previous_response_id": "r"}),
        (RESPONSES, {"model": "known-1", "input": "x", "prompt": {"id": "p"}}),
        (RESPONSES, {"model": "known-1", "input": "x", "background": True}),
        (RESPONSES, {"model": "known-1", "input": "x", "conversation": "c"}),
        (RESPONSES, {"model": "known-1", "input": "x", "tools": [{"type": "mcp", "server_url": "https://evil.com"}]}),
        (RESPONSES, {"model": "known-1", "input": "x", "tools": [{"type": "namespace", "tools": [{"type": "mcp"}]}]}),
        (RESPONSES, {"model": "known-1", "input": "x", "tools": [{"type": "code_interpreter"}]}),
        (RESPONSES, {"model": "known-1", "input": [{"type": "additional_tools", "tools": [{"type": "web_search"}]}]}),
    ],
)
async def test_no_feature_of_a_vendor_becomes_a_way_out(way: Any, path: str, body: dict[str, Any]) -> None:
    answer = await way.post(path, body)
    assert answer.status == 400  # 401 and 403 are about keys, and clients say so
    assert "gatepost: " in json.loads(answer.body)["error"]["message"]
    assert way.vendor.heads == [] and way.purse.held == {}
    assert [each.verdict for each in await way.log()] == ["denied"]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"\xff",
        b"[" * 100000,
        b'{"model":1}',
        b'{"model":"known-1","max_tokens":true}',
        b"NaN",
        b'{"model":"known-1","max_tokens":-1}',
        b'{"model":"known-1","max_tokens":1e3}',
        b'{"model":"known-1","stream":"yes"}',
        b'{"model":"known-1","n":2}',
        b'{"model":"known-1","tools":{}}',
        b'{"model":"known-1","tools":[1]}',
    ],
)
async def test_a_body_that_makes_no_sense_is_refused(way: Any, body: bytes) -> None:
    assert (await way.post(CHAT, body)).status == 400
    assert way.vendor.heads == []


async def test_a_second_key_of_the_same_name_hides_nothing(way: Any) -> None:
    way.vendor.reply = http(ANSWER)
    twice = (
        b'{"model":"known-1","max_tokens":9,"messages":[],"mcp_servers":[{"url":"x"}],"mcp_servers":[],"speed":"fast"}'
    )
    assert (await way.post(MESSAGES, twice)).status == 200
    assert way.vendor.bodies[-1].count(b"mcp_servers") <= 1 and not way.vendor.asked.get("mcp_servers")
    assert "speed" not in way.vendor.asked
    hidden = b'{"model":"known-1","model":"unknown","messages":[]}'
    assert (await way.post(MESSAGES, hidden)).status == 400


async def test_a_group_may_be_allowed_a_feature(way: Any) -> None:
    await way.store.write(groups.update, "acme/eng", {"options": {"model_features": "server_tools, url_sources"}})
    way.vendor.reply = http(ANSWER)
    searching = ASK | {"tools": [{"type": "web_search_20250305", "name": "web_search"}]}
    assert (await way.post(MESSAGES, searching)).status == 200
    assert (await way.post(MESSAGES, part(type="image", source={"type": "url", "url": "https://x"}))).status == 200
    assert (await way.post(MESSAGES, ASK | {"mcp_servers": [{"type": "url"}]})).status == 400


async def test_what_agents_really_send_passes_unchanged(way: Any) -> None:
    way.vendor.reply = http(ANSWER)
    body = ASK | {
        "system": [{"type": "text", "text": "be good", "cache_control": {"type": "ephemeral", "ttl": "1h"}}],
        "messages": [
            {
                "role": "user",
                "content": [{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}],
            },
            {
                "role": "assistant",
                "content": [{"type": "tool_use", "id": "t", "name": "f", "input": {"type": "url", "url": "http://x"}}],
            },
            {
                "role": "user",
                "content": [
                    {
                        "type": "tool_result",
                        "tool_use_id": "t",
                        "content": [
                            {"type": "text", "text": "é"},
                            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}},
                        ],
                    }
                ],
            },
        ],
        "tools": [{"name": "f", "input_schema": {"type": "object"}}, {"type": "bash_20250124", "name": "bash"}],
        "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
    }
    assert (await way.post(MESSAGES, body)).status == 200
    assert way.vendor.asked == body


async def test_a_picture_is_not_paid_for_as_text(way: Any) -> None:
    way.vendor.reply = http(ANSWER)
    image = {"type": "base64", "media_type": "image/png", "data": "A" * 1_000_000}
    shown = {"type": "image", "source": image}
    for each in (shown, {"type": "tool_result", "tool_use_id": "t", "content": [shown]}):
        await way.post(MESSAGES, part(**each))
        assert way.purse.held[1] < 400_000  # as text it would be 6 000 000


async def test_a_large_body_is_refused_and_the_answer_arrives(way: Any) -> None:
    head = b"POST /anthropic/v1/messages HTTP/1.1\r\ncontent-length: 40000000\r\n\r\n"
    answer = await way.send(head + b"x" * 300_000)
    assert answer.status == 413


async def test_counting_costs_nothing(way: Any) -> None:
    way.vendor.reply = http('{"input_tokens":3}')
    answer = await way.post(MESSAGES + "/count_tokens", ASK)
    assert answer.text == '{"input_tokens":3}' and way.purse.held == {}
    assert "max_tokens" not in way.vendor.asked


@pytest.mark.parametrize("end", ["revoke", "hang up"])
async def test_a_call_in_flight_is_cut_and_booked(way: Any, end: str) -> None:
    way.vendor.reply = http(STREAM.partition("event: message_delta")[0], "text/event-stream").replace(
        b"content-length: ", b"content-length: 9"
    )
    way.vendor.hang = True
    body = json.dumps(ASK | {"stream": True}).encode()
    reader, writer = await asyncio.open_unix_connection(way.path)
    writer.write(b"POST /anthropic/v1/messages HTTP/1.1\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body))
    async with asyncio.timeout(PATIENCE_S):
        await reader.readuntil(b"hello")
        if end == "revoke":
            way.socket.revoke()
            assert not (await reader.read()).endswith(b"0\r\n\r\n")
        writer.close()
        await way.purse.settled.wait()
        await way.vendor.left.wait()
    assert [usage.output for _, usage in way.purse.booked] == [100]  # no more than was asked for


async def test_a_call_that_is_cut_while_the_purse_thinks_leaves_nothing_held_back(way: Any) -> None:
    way.purse.slow = asyncio.Event()
    body = json.dumps(ASK).encode()
    _, writer = await asyncio.open_unix_connection(way.path)
    writer.write(b"POST /anthropic/v1/messages HTTP/1.1\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body))
    async with asyncio.timeout(PATIENCE_S):
        await way.purse.asked.wait()
        way.socket.revoke()
        way.purse.slow.set()
        await way.purse.settled.wait()
    writer.close()
    assert way.purse.booked == [(0, TokenCounts())] and way.vendor.heads == []


@pytest.mark.slow
async def test_fifty_calls_at_once_never_pass_the_budget(way: Any) -> None:
    way.vendor.reply = http(ANSWER)
    way.purse.left = start = 20_000
    answers = await asyncio.gather(*(way.post(MESSAGES, ASK | {"max_tokens": 400}) for _ in range(50)))
    assert {each.status for each in answers} == {200, 402}
    assert sum(actual for actual, _ in way.purse.booked) == start - way.purse.left
    assert way.purse.left >= 0


async def test_a_vendor_that_breaks_off_without_a_word_is_booked_for_what_it_read_and_had_time_to_write(
    way: Any,
) -> None:
    way.vendor.reply = b""
    broke = await way.post(MESSAGES, ASK)
    assert broke.status == 502
    [(booked, usage)] = way.purse.booked  # it had the request
    assert booked and usage.input and usage.output and way.purse.estimated == [True]


async def test_a_session_judges_one_large_body_at_a_time_and_a_neighbour_is_not_held_up(
    way: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    way.vendor.reply = http(ANSWER)
    loop, begun, go_on, inside = asyncio.get_running_loop(), asyncio.Event(), threading.Event(), []
    decode = request_bodies.decode

    def slow(raw: bytes) -> dict[str, Any]:
        inside.append(1)
        loop.call_soon_threadsafe(begun.set)
        go_on.wait(PATIENCE_S)
        return decode(raw)

    monkeypatch.setattr(request_bodies, "decode", slow)
    large = ASK | {"system": "x" * 300_000}
    waiting = [asyncio.create_task(way.post(MESSAGES, large)) for _ in range(5)]
    await begun.wait()
    assert await way.models._every_judge.run(lambda: "neighbour") == "neighbour"
    assert len(inside) == 1
    go_on.set()
    assert [each.status for each in await asyncio.gather(*waiting)] == [200] * 5


async def test_a_session_holds_so_much_at_once_and_the_first_comes_first() -> None:
    load, order, go_on = WeightedSemaphore(64), [], asyncio.Event()

    async def hold(name: str, units: int) -> None:
        async with load.hold(units):
            order.append(name)
            await go_on.wait()

    tasks = [asyncio.create_task(hold(*each)) for each in (("a", 40), ("b", 32), ("c", 1))]
    for _ in range(100):
        await asyncio.sleep(0)
    assert order == ["a"]
    tasks[1].cancel()
    go_on.set()
    await asyncio.wait(tasks)
    assert order == ["a", "c"]
    async with load.hold(64):
        pass


async def test_a_refused_body_is_let_go_at_once(way: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    class Large:
        pass

    kept: list[weakref.ref[Large]] = []

    def refuse(raw: bytes) -> dict[str, Any]:
        large = Large()
        kept.append(weakref.ref(large))
        raise HttpRefusal(400, f"no {large}")

    monkeypatch.setattr(request_bodies, "decode", refuse)
    gc.disable()
    try:
        for size in (10, 300_000):
            assert (await way.post(MESSAGES, b"x" * size)).status == 400
        await until(lambda: [each() for each in kept] == [None, None], "the thread's last step")
    finally:
        gc.enable()
