"""A fault that holds ends with the daemon, however soon that is killed."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from gatepost_testing.waiting import PATIENCE_S, block_until

# The parent ends as soon as the mark is there, as a daemon does that a test kills; the child is held at its fault.
HELD = """
import os, sys, time
from pathlib import Path
from gatepost_testing.storms import faults

mark, parent, pid = Path(sys.argv[1]), os.getpid(), os.fork()
if pid:
    while not mark.exists():
        pass
    print(pid, flush=True)
    os._exit(0)
os.close(1)  # whoever reads it waits for its last holder
opened = os.open

def open_slowly(*words):
    handle = opened(*words)
    while os.getppid() == parent:  # a busy machine: the parent is gone before this goes on
        time.sleep(0.001)
    return handle

os.open = open_slowly
faults._trigger(faults.FaultPoint("", act="hold", mark=str(mark)))
"""


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def test_who_is_held_ends_with_a_parent_that_ended_right_after_the_mark(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HELD, str(tmp_path / "mark")]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, timeout=PATIENCE_S)
    pid = int(done.stdout)
    try:
        block_until(lambda: not is_running(pid), "its end")
    finally:
        if is_running(pid):
            os.kill(pid, signal.SIGKILL)
