"""What a runner says at once is taken in portions."""

from gatepost.flow.sessions.runner.results import LARGEST_AT_ONCE, MOST_AT_ONCE, split_batches
from gatepost.mailbox import runner_frames


def result(part: int, text: str = "x") -> runner_frames.ResultFrame:
    return runner_frames.ResultFrame(id=part, turn="t", epoch=1, attempt=1, part=part, text=text)


def test_stranger_03_a_flood_of_results_is_many_small_transactions_in_order() -> None:
    said = [result(part) for part in range(1, 3000)]
    taken = list(split_batches(said))
    assert [frame for some in taken for frame in some] == said
    assert max(map(len, taken)) == MOST_AT_ONCE


def test_large_results_are_taken_one_by_one_and_few_small_ones_together() -> None:
    large = "x" * LARGEST_AT_ONCE
    assert [len(some) for some in split_batches([result(1, large), result(2, large), result(3), result(4)])] == [
        1,
        1,
        2,
    ]
    assert list(split_batches([])) == []
