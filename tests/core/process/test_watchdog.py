"""The watchdog: names what holds the loop, by its time on the processor, and costs nothing where nothing is slow."""

import asyncio
import gc
import subprocess
import sys
import threading
import time

from gatepost.core.process.watchdog import NO_STEP, Watchdog, _name_of, find_frame
from gatepost_testing.waiting import PATIENCE_S


def compute(seconds: float) -> None:
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


async def seen_by(watchdog: Watchdog) -> None:
    """Until it has looked once more: its beat was answered."""
    ticked = asyncio.Event()
    loop = asyncio.get_running_loop()
    watchdog.on_tick(lambda: loop.call_soon_threadsafe(ticked.set))
    await ticked.wait()


async def test_a_step_that_holds_the_loop_is_named_and_measured_on_the_processor() -> None:
    watchdog = Watchdog(every=0)
    with watchdog.watching(asyncio.get_running_loop()):
        for _ in range(20):  # on a busy machine its thread may have no look at a step in time
            await seen_by(watchdog)
            compute(0.3)
            await seen_by(watchdog)
            if held := [step for step in watchdog.steps if step.name.endswith(".compute")]:
                break

    assert held and held[0].where == "loop" and held[0].cpu > 0.05
    assert watchdog.worst is not NO_STEP and watchdog.count >= len(held)


def test_a_step_that_imports_is_named_by_what_it_imports() -> None:
    below = {"__name__": "importlib._bootstrap", "sys": sys}
    exec("def load(): return sys._getframe()", below)
    assert _name_of(below["load"]()).endswith("test_a_step_that_imports_is_named_by_what_it_imports")


def test_a_step_of_a_loop_without_frames_is_not_named_by_what_started_the_loop() -> None:
    """A loop that is written in C leaves nothing between the step and the runner."""
    step, runner, main = {"__name__": "gatepost.step"}, {"__name__": "asyncio.runners"}, {"__name__": "gatepost.cli"}
    exec("import sys\ndef inner(): return sys._getframe()\ndef outer(): return inner()", step)
    exec("def run(fn): return fn()", runner)
    exec("def start(run, fn): return run(fn)", main)
    assert _name_of(main["start"](runner["run"], step["outer"])) == "gatepost.step.outer at gatepost.step.inner"


async def test_a_loop_that_waits_is_not_blamed() -> None:
    watchdog = Watchdog(every=0)
    with watchdog.watching(asyncio.get_running_loop()):
        for _ in range(20):
            await seen_by(watchdog)
    assert [step for step in watchdog.steps if step.cpu > 0.05] == []


def test_what_is_slow_again_and_again_is_counted_and_kept_once_in_a_while() -> None:
    watchdog = Watchdog()
    for number in range(1000):
        watchdog.report_slow_unit("accept", 0.1 + number / 1000, 0.01)
    assert watchdog.count == 1000 and len(watchdog.steps) <= 200
    watchdog.report_slow_unit("compute", 0.2, 0.2)
    assert watchdog.count == 1001
    assert (watchdog.worst.label, round(watchdog.worst.wall * 1000)) == ("writer: accept", 1099)
    assert (watchdog.busiest.label, round(watchdog.busiest.cpu * 1000)) == ("writer: compute", 200)


# Garbage whose end needs the lock that guards the list of threads, and a collection that comes while the frames of all
# threads are gathered: at a first, second, third … object that this makes.
COLLECTED_WITHIN = """
import gc, threading
from gatepost.core.process.watchdog import find_frame

class Garbage:
    def __init__(self):
        self.itself, self.local = self, threading.local()
        self.local.value = 1

def wait(depth):
    return wait(depth - 1) if depth else ended.wait()

ended = threading.Event()
for _ in range(8):
    threading.Thread(target=wait, args=(5,), daemon=True).start()
for number in range(60):
    gc.collect()
    gc.disable()
    Garbage()
    gc.set_threshold(gc.get_count()[0] + number % 12)
    gc.enable()
    assert find_frame(threading.get_ident()) is not None
    assert gc.isenabled()
ended.set()
"""


def test_a_collection_while_it_looks_does_not_stop_the_process_for_ever() -> None:
    subprocess.run([sys.executable, "-c", COLLECTED_WITHIN], check=True, timeout=PATIENCE_S)


def test_a_collector_that_is_off_stays_off() -> None:
    gc.disable()
    try:
        assert find_frame(threading.get_ident()) is not None
        assert not gc.isenabled()
    finally:
        gc.enable()
