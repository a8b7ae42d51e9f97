"""Findings of trial starts of sandboxes. That a kind works is remembered for good; that it does not, for a while.

A trial can fail because the machine lacks something for a moment (descriptors, memory, time). That is Unavailable and
never a reason for a weaker sandbox: whoever asked waits and asks again.
"""

import threading
import time
from collections.abc import Callable, Hashable

from msgspec import Struct

from gatepost.core.error_classification import is_transient
from gatepost.core.errors import Unavailable

FIRST_S, LONGEST_S = 5.0, 60.0  # between two trials of a kind that did not work


class _ProbeResult(Struct, frozen=True):
    trouble: str | None
    passing: bool = False
    pause: float = 0.0
    again_at: float = 0.0

    def give(self, now: float) -> str | None:
        if self.passing and self.trouble is not None:
            raise Unavailable("the sandbox", self.trouble, retry_after=max(self.again_at - now, 0.0) + 0.1)
        return self.trouble


class Probes:
    """The answers by what was tried. One trial at a time: those who ask meanwhile get its answer."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._answers: dict[Hashable, _ProbeResult] = {}
        self._lock = threading.Lock()

    def ask(self, key: Hashable, find: Callable[[], str | None]) -> str | None:
        """Why it does not work, None if it does. Raises Unavailable if that cannot be told now."""
        with self._lock:
            known, now = self._answers.get(key), self._monotonic()
            if known is not None and (known.trouble is None or now < known.again_at):
                return known.give(now)
            pause = FIRST_S if known is None else min(known.pause * 2, LONGEST_S)
            try:
                trouble, passing = find(), False
            except (Unavailable, OSError, RuntimeError, MemoryError) as error:
                if not is_transient(error):
                    raise
                trouble, passing = error.why if isinstance(error, Unavailable) else str(error), True
            now = self._monotonic()
            answer = self._answers[key] = _ProbeResult(trouble, passing, pause, now + pause)
            return answer.give(now)
