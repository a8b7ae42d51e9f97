"""Answers as records and as JSON: what goes out comes back."""

import msgspec
import pytest
from msgspec import UNSET, Struct, UnsetType
from tests.flows.page_desk import make_value

from gatepost.core.clock import SECOND
from gatepost.serve.control.answers import from_json, is_time, to_json
from gatepost.serve.control.contract import OPERATIONS
from gatepost.store.schedule.tasks import TaskState


class Part(Struct, frozen=True):
    done_at: int | None
    words: str


class Whole(Struct, frozen=True, rename="camel"):
    at: int
    ends_until: int
    state: TaskState
    parts: tuple[Part, ...]
    best: Part | None = None
    local_at: str = ""
    left: int | UnsetType = UNSET


WHOLE = Whole(
    at=1_700_000_000 * SECOND,
    ends_until=0,
    state=TaskState.PAUSED,
    parts=(Part(done_at=1_700_000_001 * SECOND, words="2023-11-14T22:13:20Z"), Part(done_at=None, words="")),
    best=Part(done_at=None, words="x"),
    local_at="2023-11-14T23:13:20+01:00",
)


def test_json_has_times_as_texts_and_leaves_out_what_is_not_set() -> None:
    found = to_json(WHOLE)
    assert found["at"] == "2023-11-14T22:13:20.000Z" and found["endsUntil"] is None and "left" not in found
    assert [each["done_at"] for each in found["parts"]] == ["2023-11-14T22:13:21.000Z", None]
    assert found["localAt"] == "2023-11-14T23:13:20+01:00"  # it is a text in the record, too


@pytest.mark.parametrize("answer", [WHOLE, [WHOLE, WHOLE], []])
def test_what_goes_out_as_json_comes_back_as_it_was(answer: object) -> None:
    kind = list[Whole] if isinstance(answer, list) else Whole
    assert from_json(kind, through_json(answer)) == answer


def test_a_text_that_looks_like_a_time_stays_a_text() -> None:
    assert not is_time("words")
    assert from_json(Part, {"done_at": None, "words": "2023-11-14T22:13:20Z"}).words == "2023-11-14T22:13:20Z"


def test_an_answer_of_another_shape_is_refused() -> None:
    with pytest.raises(msgspec.ValidationError, match="missing required field `words`"):
        from_json(Part, {"done_at": None})


@pytest.mark.parametrize("moment", ["yesterday", "0001-01-01T00:00:00", "", 10**30, 1e300, True, [], {"at": 1}])
def test_a_time_that_is_none_is_an_answer_of_another_shape(moment: object) -> None:
    with pytest.raises(msgspec.ValidationError, match="is no time"):
        from_json(list[Part], [{"done_at": moment, "words": ""}])


@pytest.mark.parametrize("name", [name for name, each in OPERATIONS.items()])
def test_every_answer_comes_back_from_json(name: str) -> None:
    """A command reads what the gateway sends it: no type of an answer may be one that JSON cannot give back."""
    kind = OPERATIONS[name].result
    sent = through_json(make_value(kind, "words", ""))
    assert through_json(from_json(kind, sent)) == sent


def through_json(answer: object) -> object:
    return msgspec.json.decode(msgspec.json.encode(to_json(answer)))
