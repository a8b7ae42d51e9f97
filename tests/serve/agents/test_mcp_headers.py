"""Headers of MCP requests: what they accept, what they name, and whether they agree with the body."""

import base64
from typing import Any

import pytest

from gatepost.gate.mcp_messages import read_call, read_params
from gatepost.jsonrpc.messages import JsonRpcMessage, encode
from gatepost.jsonrpc.protocol import HEADER_MISMATCH, INVALID_PARAMS, UNSUPPORTED_VERSION, JsonRpcFailure
from gatepost.serve.agents.http_exchange import (
    McpHeaders,
    check_argument_headers,
    check_envelope,
    find_argument_headers,
)

META = "io.modelcontextprotocol/"
ENVELOPE = {META + "protocolVersion": "2026-07-28", META + "clientCapabilities": {}}
LATER = {**ENVELOPE, META + "protocolVersion": "2027-01-01"}
CALL = {"mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": "echo"}


def make_headers(*pairs: tuple[str, str], **named: str) -> McpHeaders:
    given = [*pairs, *((name.replace("_", "-"), value) for name, value in named.items())]
    return McpHeaders({"headers": [(name.encode(), value.encode("latin-1")) for name, value in given]})


def judge(headers: dict[str, str], meta: object = ENVELOPE, name: str = "echo") -> int:
    params = read_call(encode({"name": name, "_meta": meta}))
    try:
        check_envelope(make_headers(*headers.items()), JsonRpcMessage(method="tools/call"), params)
    except JsonRpcFailure as failure:
        return failure.code
    return 0


@pytest.mark.parametrize(
    ("accept", "json", "events"),
    [
        ("application/json, text/event-stream", True, True),
        ("application/json;q=0.5,text/event-stream; charset=utf-8", True, True),
        ("*/*", True, True),
        ("application/*", True, False),
        ("text/*", False, True),
        ("text/html", False, False),
        ("", False, False),
    ],
)
def test_what_a_client_accepts_is_read_as_http_says(accept: str, json: bool, events: bool) -> None:
    head = make_headers(accept=accept)
    assert (head.accepts_json, head.accepts_events) == (json, events)


def test_a_client_that_names_no_version_is_of_the_oldest_with_this_transport() -> None:
    assert (make_headers().version, make_headers().old) == ("2025-03-26", True)
    assert not make_headers(mcp_protocol_version="2026-07-28").old
    assert not make_headers(mcp_protocol_version="tomorrow").old


def test_a_header_by_which_requests_are_routed_may_be_there_once() -> None:
    assert make_headers(("mcp-name", "a"), ("mcp-name", "a")).find_twice() == "mcp-name"
    assert make_headers(("x", "a"), ("x", "b")).find_twice() is None


@pytest.mark.parametrize(
    ("changed", "meta", "code"),
    [
        ({}, ENVELOPE, 0),
        ({}, {}, INVALID_PARAMS),
        ({}, {**ENVELOPE, META + "clientCapabilities": 5}, INVALID_PARAMS),
        ({"mcp-protocol-version": "2027-01-01"}, ENVELOPE, HEADER_MISMATCH),
        (
            {"mcp-protocol-version": "2027-01-01"},
            {**ENVELOPE, META + "protocolVersion": "2027-01-01"},
            UNSUPPORTED_VERSION,
        ),
        ({"mcp-method": "tools/list"}, ENVELOPE, HEADER_MISMATCH),
        ({"mcp-name": "other"}, ENVELOPE, HEADER_MISMATCH),
    ],
)
def test_headers_say_the_same_as_the_envelope(changed: dict[str, str], meta: object, code: int) -> None:
    assert judge({**CALL, **changed}, meta) == code


def test_a_listing_needs_no_name() -> None:
    head = make_headers(mcp_protocol_version="2026-07-28", mcp_method="tools/list")
    params = read_params(encode({"_meta": ENVELOPE}))
    assert params is not None
    check_envelope(head, JsonRpcMessage(method="tools/list"), params)


@pytest.mark.parametrize(
    ("payload", "code"),
    [(base64.b64encode("näme".encode()).decode(), 0), ("bm-1", HEADER_MISMATCH), ("/w==", HEADER_MISMATCH)],
)
def test_a_name_that_is_no_plain_text_is_written_in_base64(payload: str, code: int) -> None:
    assert judge({**CALL, "mcp-name": f"=?base64?{payload}?="}, name="näme") == code


SCHEMA = {
    "properties": {
        "region": {"type": "string", "x-mcp-header": "Region"},
        "count": {"type": "integer", "x-mcp-header": "Count"},
        "where": {"type": "object", "properties": {"zone": {"type": "boolean", "x-mcp-header": "Zone"}}},
        "other": {"anyOf": [{"type": "string", "x-mcp-header": "Other"}]},
    }
}


def test_only_plain_properties_name_headers() -> None:
    assert find_argument_headers(SCHEMA) == {
        ("region",): ("mcp-param-region", "string"),
        ("count",): ("mcp-param-count", "integer"),
        ("where", "zone"): ("mcp-param-zone", "boolean"),
    }


@pytest.mark.parametrize(
    ("arguments", "headers", "agree"),
    [
        ({"region": "eu"}, {"mcp-param-region": "eu"}, True),
        ({"region": "eu"}, {}, False),
        ({}, {"mcp-param-region": "eu"}, False),
        ({"region": None}, {}, True),
        ({"region": "eu"}, {"mcp-param-region": "us"}, False),
        ({"count": 42}, {"mcp-param-count": "42.0"}, True),
        ({"count": 42}, {"mcp-param-count": "4.2e1"}, False),
        ({"count": 10**400}, {"mcp-param-count": "1"}, False),
        ({"where": {"zone": True}}, {"mcp-param-zone": "true"}, True),
        ({"where": 5}, {"mcp-param-zone": "true"}, False),
        ({"other": "x"}, {"mcp-param-other": "y"}, True),
        (None, {}, True),
    ],
)
def test_an_argument_and_its_header_are_both_there_and_the_same(
    arguments: Any, headers: dict[str, str], agree: bool
) -> None:
    try:
        check_argument_headers(find_argument_headers(SCHEMA), arguments, make_headers(*headers.items()))
    except JsonRpcFailure as failure:
        assert not agree and failure.code == HEADER_MISMATCH
    else:
        assert agree
