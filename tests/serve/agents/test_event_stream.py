"""Streams of events: one reader at a time, bounds, and what a client that comes back is given."""

import asyncio

import pytest

from gatepost.serve.agents import event_stream
from gatepost.serve.agents.event_stream import MOST_EVENTS, MOST_KEPT, MOST_PENDING, EventStream, RecentEvents


def test_events_are_kept_within_bounds() -> None:
    events = RecentEvents()
    large = b"x" * (MOST_KEPT // 2 + 1)
    first = events.keep("a", large)
    last = [events.keep("a", large) for _ in range(3)][-1]
    assert events.find_after(first) == (None, [])
    assert [each[0] for each in events.kept] == [last]
    for _ in range(2 * MOST_EVENTS):
        events.keep("c", b"")
    assert (len(events.kept), events.size) == (MOST_EVENTS, 0)


def test_a_client_that_comes_back_gets_the_rest_of_its_own_stream() -> None:
    events = RecentEvents()
    first = events.keep("a", b"")
    events.keep("b", b"other")
    second = events.keep("a", b"{}")
    assert events.find_after(first) == ("a", [b"id: %b\r\nevent: message\r\ndata: {}\r\n\r\n" % second.encode()])
    assert events.find_after(second) == ("a", [])


async def test_a_reader_takes_what_was_put_and_then_the_end() -> None:
    stream = EventStream()
    stream.put(b"nobody reads this")
    reader = stream.attach([b"first "])
    stream.put(b"1")
    stream.put(b"2")
    assert await stream.read_next(reader) == b"first event: message\r\ndata: 1\r\n\r\nevent: message\r\ndata: 2\r\n\r\n"
    stream.end()
    assert await stream.read_next(reader) is None


async def test_a_second_reader_takes_the_place_of_the_first() -> None:
    stream = EventStream()
    first = stream.attach()
    waiting = asyncio.create_task(stream.read_next(first))
    await asyncio.sleep(0)
    second = stream.attach()
    assert await waiting is None
    stream.detach(first)
    stream.put(b"1")
    assert await stream.read_next(second) == b"event: message\r\ndata: 1\r\n\r\n"


async def test_progress_waits_for_a_reader_that_is_far_behind_and_for_no_other() -> None:
    stream = EventStream()
    await stream.wait_for_room()
    reader = stream.attach()
    for _ in range(MOST_PENDING + 1):
        stream.put(b"1")
    waiting = asyncio.create_task(stream.wait_for_room())
    await asyncio.sleep(0)
    assert not waiting.done()
    await stream.read_next(reader)
    await waiting


async def test_a_silent_stream_shows_that_it_lives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_stream, "PING_S", 0.0)
    stream = EventStream()
    assert await stream.read_next(stream.attach()) == event_stream.PING
