"""A queue in which groups take turns."""

from gatepost.core.fair_queue import FairQueue


def drained(queue: FairQueue[str]) -> list[str]:
    taken = []
    while (group := queue.next_group()) is not None:
        taken.append(queue.pop(group))
    return taken


def test_stranger_23_a_thousand_items_of_one_group_delay_anothers_first_by_one() -> None:
    queue: FairQueue[str] = FairQueue()
    for number in range(1000):
        queue.add(f"loud {number}", "loud")
    queue.add("quiet", "quiet")

    assert queue.sizes() == {"loud": 1000, "quiet": 1}
    assert drained(queue)[:3] == ["loud 0", "quiet", "loud 1"]
    assert len(queue) == 0


def test_the_group_with_the_lowest_rank_comes_first() -> None:
    queue: FairQueue[str] = FairQueue()
    queue.add("a", "first")
    queue.add("b", "second")

    assert queue.next_group({"first": 2, "second": 1}.__getitem__) == "second"


def test_who_waits_keeps_its_place_and_may_leave() -> None:
    queue: FairQueue[str] = FairQueue()
    for item in ("a", "b", "a"):
        queue.add(item, "acme")
    assert list(queue) == ["a", "b"]
    queue.discard("a")
    queue.discard("a")

    assert "a" not in queue and drained(queue) == ["b"]
    assert queue.next_group() is None
