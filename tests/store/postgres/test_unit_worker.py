"""Units that wait for several workers."""

import asyncio
from typing import Any, cast

from gatepost.store.engine.lanes import WriteUnit
from gatepost.store.postgres.unit_worker import LaneQueue


def unit(name: str, lane: str = "") -> WriteUnit:
    return WriteUnit(lambda: name, (name,), True, lane, cast(asyncio.AbstractEventLoop, None), cast(Any, None))


def take(queue: LaneQueue) -> tuple[str, str]:
    taken = queue.pop()
    assert taken is not None
    return taken[0], taken[1].args[0]


def test_the_next_of_a_lane_waits_for_the_one_before_it() -> None:
    queue = LaneQueue()
    for name, lane in (("a1", "a"), ("a2", "a"), ("b1", "b")):
        queue.put(unit(name, lane))
    lane, first = take(queue)
    assert (first, take(queue)[1]) == ("a1", "b1")  # a2 is not to be had
    queue.release(lane)
    assert take(queue) == ("a", "a2")


def test_what_comes_while_its_lane_is_at_work_waits_behind_it() -> None:
    queue = LaneQueue()
    queue.put(unit("a1", "a"))
    take(queue)
    queue.put(unit("a2", "a"))
    queue.put(unit("free"))
    assert take(queue)[1] == "free"
    queue.release("a")
    assert take(queue) == ("a", "a2")


def test_lanes_take_turns() -> None:
    queue = LaneQueue()
    for number in range(3):
        queue.put(unit(f"flood {number}", "flood"))
    queue.put(unit("quiet", "quiet"))
    lane, _ = take(queue)
    queue.release(lane)
    assert take(queue)[1] == "quiet"


def test_units_without_a_lane_do_not_wait_for_each_other() -> None:
    queue = LaneQueue()
    queue.put(unit("one"))
    queue.put(unit("two"))
    assert [take(queue)[1], take(queue)[1]] == ["one", "two"]


def test_a_closed_queue_is_emptied_first() -> None:
    queue = LaneQueue()
    queue.put(unit("a1", "a"))
    queue.put(unit("a2", "a"))
    queue.close()
    for expected in ("a1", "a2"):
        lane, name = take(queue)
        assert name == expected
        queue.release(lane)
    assert queue.pop() is None


def test_the_rest_is_everything_that_waits() -> None:
    queue = LaneQueue()
    for name, lane in (("a1", "a"), ("a2", "a"), ("b1", "b")):
        queue.put(unit(name, lane))
    take(queue)
    assert sorted(each.args[0] for each in queue.rest()) == ["a2", "b1"]
