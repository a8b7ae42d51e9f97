"""For tests that attack the gateway: whatever one does, nobody else may be held up by it.

async with assert_no_slow_steps(gateway):
    await attack()

A step of the loop, or a unit of the store's writer, that takes over 50 ms of the processor fails the block. Time by the
clock is not judged: on a busy machine it tells nothing. Objects that were there before are left out of garbage
collection meanwhile: going through those of a thousand earlier tests takes longer than any step may.
"""

import asyncio
import gc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from gatepost.app import Gateway
from gatepost.core.process.watchdog import LIMIT_S, SlowStep, Watchdog

BEAT_S = 0.005


@asynccontextmanager
async def assert_no_slow_steps(gateway: Gateway, limit: float = LIMIT_S) -> AsyncIterator[Watchdog]:
    """Watches much closer than a gateway in use does."""
    watchdog, known = Watchdog(limit=limit, every=BEAT_S), len(gateway.watchdog.steps)
    gc.freeze()
    try:
        with watchdog.watching(asyncio.get_running_loop()):
            yield watchdog
    finally:
        gc.unfreeze()
    held = list_slow_steps(watchdog.steps + gateway.watchdog.steps[known:], limit)
    assert not held, "everybody was held up: " + "; ".join(held)


def list_slow_steps(steps: list[SlowStep], limit: float = LIMIT_S) -> list[str]:
    """The steps that took more than the limit of the processor, as sentences."""
    return [f"{each.where} {each.name} took {each.cpu * 1000:.0f} ms" for each in steps if each.cpu > limit]
