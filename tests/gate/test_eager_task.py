"""Work that runs ahead of its task."""

import asyncio
from contextvars import ContextVar

import pytest

from gatepost.gate.eager_task import run_eagerly
from gatepost_testing.waiting import PATIENCE_S


async def test_work_that_never_waits_is_done_at_once() -> None:
    done: list[str] = []

    async def inner() -> str:
        return "inner"

    async def work() -> None:
        done.append(await inner())

    assert run_eagerly(work()) is None
    assert done == ["inner"]


async def test_work_that_waits_goes_on_as_an_ordinary_task() -> None:
    loop, seen = asyncio.get_running_loop(), []
    first: asyncio.Future[str] = loop.create_future()

    async def work() -> None:
        seen.append(await first)
        await asyncio.sleep(0)
        async with asyncio.timeout(PATIENCE_S):  # needs a current task: it has one by now
            seen.append(await asyncio.to_thread(lambda: "thread"))

    rest = run_eagerly(work())
    assert rest is not None and seen == []
    task = loop.create_task(rest)
    first.set_result("first")
    await task
    assert seen == ["first", "thread"]


async def test_what_goes_wrong_is_raised_where_the_work_waits() -> None:
    loop, seen = asyncio.get_running_loop(), []
    first: asyncio.Future[str] = loop.create_future()

    async def work() -> None:
        try:
            await first
        except ValueError as error:
            seen.append(str(error))
        await asyncio.sleep(0)
        raise KeyError("second")

    rest = run_eagerly(work())
    assert rest is not None
    task = loop.create_task(rest)
    first.set_exception(ValueError("first"))
    with pytest.raises(KeyError):
        await task
    assert seen == ["first"]


async def test_a_cancelled_task_cancels_the_work() -> None:
    ended: list[bool] = []

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(True)

    rest = run_eagerly(work())
    assert rest is not None
    task = asyncio.get_running_loop().create_task(rest)
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended == [True]


async def test_an_error_before_the_first_wait_is_the_callers() -> None:
    async def work() -> None:
        raise ValueError("at once")

    with pytest.raises(ValueError, match="at once"):
        run_eagerly(work())


async def test_what_it_sets_in_its_context_is_its_own_and_can_be_set_back_after_a_wait() -> None:
    loop, seen = asyncio.get_running_loop(), []
    first: asyncio.Future[str] = loop.create_future()
    variable: ContextVar[str] = ContextVar("variable", default="nothing")

    async def work() -> None:
        token = variable.set("of the work")
        seen.append(await first)
        seen.append(variable.get())
        variable.reset(token)

    rest = run_eagerly(work())
    assert rest is not None and variable.get() == "nothing"
    task = loop.create_task(rest)
    first.set_result("first")
    await task
    assert seen == ["first", "of the work"]
