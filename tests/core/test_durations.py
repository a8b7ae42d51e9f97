"""Durations are noted by any thread and counted once each."""

import threading

from gatepost.core.clock import SECOND
from gatepost.core.durations import BOUNDS_S, Durations, TimedStep


def test_each_is_counted_once_by_whoever_counts_first() -> None:
    durations = Durations()
    over = threading.Event()

    def count() -> None:
        while not over.is_set():
            durations.count_noted()

    counting = [threading.Thread(target=count) for _ in range(2)]
    for each in counting:
        each.start()
    for _ in range(5000):
        durations.note((TimedStep.QUEUE, "", 2 * SECOND))
    over.set()
    for each in counting:
        each.join()
    (found,) = durations.list_counted(TimedStep.QUEUE)
    assert sum(found.counts) == found.counts[BOUNDS_S.index(2.5)] == 5000
    assert found.total_s == 10_000.0
    assert list(durations.list_counted(TimedStep.ANSWER)) == []


def test_labels_are_counted_apart() -> None:
    durations = Durations()
    for label in ("a", "b", "a"):
        durations.note((TimedStep.DELIVERY, label, 1))
    assert {each.label: sum(each.counts) for each in durations.list_counted(TimedStep.DELIVERY)} == {"a": 2, "b": 1}
