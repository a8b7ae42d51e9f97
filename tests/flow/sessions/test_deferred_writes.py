"""Acts that the store could not take: they are written later, in the end once, and a newer word takes their place."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from gatepost.core.errors import Invalid, Unavailable
from gatepost.flow.sessions import deferred_writes
from gatepost.flow.sessions.deferred_writes import DeferredWrites
from gatepost_testing.waiting import PATIENCE_S, until


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AGAIN_S", "LONGEST_S", "SOON_S"):
        monkeypatch.setattr(deferred_writes, name, 0.001)


class FullDisk:
    """A store that fails so many times, and then writes."""

    def __init__(self, failures: int = 0) -> None:
        self.failures, self.tries = failures, 0
        self.written: list[str] = []
        self.let_go = asyncio.Event()
        self.let_go.set()

    def make(self, what: str) -> Callable[[], Any]:
        async def write() -> str:
            self.tries += 1
            await self.let_go.wait()
            if self.tries <= self.failures:
                raise Unavailable("the store", "the disk is full")
            self.written.append(what)
            return f"{what} is written"

        return write


async def until_gone(writes: DeferredWrites, key: str) -> None:
    await until(lambda: key not in writes, "the write")


async def test_what_the_store_takes_at_once_is_not_deferred() -> None:
    writes, store = DeferredWrites(), FullDisk()
    assert await writes.write_or_defer("a", store.make("a")) == "a is written"
    assert "a" not in writes and store.written == ["a"]


async def test_what_could_not_be_written_is_written_later_and_once_and_whoever_asked_is_told() -> None:
    writes, store, answers = DeferredWrites(), FullDisk(failures=3), list[str]()
    with pytest.raises(Unavailable):
        await writes.write_or_defer("a", store.make("a"), answers.append)
    assert "a" in writes and store.written == []
    await until_gone(writes, "a")
    assert (store.written, answers, store.tries) == (["a"], ["a is written"], 4)


async def test_a_first_try_that_is_under_way_is_waited_for_and_not_begun_again() -> None:
    """The store may still do it: a second one beside it would do it twice."""
    writes, store, answers = DeferredWrites(), FullDisk(), list[str]()
    store.let_go.clear()
    with pytest.raises(Unavailable, match="done and not written down yet"):
        await writes.write_or_defer("a", store.make("a"), answers.append)
    assert store.tries == 1
    store.let_go.set()
    await until_gone(writes, "a")
    assert (store.written, answers, store.tries) == (["a"], ["a is written"], 1)


async def test_a_first_try_that_fails_late_is_tried_again() -> None:
    writes, store, answers = DeferredWrites(), FullDisk(failures=1), list[str]()
    store.let_go.clear()
    with pytest.raises(Unavailable):
        await writes.write_or_defer("a", store.make("a"), answers.append)
    store.let_go.set()
    await until_gone(writes, "a")
    assert (store.written, answers) == (["a"], ["a is written"])


async def test_the_last_word_under_a_key_counts() -> None:
    writes, store = DeferredWrites(), FullDisk(failures=4)
    writes.put("session 1", store.make("stopped"))
    writes.put("session 1", store.make("ended"))
    writes.put("session 2", store.make("other"))
    await until_gone(writes, "session 1")
    await until_gone(writes, "session 2")
    assert sorted(store.written) == ["ended", "other"]


async def test_a_word_that_is_said_while_an_earlier_one_is_written_stays_until_it_is() -> None:
    writes, first, second = DeferredWrites(), FullDisk(), FullDisk()
    first.let_go.clear()
    second.let_go.clear()
    writes.put("a", first.make("first"))
    await until(lambda: first.tries)
    writes.put("a", second.make("second"))
    await until(lambda: second.tries)
    first.let_go.set()
    await until(lambda: first.written)
    await asyncio.gather(*[each for each in writes._tasks if each.done()])
    assert "a" in writes
    second.let_go.set()
    await until_gone(writes, "a")
    assert second.written == ["second"]


async def test_what_is_dropped_is_not_tried_again() -> None:
    writes, store = DeferredWrites(), FullDisk(failures=10**6)
    writes.put("a", store.make("a"))
    await until(lambda: store.tries)
    writes.drop("a")
    assert "a" not in writes
    writes.drop("never there")
    async with asyncio.timeout(PATIENCE_S):
        await asyncio.gather(*writes._tasks)
    assert store.written == []


async def test_an_error_that_is_no_absence_of_the_store_is_the_askers() -> None:
    async def write() -> None:
        raise Invalid("name", "is empty")

    writes = DeferredWrites()
    with pytest.raises(Invalid):
        await writes.write_or_defer("a", write)
    assert "a" not in writes


async def test_closed_it_writes_nothing_any_more() -> None:
    writes, store = DeferredWrites(), FullDisk(failures=10**6)
    writes.put("a", store.make("a"))
    tasks = [*writes._tasks]
    writes.close()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert all(each.cancelled() for each in tasks) and store.written == []
