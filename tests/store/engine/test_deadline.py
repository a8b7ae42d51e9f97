"""A unit's time: what ends it hits that unit and nothing else."""

import subprocess
import sys
import threading

from gatepost.store.engine.deadline import Deadline, DeadlineExceeded
from gatepost_testing.waiting import PATIENCE_S

TRACED = """
import sys
from gatepost.store.engine.deadline import Deadline, DeadlineExceeded

deadline = Deadline(5)

def unit():
    deadline.interrupt(now=True)
    while True:
        pass

try:
    deadline.run(unit)
except DeadlineExceeded:
    print("ended", end=", ")
sys.settrace(lambda *_: None)
(lambda: None)()
sys.settrace(None)
print("traced")
"""


def count(to: int) -> None:
    for _ in range(to):
        pass


class Clock:
    def __init__(self) -> None:
        self.at = 0.0

    def __call__(self) -> float:
        return self.at


def test_nothing_is_over_outside_a_unit_or_before_its_time() -> None:
    clock = Clock()
    deadline = Deadline(5, clock)

    def unit() -> None:
        clock.at = 5
        assert not deadline.is_over()
        assert not deadline.interrupt()
        clock.at = 6
        assert deadline.is_over()

    deadline.run(unit)
    assert not deadline.is_over()
    assert not deadline.interrupt()


def test_stranger_01_an_interruption_never_arrives_outside_of_its_unit() -> None:
    """Units of no length and one who interrupts all the time: every moment between two of them is tried."""
    deadline, outside, inside = Deadline(-1), list[int](), list[int]()

    def work() -> None:
        number = 0
        try:
            while number < 20_000 or not inside:
                try:
                    deadline.run(count, number % 7)
                except DeadlineExceeded:
                    inside.append(number)
                number += 1
        except DeadlineExceeded:
            outside.append(number)

    thread, tried, often = threading.Thread(target=work), 0, sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        thread.start()
        while thread.is_alive():
            tried += deadline.interrupt()
    finally:
        sys.setswitchinterval(often)
    thread.join()

    assert outside == []
    assert tried >= len(inside) > 0


def test_after_an_interruption_a_tracer_still_works() -> None:
    """Where an exception for another thread is left pending, Python 3.11 never enters a traced function."""
    done = subprocess.run(
        [sys.executable, "-c", TRACED], capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert done.stdout == "ended, traced\n", done.stderr
