"""How soon a gateway is there: ready in a home that has its store, and told that another one already runs."""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from gatepost.core.home import Home
from gatepost.core.process.home_lock import find_holder
from gatepost_testing.daemon import READY, DaemonProcess
from measure import Figure, at_most


def figures(python: float) -> list[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "h"
        daemon = DaemonProcess(home, sandbox_kind="process")
        daemon.start()  # the first one makes the store and compiles the modules
        daemon.stop()
        ready = statistics.median([_ready_ms(home) for _ in range(5)])
        daemon = DaemonProcess(home, sandbox_kind="process")
        daemon.start()
        try:
            second = statistics.median([_second_ms(home) for _ in range(9)])
        finally:
            daemon.stop()
    return [
        at_most("ready_ms", ready, "ms", python, 600),
        at_most("already_running_ms", second, "ms", python, 150),
    ]


def _command(home: Path) -> tuple[list[str], dict[str, str]]:
    env = {
        **os.environ,
        "GATEPOST_HOME": str(home),
        "GATEPOST_LISTEN": "127.0.0.1:0",
        "GATEPOST_SANDBOX_KIND": "process",
    }
    env.pop("PYTHONDONTWRITEBYTECODE", None)  # compiled modules are what a user has from the second start on
    return [sys.executable, "-m", "gatepost", "up"], env


def _ready_ms(home: Path) -> float:
    """Until it says on its output that it is ready."""
    command, env = _command(home)
    start = time.perf_counter()
    child = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert child.stdout is not None
    for line in child.stdout:
        if line.startswith(READY):
            break
    taken = (time.perf_counter() - start) * 1000
    child.terminate()
    child.communicate(timeout=30)
    assert find_holder(Home(home)) is None
    return taken


def _second_ms(home: Path) -> float:
    command, env = _command(home)
    start = time.perf_counter()
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    assert done.returncode != 0, done.stdout
    return (time.perf_counter() - start) * 1000
