"""What counts as learnt of a call's usage: both counts, as counts. Everything else is booked in full."""

import json
from typing import Any

import pytest

from gatepost.egress import token_usage
from gatepost.egress.token_usage import (
    FASTEST,
    ON_THE_WAY,
    MeasuredUsage,
    UsageEventFilter,
    bound_cut_output,
    count_text_bytes,
)
from gatepost.store.money.costs import TokenCounts

UNCLEAR: list[dict[str, Any]] = [
    {},
    {"total_tokens": 99_999},
    {"prompt_tokens": 5},
    {"completion_tokens": 5},
    {"prompt_tokens": 1e5, "completion_tokens": 5},
    {"prompt_tokens": 5, "completion_tokens": "5"},
    {"prompt_tokens": -5, "completion_tokens": 5},
    {"prompt_tokens": 5, "completion_tokens": 3_000_000_000},
    {"prompt_tokens": True, "completion_tokens": 5},
    {"prompt_tokens": 0, "completion_tokens": 0},
    {"input_tokens": None, "output_tokens": None},
    {"input_tokens": None, "output_tokens": 5, "cache_read_input_tokens": 0},
    {"input_tokens": 5, "output_tokens": 5, "cache_read_input_tokens": -1},
    {"input_tokens": 5, "output_tokens": 5, "input_tokens_details": {"cached_tokens": "4"}},
    {"input_tokens": 5, "output_tokens": 5, "input_tokens_details": 4},
]


def events(*found: dict[str, Any]) -> MeasuredUsage:
    stream = token_usage.UsageEventFilter()
    for each in found:
        stream.feed(b"data: " + json.dumps(each).encode() + b"\n\n")
    return stream.measured


@pytest.mark.parametrize("told", UNCLEAR)
def test_usage_that_is_no_count_of_both_is_not_learnt(told: dict[str, Any]) -> None:
    assert token_usage.read_response_usage(json.dumps({"usage": told}).encode()) == MeasuredUsage()
    assert events({"choices": [{}], "usage": told}) == MeasuredUsage()
    assert events({"type": "response.completed", "response": {"usage": told}}) == MeasuredUsage()


def test_both_counts_are_learnt_and_what_is_null_beside_them_is_nothing() -> None:
    told = {"input_tokens": 7, "output_tokens": 2, "cache_read_input_tokens": None, "cache_creation": None}
    assert token_usage.read_response_usage(json.dumps({"usage": told}).encode()) == MeasuredUsage(
        TokenCounts(input=7, output=2), True
    )


@pytest.mark.parametrize("told", [{}, {"output_tokens": None}, {"output_tokens": -1}, {"output_tokens": 1.5}])
def test_a_stream_whose_end_tells_no_count_has_only_begun(told: dict[str, Any]) -> None:
    start = {"type": "message_start", "message": {"usage": {"input_tokens": 10, "output_tokens": 1}}}
    found = events(start, {"type": "message_delta", "usage": told})
    assert found.usage is not None and (found.usage.input, found.whole) == (10, False)
    found = events(start, {"type": "message_delta", "usage": {"output_tokens": 3}})
    assert found == MeasuredUsage(TokenCounts(input=10, output=3), True)


def test_a_stream_whose_beginning_tells_no_count_is_not_learnt_by_its_answer_alone() -> None:
    end = {"type": "message_delta", "usage": {"output_tokens": 3}}
    assert events({"type": "message_start", "message": {"usage": {"input_tokens": "x"}}}, end) == MeasuredUsage()
    assert events(end) == MeasuredUsage()


@pytest.mark.parametrize(
    ("event", "bytes_said"),
    [
        ('{"type":"content_block_delta","delta":{"type":"text_delta","text":"héllo"}}', 6),
        ('{"type":"content_block_delta","delta":{"type":"thinking_delta","thinking":"hm"}}', 2),
        ('{"type":"content_block_delta","delta":{"type":"input_json_delta","partial_json":"{}"}}', 2),
        ('{"type":"response.output_text.delta","delta":"hello","obfuscation":"xxxxxxxx"}', 5),
        ('{"choices":[{"delta":{"content":"hello","role":"assistant"}}]}', 5),
        ('{"choices":[{"delta":{"content":null,"reasoning_content":"hm"}}]}', 2),
        ('{"choices":[{"delta":{}}]}', 0),
    ],
)
def test_what_a_model_said_is_counted_without_what_is_around_it(event: str, bytes_said: int) -> None:
    stream = UsageEventFilter()
    stream.feed(f"data: {event}\n\n".encode())
    assert stream.arrived == bytes_said


def test_an_event_that_nobody_can_read_counts_with_all_of_its_bytes() -> None:
    stream = UsageEventFilter()
    stream.feed(b'data: {"delta": 5}\n\n')
    assert stream.arrived == len(b'{"delta": 5}')


def test_the_arguments_of_a_tool_count_as_said() -> None:
    calls = '{"choices":[{"delta":{"tool_calls":[{"function":{"arguments":"abcdefgh"}}]}}]}'
    assert count_text_bytes(calls.encode()) >= 8


def test_time_bounds_what_a_model_thinks_unseen() -> None:
    assert bound_cut_output(60, 0.0) == 60 + ON_THE_WAY
    assert bound_cut_output(60, 10.0) == 60 + ON_THE_WAY + 10 * FASTEST
