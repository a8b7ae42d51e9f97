"""Waits between tries to reach a platform."""

import asyncio

import pytest

from gatepost.channels.contract import PULSE, ChannelPulse
from gatepost.channels.kit.backoff import LONGEST_LIMIT_S, Backoff, stay_connected
from gatepost.core.errors import Unavailable
from gatepost_testing.clock import FixedClock
from gatepost_testing.waiting import PATIENCE_S


async def test_a_wait_to_reach_the_platform_ends_once_it_takes_a_message() -> None:
    pulse = ChannelPulse(FixedClock())
    PULSE.set(pulse)
    waiting = asyncio.create_task(Backoff(0.001, 10 * PATIENCE_S).wait())
    slow = Backoff(0.001, 10 * PATIENCE_S)
    slow._next = 10 * PATIENCE_S  # as after an outage
    long_wait = asyncio.create_task(slow.wait())
    await waiting  # it began first, and is over: the other one waits
    assert not long_wait.done()

    pulse.reach()
    async with asyncio.timeout(PATIENCE_S):
        await long_wait


async def test_what_a_platform_asks_us_to_wait_is_waited_whole() -> None:
    pulse = ChannelPulse(FixedClock())
    PULSE.set(pulse)
    asked = asyncio.create_task(Backoff(0.001).wait(at_least=10 * PATIENCE_S))
    others = asyncio.create_task(Backoff(0.001, connects=False).wait())
    await others
    pulse.reach()
    await asyncio.sleep(0)
    assert not asked.done()
    asked.cancel()


async def test_a_platform_that_asks_for_years_is_asked_again_within_an_hour() -> None:
    class NotingPulse(ChannelPulse):
        async def wait_until_reached(self, at_least: float, at_most: float) -> None:
            assert (at_least, at_most) == (LONGEST_LIMIT_S, LONGEST_LIMIT_S)

    PULSE.set(NotingPulse(FixedClock()))
    await asyncio.wait_for(Backoff(0.001).wait(at_least=8000 * 365 * 24 * 3600.0), PATIENCE_S)


async def test_a_platform_that_is_away_is_tried_again_and_the_wait_begins_anew_once_it_was_reached() -> None:
    class NotingPulse(ChannelPulse):
        async def wait_until_reached(self, at_least: float, at_most: float) -> None:
            waits.append(at_most)

    async def connect(backoff: Backoff) -> None:
        tries.append(len(tries))
        if len(tries) == 4:
            backoff.reset()  # reached, and then lost
        if len(tries) > 6:
            raise ValueError("no platform's word")
        if len(tries) != 6:  # that one ended as it should, and is made again at once
            raise Unavailable("it", f"try {len(tries)}", retry_after=99.0 if len(tries) == 5 else None)

    waits: list[float] = []
    tries: list[int] = []
    reported: list[str] = []
    pulse = NotingPulse(FixedClock())
    PULSE.set(pulse)
    with pytest.raises(ValueError, match="no platform's word"):
        await stay_connected(connect, lambda error: reported.append(error))

    assert waits[0] < waits[1] < waits[2] > waits[3] and waits[0] <= 0.5 and waits[3] <= 0.5 and waits[4] == 99.0
    assert pulse.misses == len(reported) == 5 and "try 1" in reported[0]
