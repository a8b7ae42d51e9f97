"""The keeper on real processes: it stops them in time, lets them go on, and kills them when nobody speaks to it."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from gatepost.core.process import keeper_process
from gatepost.core.process.keeper_process import KeptSandbox, KeptSandboxes, read_clock, read_start_time
from gatepost_testing.waiting import PATIENCE_S, block_until

TREE = "import subprocess, sys; subprocess.Popen(['sleep', '600']); print('up', flush=True); sys.stdin.read()"


@contextmanager
def started_tree() -> Iterator[tuple[int, int]]:
    """A process and its child."""
    with subprocess.Popen([sys.executable, "-c", TREE], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        child = int(children[0])
        try:
            yield process.pid, child
        finally:
            for pid in (child, process.pid):
                if pid == process.pid or read_start_time(pid):
                    os.kill(pid, signal.SIGKILL)


def read_state(pid: int) -> str:
    """As /proc tells it; '' if it is gone, or waits for its parent only."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][:1]
    except OSError:
        return ""
    return "" if state == "Z" else state


def are_stopped(pids: Sequence[int]) -> bool:
    return all(read_state(pid) == "T" for pid in pids)


def are_running(pids: Sequence[int]) -> bool:
    return all(read_state(pid) in ("R", "S", "D") for pid in pids)


def add(name: str, pid: int, epoch: int = 1, started: str | None = None) -> dict[str, Any]:
    return {"add": name, "pid": pid, "started": started or read_start_time(pid), "freezer": "", "epoch": epoch}


def test_a_tree_is_stopped_when_the_time_is_over_and_goes_on_with_a_new_one() -> None:
    kept = KeptSandboxes()
    with started_tree() as pids:
        kept.apply_switches({"until": 10.0, "epoch": 1}, 5.0)
        kept.apply_switches(add("one", pids[0]), 5.0)
        kept.check_time(9.9)
        assert are_running(pids)

        kept.check_time(10.0)
        block_until(lambda: are_stopped(pids), "both to be stopped")

        kept.apply_switches({"until": 10.0, "epoch": 1}, 11.0)  # a word that comes too late lets nobody go on
        assert are_stopped(pids)
        kept.apply_switches({"until": 15.0, "epoch": 1}, 11.0)
        block_until(lambda: are_running(pids), "both to go on")


def test_one_that_is_told_of_while_the_time_is_over_is_stopped() -> None:
    kept = KeptSandboxes()
    with started_tree() as pids:
        kept.apply_switches({"until": 10.0, "epoch": 1}, 5.0)
        kept.check_time(10.0)
        kept.apply_switches(add("late", pids[0]), 11.0)
        block_until(lambda: are_stopped(pids), "both to be stopped")


def test_the_time_of_another_life_kills_what_is_left_of_the_last() -> None:
    kept = KeptSandboxes()
    with started_tree() as old, started_tree() as new:
        kept.apply_switches({"until": 10.0, "epoch": 1}, 5.0)
        kept.apply_switches(add("old", old[0]), 5.0)
        kept.apply_switches(add("new", new[0], epoch=2), 5.0)
        kept.check_time(10.0)
        kept.apply_switches({"until": 20.0, "epoch": 2}, 11.0)
        block_until(lambda: not any(map(read_state, old)), "the old ones to end")
        block_until(lambda: are_running(new), "the new ones to go on")
        assert list(kept.all) == ["new"]


def test_a_number_that_was_given_anew_is_not_touched() -> None:
    with started_tree() as pids:
        other = KeptSandbox(pids[0], started="1")
        other.freeze()
        other.kill()
        assert are_running(pids)


@contextmanager
def started_keeper() -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-I", "-S", keeper_process.__file__]
    with subprocess.Popen(command, stdin=subprocess.PIPE, bufsize=0) as keeper:
        yield keeper


def tell(keeper: subprocess.Popen[bytes], *lines: dict[str, Any]) -> None:
    assert keeper.stdin is not None
    keeper.stdin.write(b"".join(json.dumps(line).encode() + b"\n" for line in lines))


def test_the_process_stops_what_it_keeps_in_time_and_kills_it_when_its_input_ends() -> None:
    with ExitStack() as stack:
        pids = stack.enter_context(started_tree())
        keeper = stack.enter_context(started_keeper())
        tell(keeper, {"until": read_clock() + 0.3, "epoch": 1}, add("one", pids[0]))
        block_until(lambda: are_stopped(pids), "both to be stopped")
        tell(keeper, {"until": read_clock() + 600, "epoch": 1})
        block_until(lambda: are_running(pids), "both to go on")
        keeper.send_signal(signal.SIGTERM)  # what stops a service is no reason to let go
        assert keeper.stdin is not None
        keeper.stdin.close()
        assert keeper.wait(PATIENCE_S) == 0
        block_until(lambda: not any(map(read_state, pids)), "both to end")
