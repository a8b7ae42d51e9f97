"""Waits between tries to reach a platform."""

import asyncio

from gatepost.channels.contract import PULSE, ChannelPulse
from gatepost.channels.kit.backoff import LONGEST_LIMIT_S, Backoff
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
