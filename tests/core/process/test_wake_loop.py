"""The loop of background jobs: no wake-up is lost, named errors are survived, and cancelling ends it at once."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from gatepost.core.errors import Unavailable
from gatepost.core.process.wake_loop import WakeLoop
from gatepost_testing.waiting import PATIENCE_S, until

NEVER_S = 100 * PATIENCE_S


class Job:
    """Counts its rounds. `steps`: what each of the first ones does, in their order."""

    def __init__(self, *steps: Callable[[], float | None]) -> None:
        self.rounds = 0
        self._steps = steps

    async def work(self) -> float | None:
        self.rounds += 1
        return self._steps[self.rounds - 1]() if self.rounds <= len(self._steps) else None


class Report:
    def __init__(self) -> None:
        self.lines: list[tuple[str, object]] = []

    def __call__(self, event: str, **facts: object) -> None:
        self.lines.append((event, facts["error"]))


@asynccontextmanager
async def running(loop: WakeLoop, job: Job, first_s: float = 0.0) -> AsyncIterator[asyncio.Task[None]]:
    task = asyncio.create_task(loop.run(job.work, first_s=first_s))
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def make_loop(report: Report | None = None, **given: float) -> WakeLoop:
    return WakeLoop(report or Report(), "the job waits", **given)


def fail() -> None:
    raise Unavailable("the store", "it is away")


async def test_a_wake_up_begins_the_next_round_before_its_time() -> None:
    loop, job = make_loop(pause_s=NEVER_S), Job()
    async with running(loop, job):
        await until(lambda: job.rounds == 1)
        assert not loop.was_woken
        loop.wake()
        await until(lambda: job.rounds == 2)
        assert loop.was_woken


async def test_without_a_pause_only_a_wake_up_begins_the_next_round() -> None:
    loop, job = make_loop(), Job()
    async with running(loop, job):
        await until(lambda: job.rounds == 1)
        loop.wake()
        await until(lambda: job.rounds == 2)


async def test_a_wake_up_during_the_work_leads_to_another_round_and_to_one_only() -> None:
    loop = make_loop(pause_s=NEVER_S)
    entered, goes_on = asyncio.Event(), asyncio.Event()
    rounds = 0

    async def work() -> None:
        nonlocal rounds
        rounds += 1
        entered.set()
        await goes_on.wait()

    task = asyncio.create_task(loop.run(work))
    await asyncio.wait_for(entered.wait(), PATIENCE_S)
    for _ in range(3):
        loop.wake()
    goes_on.set()
    await until(lambda: rounds == 2)
    for _ in range(10):
        await asyncio.sleep(0)
    assert rounds == 2
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_wake_up_during_a_round_that_fails_is_not_lost() -> None:
    def wake_and_fail() -> None:
        loop.wake()
        fail()

    loop, job = make_loop(pause_s=NEVER_S), Job(wake_and_fail)
    async with running(loop, job):
        await until(lambda: job.rounds == 2)


async def test_the_work_may_say_when_its_next_round_is() -> None:
    loop, job = make_loop(pause_s=NEVER_S), Job(lambda: 0.0, lambda: 0.0)
    async with running(loop, job):
        await until(lambda: job.rounds == 3)


async def test_a_named_error_is_reported_once_and_the_work_is_tried_again() -> None:
    report = Report()
    loop, job = make_loop(report, pause_s=NEVER_S, retry_s=0.0), Job(fail)
    async with running(loop, job):
        await until(lambda: job.rounds == 2)
    assert report.lines == [("the job waits", str(Unavailable("the store", "it is away")))]


async def test_without_a_pause_of_its_own_a_failed_round_is_tried_again_at_the_usual_time() -> None:
    loop, job = make_loop(pause_s=0.0), Job(fail)
    async with running(loop, job):
        await until(lambda: job.rounds > 2)


async def test_another_error_ends_the_loop() -> None:
    report = Report()

    def break_down() -> None:
        raise ValueError("a mistake")

    with pytest.raises(ValueError, match="a mistake"):
        await make_loop(report, pause_s=0.0).run(Job(break_down).work)
    assert report.lines == []


async def test_cancelling_ends_it_in_a_pause_and_in_the_work() -> None:
    loop, job = make_loop(pause_s=NEVER_S), Job()
    async with running(loop, job) as task:
        await until(lambda: job.rounds == 1)
        task.cancel()
        await asyncio.wait({task}, timeout=PATIENCE_S)
        assert task.cancelled()

    stuck = asyncio.create_task(make_loop().run(asyncio.Event().wait))
    await asyncio.sleep(0)
    stuck.cancel()
    await asyncio.wait({stuck}, timeout=PATIENCE_S)
    assert stuck.cancelled()


async def test_the_first_round_may_wait_and_a_wake_up_before_the_start_counts() -> None:
    loop, job = make_loop(pause_s=NEVER_S), Job()
    async with running(loop, job, first_s=NEVER_S):
        for _ in range(10):
            await asyncio.sleep(0)
        assert job.rounds == 0
        loop.wake()
        await until(lambda: job.rounds == 1)
        assert loop.was_woken

    loop, job = make_loop(pause_s=NEVER_S), Job()
    loop.wake()
    async with running(loop, job, first_s=NEVER_S):
        await until(lambda: job.rounds == 1)


async def test_a_loop_that_is_started_again_begins_as_if_nobody_had_woken_it() -> None:
    loop, job = make_loop(pause_s=NEVER_S), Job()
    async with running(loop, job):
        await until(lambda: job.rounds == 1)
        loop.wake()
        await until(lambda: job.rounds == 2)
    async with running(loop, job):
        await until(lambda: job.rounds == 3)
        assert not loop.was_woken
