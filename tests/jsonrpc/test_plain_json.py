"""JSON without the package `json` is the same JSON."""

import json

import pytest

from gatepost.jsonrpc import plain_json

VALUES = [None, True, 1, -1.5, "é\n\u2028", "\ud800", [], {}, {"a": [1, {"b": None}]}, [[1], "x" * 1000]]


@pytest.mark.parametrize("value", VALUES)
def test_values_are_written_and_read_as_by_the_package(value: object) -> None:
    assert plain_json.encode_ascii(value) == json.dumps(value, separators=(",", ":"))
    assert plain_json.decode(f" {plain_json.encode_ascii(value)}\r\n") == value


def test_half_a_surrogate_pair_is_replaced_in_utf_8() -> None:
    assert plain_json.encode(["é", "\ud800"]) == '["é","?"]'.encode()


@pytest.mark.parametrize("text", ["", "{", "1 2", "NaN", "[Infinity]", '{"a":}', "\ufeff1"])
def test_what_is_not_json_raises_a_value_error(text: str) -> None:
    with pytest.raises(ValueError):
        plain_json.decode(text)


def test_what_nests_too_deeply_raises_a_recursion_error() -> None:
    with pytest.raises(RecursionError):
        plain_json.decode("[" * 100_000)
