"""Work off the loop: bounded, and its place is its own until it is done."""

import asyncio
import gc
import subprocess
import sys
import threading
import weakref
from contextlib import suppress
from functools import partial

import pytest

from gatepost.core.process.thread_pools import BoundedThreadPool, FairThreadPool
from gatepost_testing.waiting import PATIENCE_S, block_until, until


async def test_the_answer_and_the_error_come_back() -> None:
    threads = BoundedThreadPool(1)
    assert await threads.run(lambda: 7) == 7
    with pytest.raises(ZeroDivisionError):
        await threads.run(lambda: 1 // 0)
    assert await threads.run(lambda: 8) == 8


async def test_an_error_keeps_nothing_once_it_was_heard() -> None:
    class Large:
        pass

    large = Large()
    kept = weakref.ref(large)

    def fail(what: Large) -> None:
        raise ValueError(what)

    gc.disable()
    try:
        with suppress(ValueError):
            await BoundedThreadPool(1).run(partial(fail, large))
        del large
        await until(lambda: kept() is None, "the thread's last step")
    finally:
        gc.enable()


async def test_who_gives_up_waiting_does_not_free_the_place() -> None:
    every = BoundedThreadPool(2)
    mine, yours = BoundedThreadPool(1, every), BoundedThreadPool(1, every)
    loop, begun, go_on = asyncio.get_running_loop(), asyncio.Event(), threading.Event()

    def slow() -> None:
        loop.call_soon_threadsafe(begun.set)
        go_on.wait(PATIENCE_S)

    first = asyncio.create_task(mine.run(slow))
    await begun.wait()
    first.cancel()
    await asyncio.wait({first})

    second = asyncio.create_task(mine.run(lambda: "second"))
    assert await yours.run(lambda: "neighbour") == "neighbour"
    assert not second.done()
    go_on.set()
    assert await second == "second"


async def test_who_gives_up_before_a_place_was_free_leaves_it_to_the_next() -> None:
    threads, go_on = BoundedThreadPool(1), threading.Event()
    first = asyncio.create_task(threads.run(lambda: go_on.wait(PATIENCE_S)))
    await asyncio.sleep(0)
    second = asyncio.create_task(threads.run(lambda: True))
    await asyncio.sleep(0)
    second.cancel()
    await asyncio.wait({second})
    go_on.set()
    assert await first and await threads.run(lambda: True)


def test_what_never_ends_does_not_keep_the_process() -> None:
    code = (
        "import asyncio, threading\n"
        "from gatepost.core.process.thread_pools import BoundedThreadPool\n"
        "async def main():\n"
        "    try:\n"
        "        async with asyncio.timeout(0.01): await BoundedThreadPool(1).run(threading.Event().wait)\n"
        "    except TimeoutError: print('out')\n"
        "asyncio.run(main())\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE_S, check=True)
    assert done.stdout == "out\n"


async def test_stranger_04_one_owner_has_its_share_of_the_threads_only() -> None:
    threads, go_on, begun = FairThreadPool(workers=4, share=2), threading.Event(), threading.Semaphore(0)

    def hold() -> None:
        begun.release()
        go_on.wait()

    held = [asyncio.create_task(threads.run("flood", hold)) for _ in range(60)]
    await asyncio.to_thread(begun.acquire)
    await asyncio.to_thread(begun.acquire)

    assert await threads.run("neighbour", lambda: "answered") == "answered"
    assert not begun.acquire(blocking=False)  # no third of the flood was begun meanwhile
    go_on.set()
    await asyncio.gather(*held)
    threads.close()


async def test_stranger_04_what_waits_is_taken_from_one_owner_after_the_other() -> None:
    threads, order, go_on = FairThreadPool(workers=1, share=1), list[str](), threading.Event()
    first = threads.submit("a", go_on.wait)
    waiting = [threads.submit("a", order.append, f"a{number}") for number in range(3)]
    waiting += [threads.submit("b", order.append, f"b{number}") for number in range(2)]
    go_on.set()
    await asyncio.gather(*map(asyncio.wrap_future, [first, *waiting]))

    assert order in (["a0", "b0", "a1", "b1", "a2"], ["b0", "a0", "b1", "a1", "a2"])
    threads.close()


async def test_what_is_no_longer_wanted_is_not_begun_and_errors_come_back() -> None:
    threads, go_on, order = FairThreadPool(workers=1, share=1), threading.Event(), list[str]()
    first = threads.submit("a", go_on.wait)
    second = asyncio.create_task(threads.run("a", order.append, "second"))
    await asyncio.sleep(0)
    second.cancel()
    with suppress(asyncio.CancelledError):
        await second
    go_on.set()
    await asyncio.wrap_future(first)
    with pytest.raises(ZeroDivisionError):
        await threads.run("b", lambda: 1 // 0)

    assert order == []
    threads.close()
    with pytest.raises(RuntimeError):
        threads.submit("a", print)


def test_threads_without_work_end_and_come_back_with_it() -> None:
    threads, used = FairThreadPool(idle_s=0.01), list[threading.Thread]()
    for _ in range(2):
        threads.submit("a", lambda: used.append(threading.current_thread())).result()
        block_until(lambda: not used[-1].is_alive(), "the thread to end")

    assert used[0] is not used[1]
