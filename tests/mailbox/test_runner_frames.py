"""What a runner says is bounded before anybody looks at it."""

from typing import get_args

import msgspec
import msgspec.inspect
import pytest

from gatepost.mailbox import runner_frames


@pytest.mark.parametrize("kind", ["begun", "claim"])
def test_stranger_03_a_frame_names_so_many_rows_and_no_more(kind: str) -> None:
    frame = {"type": kind, "id": 1, "turn": "t", "epoch": 1, "rows": list(range(runner_frames.MOST_ROWS))}
    assert runner_frames.read_from_runner(msgspec.json.encode(frame))
    frame["rows"] = list(range(runner_frames.MOST_ROWS + 1))
    with pytest.raises(msgspec.DecodeError):
        runner_frames.read_from_runner(msgspec.json.encode(frame))


def _unbounded(kind: msgspec.inspect.Type, where: str) -> list[str]:
    """Every text and collection below this type that may be of any size; free-form values are named as well."""
    found: list[str] = []
    match kind:
        case msgspec.inspect.StrType(max_length=None) | msgspec.inspect.AnyType():
            found.append(where)
        case msgspec.inspect.IntType() if kind.ge is None or kind.le is None:
            found.append(where)
        case msgspec.inspect.ListType(item_type=inner, max_length=most):
            found += [*([where] if most is None else []), *_unbounded(inner, f"{where}[]")]
        case msgspec.inspect.DictType(key_type=key, value_type=value, max_length=most):
            found += [where] if most is None else []
            found += _unbounded(key, f"{where} (key)") + _unbounded(value, f"{where}{{}}")
        case msgspec.inspect.UnionType(types=types):
            found += [each for inner in types for each in _unbounded(inner, where)]
        case _:
            pass
    return found


@pytest.mark.parametrize("frame", get_args(runner_frames.FromRunner), ids=lambda frame: frame.__name__)
def test_stranger_new_every_text_list_and_number_of_a_runners_frame_has_a_bound(
    frame: type[runner_frames.Frame],
) -> None:
    info = msgspec.inspect.type_info(frame)
    assert isinstance(info, msgspec.inspect.StructType)
    found = [each for field in info.fields for each in _unbounded(field.type, field.name)]
    assert found == (["data{}"] if frame is runner_frames.EventFrame else [])  # free-form: bounded as a whole


@pytest.mark.parametrize("frame", get_args(runner_frames.FromHost), ids=lambda frame: frame.__name__)
def test_stranger_new_every_text_and_list_of_a_hosts_frame_has_a_bound(frame: type[runner_frames.Frame]) -> None:
    info = msgspec.inspect.type_info(frame)
    assert isinstance(info, msgspec.inspect.StructType)
    found = [each for field in info.fields for each in _unbounded(field.type, field.name)]
    assert set(found) <= {"options{}", "input{}"}  # the operator's, or what was asked inside


@pytest.mark.parametrize(
    "frame",
    [
        {"type": "result", "id": 1, "turn": "t", "epoch": 1, "attempt": 1, "part": 1, "text": "x" * 1_000_000},
        {"type": "trouble", "what": "w" * 1_000_000, "why": "y"},
        {"type": "trouble", "what": "w", "why": "y" * 1_000_000},
        {"type": "event", "turn": "t", "kind": "k" * 1_000_000},
        {"type": "event", "turn": "t", "kind": "tool_use", "data": {"input": "x" * 1_000_000}},
        {"type": "submit_turn", "id": 1, "turn": "t", "epoch": 1, "status": "success", "usage": {"a": "x" * 1_000_000}},
        {"type": "submit_turn", "id": 1, "turn": "t", "epoch": 1, "status": "success", "usage": {"a": [[[1]]]}},
        {"type": "submit_turn", "id": 1, "turn": "t", "epoch": 1, "status": "error", "finished": list(range(100_000))},
        {"type": "begun", "id": 1, "turn": "t", "epoch": 1, "rows": list(range(5000))},
        {"type": "claim", "id": 1, "rows": list(range(5000))},
    ],
    ids=lambda frame: frame["type"],
)
def test_stranger_new_a_frame_of_a_megabyte_is_refused(frame: dict[str, object]) -> None:
    with pytest.raises(msgspec.DecodeError):
        runner_frames.read_from_runner(msgspec.json.encode(frame))
