"""Duties: what one gateway at a time does for all of them, such as to listen and send on a channel, or to fire tasks.

A gateway by itself has them all. Of several, each takes what is nobody's, and keeps it until it stops or dies.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

SCHEDULE, REQUESTS, NEWCOMERS, ERRANDS, RETENTION = "schedule", "requests", "newcomers", "errands", "retention"
PLACES, FILES = "places", "files"
LOOPS = (SCHEDULE, REQUESTS, NEWCOMERS, ERRANDS, RETENTION, PLACES, FILES)


def channel_duty(instance: str) -> str:
    return f"channel/{instance}"


class Duties:
    def __init__(self, *, shared: bool = False) -> None:
        """`shared`: there may be other gateways, so nothing is this one's before `set_held` says so."""
        self._held: frozenset[str] | None = frozenset() if shared else None
        self._terms: Counter[str] = Counter()
        self._changed = asyncio.Event()
        self._followers: list[Callable[[], None]] = []

    def holds(self, name: str) -> bool:
        return self._held is None or name in self._held

    def sends_to(self, instance: str) -> bool:
        """Whether this gateway sends on a channel."""
        return self._held is None or channel_duty(instance) in self._held

    def get_term(self, name: str) -> int:
        """How often this gateway has got a duty or lost it: in another term, others may do or have done it."""
        return self._terms[name]

    def on_change(self, follow: Callable[[], None]) -> None:
        self._followers.append(follow)

    def set_held(self, names: Iterable[str]) -> None:
        held = frozenset(names)
        if held == self._held:
            return
        self._terms.update(held ^ (self._held or frozenset()))
        self._held = held
        self._changed.set()
        self._changed = asyncio.Event()
        for follow in self._followers:
            follow()

    async def run_while_held(self, name: str, run: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Until cancelled: run it whenever this gateway has the duty."""
        if self._held is None:
            await run()
            return
        while True:
            while not self.holds(name):
                await self._changed.wait()
            task = asyncio.create_task(run())
            try:
                while self.holds(name) and not task.done():
                    waiting = asyncio.create_task(self._changed.wait())
                    await asyncio.wait({task, waiting}, return_when=asyncio.FIRST_COMPLETED)
                    waiting.cancel()
                if task.done():
                    task.result()  # a loop that broke ends the gateway, as it does without others
                    return
            finally:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
