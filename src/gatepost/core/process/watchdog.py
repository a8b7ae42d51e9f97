"""Steps that hold up everybody: a step of the event loop, or a unit of the store's writer, that takes over 50 ms.

A thread sends the loop a beat every now and then. While it is not answered, the thread looks at what the loop's thread
is doing, so nothing is paid where nothing is slow. The writer reports its own slow units. Slow steps are logged by
name, counted, and shown by `gatepost status`.

Time on the processor (`cpu`) tells what a step costs from what a busy machine makes of it: tests judge by it.
"""

import asyncio
import gc
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from msgspec import Struct

from gatepost.core import log
from gatepost.core.settings import setting

EVERY_S = setting(
    "watchdog.every_s", 0.25, help="How often to look whether a step of the gateway takes long; smaller finds more."
)
LIMIT_S = 0.05
LOOK_S = 0.01  # between two looks at a loop that does not answer
SAID_AGAIN_S = 60.0  # the same name is logged so often at most
MOST_NAMES = 200
LOOP, WRITER = PLACES = ("loop", "writer")

_log = log.get("watchdog")


class SlowStep(Struct, frozen=True):
    where: str  # one of PLACES
    name: str
    wall: float  # seconds
    cpu: float

    @property
    def label(self) -> str:
        return f"{self.where}: {self.name}" if self.name else ""


class SlowStepTotal(Struct, frozen=True):
    where: str
    count: int
    seconds: float


NO_STEP = SlowStep("", "", 0.0, 0.0)


class Watchdog:
    def __init__(self, *, limit: float = LIMIT_S, every: float = EVERY_S.default) -> None:
        self._limit, self._every = limit, every
        self._counts: dict[str, int] = {}
        self._lasted: dict[str, float] = {}
        self._said: dict[tuple[str, str], float] = {}
        self.worst = NO_STEP  # by the clock …
        self.busiest = NO_STEP  # … and by the processor
        self.steps: list[SlowStep] = []  # the first of them, for whoever judges
        self._stop = threading.Event()
        self._checks: list[Callable[[], None]] = []

    @property
    def count(self) -> int:
        return sum(self._counts.values())

    def list_totals(self) -> list[SlowStepTotal]:
        """Return how many steps were slow, by place."""
        return [SlowStepTotal(each, self._counts.get(each, 0), self._lasted.get(each, 0.0)) for each in PLACES]

    def on_tick(self, check: Callable[[], None]) -> None:
        """Called in the watchdog's thread with every beat."""
        self._checks.append(check)

    def report(self, where: str, name: str, wall: float, cpu: float) -> None:
        """A step that was slow; from any thread."""
        step = SlowStep(where, name, wall, cpu)
        self._counts[where] = self._counts.get(where, 0) + 1
        self._lasted[where] = self._lasted.get(where, 0.0) + wall
        if self.worst is NO_STEP or wall > self.worst.wall:
            self.worst = step
        if self.busiest is NO_STEP or cpu > self.busiest.cpu:
            self.busiest = step
        if len(self.steps) < MOST_NAMES:
            self.steps.append(step)
        now = time.monotonic()
        if now - self._said.get((where, name), -SAID_AGAIN_S) >= SAID_AGAIN_S:
            if len(self._said) >= MOST_NAMES:
                self._said.clear()
            self._said[where, name] = now
            _log.warning("a step took long", where=where, step=name, ms=round(wall * 1000), cpu_ms=round(cpu * 1000))

    def report_slow_unit(self, name: str, wall: float, cpu: float) -> None:
        self.report(WRITER, name, wall, cpu)

    @contextmanager
    def watching(self, loop: asyncio.AbstractEventLoop) -> Iterator["Watchdog"]:
        """Watch the loop, which runs in this thread, until the block is left."""
        thread = threading.Thread(target=self._watch, args=(loop, threading.get_ident()), name="watchdog", daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._stop.set()
            thread.join(10 * LOOK_S)

    def _watch(self, loop: asyncio.AbstractEventLoop, ident: int) -> None:
        cpu_of = _cpu_of(ident)
        while not self._stop.wait(self._every):
            for check in self._checks:
                check()
            beat = _Heartbeat()
            began, cpu = time.monotonic(), cpu_of()
            try:
                loop.call_soon_threadsafe(beat.answer)
            except RuntimeError:  # the loop is closed
                return
            name = self._sample(beat, ident)
            if (wall := time.monotonic() - began) > self._limit and not self._stop.is_set():
                self.report(LOOP, name, wall, (beat.cpu or cpu_of()) - cpu)

    def _sample(self, beat: "_Heartbeat", ident: int) -> str:
        """Wait for the answer; what the loop's thread was mostly seen to do meanwhile."""
        seen: Counter[str] = Counter()
        while not beat.answered.wait(LOOK_S) and not self._stop.is_set():
            for check in self._checks:
                check()
            if (frame := find_frame(ident)) is not None and _module(frame) not in _WAITING:
                seen[_name_of(frame)] += 1
        return seen.most_common(1)[0][0] if seen else "unknown"


def find_frame(ident: int) -> FrameType | None:
    """Return what a thread does now.

    The collector is off meanwhile. In Python before 3.11.9 a collection within this call may wait for a lock that the
    call holds. Then the whole process stands still for ever.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        return sys._current_frames().get(ident)
    finally:
        if was_on:
            gc.enable()


def _cpu_of(ident: int) -> Callable[[], float]:
    """A thread's time on the processor, asked from another one; where that cannot be asked, its time by the clock."""
    if sys.platform == "darwin":
        return time.monotonic
    clock = time.pthread_getcpuclockid(ident)
    return lambda: time.clock_gettime(clock)


class _Heartbeat:
    def __init__(self) -> None:
        self.answered = threading.Event()
        self.cpu = 0.0

    def answer(self) -> None:
        self.cpu = time.monotonic() if sys.platform == "darwin" else time.thread_time()
        self.answered.set()


def _name_of(frame: FrameType) -> str:
    """Return what a step is and where it stands: its outermost function of ours, and the innermost of all."""
    while frame.f_back is not None and _module(frame).startswith("importlib."):  # what is imported says more
        frame = frame.f_back
    inner, outer, at = frame, frame, frame.f_back
    while at is not None and at.f_code.co_name not in _LOOPS and _module(at) not in _WAITING:
        if _module(at).startswith("gatepost.") and _module(at) not in _AROUND:
            outer = at
        at = at.f_back
    return _place(outer) if outer is inner else f"{_place(outer)} at {_place(inner)}"


_LOOPS = ("run_forever", "_run_once", "run_until_complete")
_WAITING = ("selectors", "asyncio.runners")  # there a loop waits for events; one written in C has no frame of its own
_AROUND = ("gatepost.app", "gatepost.daemon")  # every step is theirs


def _module(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", ""))


def _place(frame: FrameType) -> str:
    return f"{_module(frame)}.{frame.f_code.co_qualname}"
