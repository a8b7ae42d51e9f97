"""Events by room: in order, beside each other, and never dropped."""

import asyncio
from functools import partial

import pytest

from gatepost.channels.kit.room_queues import RoomQueues
from gatepost.core.errors import Invalid, Unavailable
from gatepost.testing.waiting import PATIENCE_S


class Stuck(Exception):
    pass


async def test_a_room_stays_in_order_and_another_does_not_wait_for_it() -> None:
    done, gate, finished = list[str](), asyncio.Event(), asyncio.Event()

    async def work(name: str) -> None:
        if name == "a1":
            await gate.wait()
        done.append(name)
        if name == "b1":
            gate.set()
        if name == "a2":
            finished.set()

    async with asyncio.timeout(PATIENCE_S), RoomQueues() as queues:
        for name in ("a1", "a2", "b1"):
            await queues.put(name[0], partial(work, name))
        await finished.wait()

    assert done == ["b1", "a1", "a2"]


async def test_a_job_that_is_unavailable_is_tried_until_it_is_done() -> None:
    tries, finished = 0, asyncio.Event()

    async def work() -> None:
        nonlocal tries
        tries += 1
        if tries < 3:
            raise Unavailable("the store", retry_after=0)
        finished.set()

    async with asyncio.timeout(PATIENCE_S), RoomQueues() as queues:
        await queues.put("a", work)
        await finished.wait()
    assert tries == 3


async def test_another_error_ends_the_block_and_comes_out_of_it() -> None:
    async def work() -> None:
        raise Stuck

    with pytest.raises(Stuck):
        async with RoomQueues() as queues:
            await queues.put("a", work)
            async with asyncio.timeout(PATIENCE_S):
                await asyncio.Event().wait()
    me = asyncio.current_task()
    assert me is not None and me.cancelling() == 0


async def test_no_more_than_the_bound_is_under_way() -> None:
    gate, entered = asyncio.Event(), asyncio.Event()

    async def work() -> None:
        await gate.wait()

    async with asyncio.timeout(PATIENCE_S), RoomQueues(most=2) as queues:
        await queues.put("a", work)
        await queues.put("b", work)

        async def put() -> None:
            await queues.put("c", work)
            entered.set()

        third = asyncio.create_task(put())
        await asyncio.sleep(0)
        assert not entered.is_set()
        gate.set()
        await third
    assert entered.is_set()


async def test_a_cancel_from_outside_stays_a_cancel() -> None:
    started = asyncio.Event()

    async def listen() -> None:
        async with RoomQueues() as queues:
            await queues.put("a", asyncio.Event().wait)  # type: ignore[arg-type]
            started.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(listen())
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_job_that_will_never_be_done_ends_no_other_room_and_not_its_own() -> None:
    """One event of a stranger that intake refuses for good."""
    done, finished = list[str](), asyncio.Event()

    async def refuse() -> None:
        raise Invalid("event", "an event needs one of at most 512 characters")

    async def take(name: str) -> None:
        done.append(name)
        if len(done) == 2:
            finished.set()

    async with asyncio.timeout(PATIENCE_S), RoomQueues(most=2) as queues:
        await queues.put("eve", refuse)
        await queues.put("eve", partial(take, "eve"))
        await queues.put("ann", partial(take, "ann"))
        await finished.wait()
    assert sorted(done) == ["ann", "eve"]
