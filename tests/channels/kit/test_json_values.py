"""JSON that strangers wrote: whatever stands there, a reader gets the type that it asked for."""

import pytest

from gatepost.channels.kit.json_values import list_objects, read_object, read_text


@pytest.mark.parametrize("value", [None, 1, True, [], "x", ["x", 2], 1.5])
def test_what_is_no_object_is_empty(value: object) -> None:
    assert read_object(value) == {}
    assert list_objects(value) == []
    assert read_text(value) == (value if isinstance(value, str) else "")


def test_what_is_as_expected_is_read_and_the_rest_of_a_list_left_out() -> None:
    assert read_object({"a": 1}) == {"a": 1}
    assert list_objects([{"a": 1}, None, "x", {}]) == [{"a": 1}, {}]
