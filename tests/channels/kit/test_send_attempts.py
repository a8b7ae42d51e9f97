"""Which sends began: known before they reach the platform, also by the next process."""

import pytest

from gatepost.channels.contract import MemoryCursor
from gatepost.channels.kit.send_attempts import DONE_KEPT, OPEN_KEPT, SendAttempts
from gatepost.core.clock import SECOND
from gatepost.core.errors import Refused
from gatepost_testing.clock import FixedClock


def make(cursor: MemoryCursor, clock: FixedClock) -> SendAttempts:
    return SendAttempts(cursor, clock)


async def test_a_send_that_began_is_known_to_the_next_process_with_its_first_moment() -> None:
    cursor, clock = MemoryCursor(), FixedClock()
    first, began = make(cursor, clock), clock.now()
    await first.begin("k", thread="t", note="F1")
    clock.advance(60)
    await first.begin("k", thread="t")

    found = await make(cursor, clock).find("k")
    assert found is not None and (found.at, found.thread, found.note) == (began, "t", "F1")
    assert await make(cursor, clock).find("other") is None


async def test_what_is_done_is_known_for_a_moment_and_what_did_not_happen_not_at_all() -> None:
    cursor, clock = MemoryCursor(), FixedClock()
    attempts = make(cursor, clock)
    await attempts.begin("done")
    attempts.end("done")
    await attempts.begin("refused")
    attempts.remove("refused")
    await attempts.begin("open")
    assert await make(cursor, clock).find("done") is not None
    assert await make(cursor, clock).find("refused") is None

    clock.advance(DONE_KEPT / SECOND + 1)
    await attempts.begin("next")
    later = make(cursor, clock)
    assert await later.find("done") is None and await later.find("open") is not None

    clock.advance(OPEN_KEPT / SECOND + 1)
    await attempts.begin("much later")
    assert await make(cursor, clock).find("open") is None


async def test_beyond_the_bound_those_that_ended_are_forgotten_first() -> None:
    cursor, clock = MemoryCursor(), FixedClock()
    attempts = SendAttempts(cursor, clock, most=3)
    for number in range(3):
        await attempts.begin(f"k{number}")
    attempts.end("k1")
    await attempts.begin("k3")
    assert await attempts.find("k1") is None and await attempts.find("k0") is not None


async def test_an_open_send_that_had_to_be_forgotten_is_not_certainly_unsent() -> None:
    """Otherwise the look-ups of e-mail, Discord and WhatsApp say that it never began, and it is said twice."""
    cursor, clock = MemoryCursor(), FixedClock()
    attempts = SendAttempts(cursor, clock, most=3)
    for number in range(4):
        await attempts.begin(f"k{number}")
    for each in (attempts, SendAttempts(cursor, clock, most=3)):
        with pytest.raises(Refused):
            await each.find("k0")
        assert await each.is_open("k0")
        assert await each.find("k1") is not None

    clock.advance(OPEN_KEPT / SECOND + 1)
    assert await attempts.find("k0") is None and not await attempts.is_open("k0")


async def test_a_send_that_another_gateway_began_meanwhile_is_known_to_the_one_that_gets_the_channel_back() -> None:
    cursor, clock = MemoryCursor(), FixedClock()
    back, other = make(cursor, clock), make(cursor, clock)
    await back.begin("own")
    back.end("own")
    await other.begin("of the other")

    cursor.term += 1
    assert await back.is_open("of the other")
    assert await back.find("of the other") is not None
    await back.begin("next")
    assert await make(cursor, clock).find("of the other") is not None


async def test_a_gateway_that_does_not_send_sees_what_another_began_and_keeps_nothing_of_it() -> None:
    cursor, clock = MemoryCursor(), FixedClock()
    sends, looks = make(cursor, clock), make(cursor, clock)
    assert not await looks.is_open("k")
    await sends.begin("k")
    assert await looks.is_open("k")
