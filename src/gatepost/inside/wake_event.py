"""The runner's own bell: rung by the host, or by ourselves. Waiting has a poll behind it, so a lost ring costs time and
no message."""

import asyncio

POLL = 2.0  # seconds


class WakeEvent:
    def __init__(self) -> None:
        self._woken = asyncio.Event()

    def ring(self) -> None:
        self._woken.set()

    async def wait(self, seconds: float = POLL) -> bool:
        """Return True if it was rung, rather than that we looked by ourselves."""
        try:
            async with asyncio.timeout(seconds):
                await self._woken.wait()
        except TimeoutError:
            return False
        self._woken.clear()
        return True
