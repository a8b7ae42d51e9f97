"""What a runner says is bounded before anybody looks at it."""

import msgspec
import pytest

from gatepost.mailbox import wire


@pytest.mark.parametrize("kind", ["begun", "claim"])
def test_stranger_03_a_frame_names_so_many_rows_and_no_more(kind: str) -> None:
    frame = {"type": kind, "id": 1, "turn": "t", "epoch": 1, "rows": list(range(wire.MOST_ROWS))}
    assert wire.read_from_runner(msgspec.json.encode(frame))
    frame["rows"] = list(range(wire.MOST_ROWS + 1))
    with pytest.raises(msgspec.DecodeError):
        wire.read_from_runner(msgspec.json.encode(frame))
