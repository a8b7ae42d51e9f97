"""Events by room: in order, beside each other, and never dropped."""

import asyncio
from functools import partial

import pytest

from gatepost.channels.kit.room_queues import RoomQueues
from gatepost.core.errors import Invalid, Unavailable
from gatepost_testing.waiting import PATIENCE_S, until


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


async def test_an_order_to_stop_waits_for_nothing_else_of_its_room() -> None:
    done, gate, marks = list[str](), asyncio.Event(), list[str]()

    async def work(name: str) -> None:
        if name == "file":
            await gate.wait()
        done.append(name)

    async def save(mark: str) -> None:
        marks.append(mark)

    async with asyncio.timeout(PATIENCE_S), RoomQueues(save=save) as queues:
        await queues.put("a", partial(work, "file"), "1")
        await queues.put("a", partial(work, "words"), "2")
        await queues.run("a", partial(work, "stop"), urgent=True)
        assert done == ["stop"]
        await queues.put("a", partial(work, "again"), "3", urgent=True)
        gate.set()
        await queues.drain()

    assert sorted(done) == ["again", "file", "stop", "words"]
    assert done.index("file") < done.index("words")
    assert marks[-1] == "3"  # the cursor passes nothing that is not done


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
            await queues.put("a", asyncio.Event().wait)
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


async def test_a_cursor_moves_up_to_where_all_is_done() -> None:
    saved, gates = list[str](), {name: asyncio.Event() for name in "abcd"}
    told = asyncio.Event()

    async def save(mark: str) -> None:
        saved.append(mark)
        told.set()

    async with asyncio.timeout(PATIENCE_S), RoomQueues(save=save) as queues:
        for name in "abcd":
            await queues.put(name, gates[name].wait, mark=name)
        gates["c"].set()
        gates["b"].set()
        await until(lambda: queues.list_marks() == ["a", "d"])
        assert saved == []
        gates["a"].set()
        await told.wait()
        assert saved == ["c"]
        gates["d"].set()
        await queues.drain()
    assert saved == ["c", "d"]
    assert queues.list_marks() == []


async def test_what_will_never_be_done_does_not_keep_the_cursor_back() -> None:
    saved = list[str]()

    async def refuse() -> None:
        raise Invalid("event", "no")

    async def save(mark: str) -> None:
        saved.append(mark)

    async with asyncio.timeout(PATIENCE_S), RoomQueues(save=save) as queues:
        await queues.put("a", refuse, mark="1")
        await queues.drain()
    assert saved == ["1"]


async def test_a_cursor_that_cannot_be_saved_now_is_saved_later_and_never_set_back() -> None:
    saved, tries = list[str](), list[str]()

    async def save(mark: str) -> None:
        tries.append(mark)
        if len(tries) == 1:
            raise Unavailable("the store", retry_after=0)
        saved.append(mark)

    async def work() -> None:
        pass

    async with asyncio.timeout(PATIENCE_S), RoomQueues(save=save) as queues:
        await queues.put("a", work, mark="1")
        await queues.put("b", work, mark="2")
        await queues.drain()
    assert tries[0] == "1"
    assert saved == ["2", "2"]


async def test_what_waits_for_a_place_counts_as_not_done() -> None:
    gate = asyncio.Event()
    async with asyncio.timeout(PATIENCE_S), RoomQueues(most=1) as queues:
        await queues.put("a", gate.wait, mark="1")
        second = asyncio.create_task(queues.put("b", gate.wait, mark="2"))
        await until(lambda: queues.list_marks() == ["1", "2"])
        gate.set()
        await second
        await queues.drain()


async def test_a_caller_gets_the_result_or_the_error_of_a_job_that_runs_once_and_the_block_goes_on() -> None:
    tries = 0

    async def fail() -> None:
        nonlocal tries
        tries += 1
        raise Unavailable("the store")

    async def work() -> str:
        return "done"

    async with asyncio.timeout(PATIENCE_S), RoomQueues() as queues:
        with pytest.raises(Unavailable):
            await queues.run("a", fail)
        assert await queues.run("a", work) == "done"
    assert tries == 1
    with pytest.raises(Unavailable):
        await queues.run("a", work)


async def test_a_caller_waits_for_what_came_before_in_its_room() -> None:
    done, gate = list[str](), asyncio.Event()

    async def work(name: str) -> None:
        if name == "first":
            await gate.wait()
        done.append(name)

    async with asyncio.timeout(PATIENCE_S), RoomQueues() as queues:
        await queues.put("a", partial(work, "first"))
        second = asyncio.create_task(queues.run("a", partial(work, "second")))
        await queues.run("b", partial(work, "other"))
        gate.set()
        await second
    assert done == ["other", "first", "second"]


async def test_a_job_ends_with_its_caller_and_the_next_one_follows() -> None:
    started, ended = asyncio.Event(), asyncio.Event()

    async def hang() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async def work() -> str:
        return "done"

    async with asyncio.timeout(PATIENCE_S), RoomQueues(most=1) as queues:
        caller = asyncio.create_task(queues.run("a", hang))
        await started.wait()
        caller.cancel()
        await ended.wait()
        assert await queues.run("a", work) == "done"


async def test_callers_are_asked_to_come_again_when_the_block_ends() -> None:
    started = asyncio.Event()

    async def hang() -> None:
        started.set()
        await asyncio.Event().wait()

    async with asyncio.timeout(PATIENCE_S), RoomQueues(most=2) as queues:
        callers = [asyncio.create_task(queues.run("a", hang)) for _ in range(3)]
        await started.wait()
    for each in callers:
        with pytest.raises(Unavailable):
            await each
