"""The time that a unit of the writer has. SQL that takes longer is interrupted by SQLite's progress handler. Python
code that takes longer is interrupted by an exception that the watchdog's thread raises in the writer's. A read has a
time of its own: `within` of `Store.read`.

That exception can never hit anything but the unit. It is raised under a lock, and only while a unit is under way. A
unit that ends takes the same lock, and takes back an exception that has not arrived yet.
"""

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar, TypeVarTuple

from gatepost.core.settings import setting

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

UNIT_S = setting(
    "store.unit_s", 5.0, help="A write that takes longer is undone and fails; those that wait beside it go on."
)
NEVER = float("inf")


class DeadlineExceeded(BaseException):
    """Raised in the writer's thread. No `except Exception` of a unit catches it."""


class _TakenBack(BaseException):
    """Stands in for a `DeadlineExceeded` that did not arrive, or had arrived already."""


class Deadline:
    def __init__(self, seconds: float = UNIT_S.default, now: Callable[[], float] = time.monotonic) -> None:
        self.seconds, self._now = seconds, now
        self._until = NEVER
        self._lock = threading.Lock()
        self._thread: int | None = None  # that runs a unit now
        self._raised = False

    def is_over(self) -> bool:
        """Return True if the unit under way has had its time. For the progress handler."""
        return self._now() > self._until

    def run(self, fn: Callable[[*Ts], T], *args: *Ts) -> T:
        """Run one unit; raises `DeadlineExceeded` if it was ended for its time. That is raised once a unit at most, so
        whatever it hits in here is made good by the second `_leave`, which nothing can hit."""
        try:
            try:
                self._until = self._now() + self.seconds
                self._thread = threading.get_ident()
                return fn(*args)
            finally:
                self._leave()
        except DeadlineExceeded:
            self._lock = threading.Lock()  # we may have held the old one when it arrived
            self._leave()
            raise

    def _leave(self) -> None:
        with self._lock:
            self._thread, self._until = None, NEVER
            if self._raised:
                _clear_pending()
                self._raised = False

    def interrupt(self, *, now: bool = False) -> bool:
        """From another thread: end a unit that has had its time and does not come back to SQL; `now`: in any case. True
        if that was tried. Code of an extension that does not return to Python cannot be ended this way."""
        if not now and not self.is_over():
            return False
        with self._lock:
            if self._thread is None or self._raised or not (now or self.is_over()):
                return False
            self._until, self._raised = -NEVER, True
            _raise_in(self._thread, DeadlineExceeded)
            return True


def _raise_in(thread: int, error: type[BaseException]) -> None:
    """It takes the place of one that has not arrived yet."""
    import ctypes

    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(error))


def _clear_pending() -> None:
    """Replace what is pending by one that arrives here, at the next step.

    To set none would leave Python looking for it. From then on each call of each thread would take a little longer, and
    under a tracer none would ever return (CPython 3.11).
    """
    with suppress(_TakenBack):
        _raise_in(threading.get_ident(), _TakenBack)
        while True:
            pass
