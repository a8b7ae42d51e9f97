"""How many values a JSON text holds is known before anything is built of it."""

import json

from hypothesis import given
from hypothesis import strategies as st

from gatepost.core.json_limits import MOST_VALUES, has_few_values

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(alphabet='a,[{"\\', max_size=8),
    lambda inner: (
        st.lists(inner, max_size=5) | st.dictionaries(st.text(alphabet='b,["\\', max_size=5), inner, max_size=5)
    ),
)


def count(value: object) -> int:
    if isinstance(value, dict):
        return 1 + sum(map(count, value.values()))
    return 1 + sum(map(count, value)) if isinstance(value, list) else 1


@given(JSON)
def test_stranger_04_a_text_is_judged_by_its_values_and_not_by_its_signs(value: object) -> None:
    raw, values = json.dumps(value).encode(), count(value)

    assert has_few_values(raw, 2 * values)  # an empty list is counted twice
    assert values < 6 or not has_few_values(raw, values // 2 - 2)


def test_stranger_04_many_small_values_are_many_and_a_long_text_is_one() -> None:
    assert not has_few_values(b"[" + b"1," * 85_000 + b"1]")
    assert not has_few_values(b"[" * (MOST_VALUES + 1))
    assert not has_few_values(b'["' + b'","' * 85_000 + b'"]')
    assert has_few_values(json.dumps({"text": ",[{" * 85_000}).encode())
