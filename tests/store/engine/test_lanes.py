"""Units that nobody waits for ride along with the next commit, and are not left behind when there is none."""

import asyncio
import threading
from collections.abc import Iterator
from functools import partial

import pytest

from gatepost.store.engine import lanes
from gatepost.store.engine.lanes import WriteQueue, WriteUnit
from gatepost_testing.waiting import PATIENCE_S


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    made = asyncio.new_event_loop()
    yield made
    made.close()


def unit(loop: asyncio.AbstractEventLoop, lane: str, *, patient: bool) -> WriteUnit:
    return WriteUnit(lambda db: None, (), False, lane, loop, loop.create_future(), patient=patient)


def test_a_patient_unit_waits_for_the_next_one_that_is_not(
    loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lanes, "LINGER_S", PATIENCE_S)
    queue = WriteQueue()
    posted, written = unit(loop, "a", patient=True), unit(loop, "b", patient=False)
    queue.put(posted)
    later = threading.Timer(0.01, queue.put, (written,))
    later.start()

    assert queue.pop(10) == [posted, written]  # what came first is first, so a lane keeps its order


def test_patient_units_alone_are_taken_after_a_moment(loop: asyncio.AbstractEventLoop) -> None:
    queue = WriteQueue()
    posted = [unit(loop, lane, patient=True) for lane in "ab"]
    for each in posted:
        queue.put(each)

    assert queue.pop(10) == posted


def test_a_queue_that_is_closed_keeps_nobody_waiting(
    loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lanes, "LINGER_S", 10 * PATIENCE_S)
    queue = WriteQueue()
    posted = unit(loop, "a", patient=True)
    queue.put(posted)
    queue.close()

    assert queue.pop(10) == [posted]
    assert queue.pop(10) == []


def test_what_is_put_back_presses_as_before(loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lanes, "LINGER_S", 10 * PATIENCE_S)
    queue = WriteQueue()
    written = [unit(loop, lane, patient=False) for lane in "ab"]
    for each in written:
        queue.put(each)

    taken = queue.pop(10)
    queue.put_back(taken[1:])
    queue.put(unit(loop, "c", patient=True))

    assert queue.pop(1) == written[1:]


def test_a_unit_is_named_by_the_function_within_and_not_by_what_it_was_given(loop: asyncio.AbstractEventLoop) -> None:
    bound = partial(partial(unit, loop), lane="secret")
    made = WriteUnit(bound, (), False, "", loop, loop.create_future())
    assert made.name == f"{__name__}.unit"
