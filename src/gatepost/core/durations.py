"""How long things take, counted by size, in memory: `/metrics` shows it.

Whoever knows that something took so long notes it, which is one append. It is counted behind that, by another thread.
"""

import threading
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

from msgspec import Struct

from gatepost.core.clock import SECOND

BOUNDS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0)
_BOUNDS = tuple(int(each * SECOND) for each in BOUNDS_S)


MOST_ANSWERED = 10_000  # turns that wait for whoever looks when their messages came


class TimedStep(StrEnum):
    ANSWER = "answer"  # from a message's arrival to the first answer of its turn
    QUEUE = "queue"
    DELIVERY = "delivery"
    MODEL_CALL = "model_call"
    TOOL_CALL = "tool_call"


class CountedDurations(Struct, frozen=True):
    """`counts`: how many are within each of `BOUNDS_S` and above the one before; the last is of those above all."""

    label: str
    counts: tuple[int, ...]
    total_s: float


NONE_COUNTED = CountedDurations("", (0,) * (len(BOUNDS_S) + 1), 0.0)


class AnsweredTurn(NamedTuple):
    label: str
    turn_id: str
    at: int


class Durations:
    """`note` takes a step, a label and microseconds, from any thread. A label is of a closed set, or a name that the
    operator gave. `answered`: turns whose first answer was sent; when their messages came is in the store, and is
    looked up when somebody asks for the numbers. The oldest are forgotten if nobody does."""

    def __init__(self) -> None:
        self.answered: deque[AnsweredTurn] = deque(maxlen=MOST_ANSWERED)
        self._noted: deque[tuple[TimedStep, str, int]] = deque()
        self.note: Callable[[tuple[TimedStep, str, int]], None] = self._noted.append
        self._counting = threading.Lock()
        self._found: dict[tuple[TimedStep, str], list[int]] = {}  # the counts, and behind them the sum

    def count_noted(self) -> None:
        """Count what was noted. From time to time, whether or not anybody looks: it is kept until then."""
        with self._counting:
            while self._noted:
                step, label, microseconds = self._noted.popleft()
                found = self._found.setdefault((step, label), [0] * (len(_BOUNDS) + 2))
                lasted = max(microseconds, 0)  # moments of two clocks may be in disorder
                found[bisect_left(_BOUNDS, lasted)] += 1
                found[-1] += lasted

    def record_arrivals(self, turns: Sequence[AnsweredTurn], arrivals: Mapping[str, int]) -> None:
        """Note the answers of turns, of which it was looked up when their messages came. Those are answered no more."""
        for each in turns:
            if each.turn_id in arrivals:
                self.note((TimedStep.ANSWER, each.label, each.at - arrivals[each.turn_id]))
        known = {*turns}
        while self.answered and self.answered[0] in known:
            self.answered.popleft()

    def list_counted(self, step: TimedStep) -> Iterator[CountedDurations]:
        """Yield what was counted of a step, by label."""
        self.count_noted()
        for (known, label), found in list(self._found.items()):
            if known is step:
                yield CountedDurations(label, tuple(found[:-1]), found[-1] / SECOND)
