"""What each adapter costs once it is switched on: the time to import it, and the memory that it brings along. Measured
in a process that already has the core's contract, so that only the adapter's own share counts."""

import json
import statistics
import subprocess
import sys

from gatepost.channels.contract import CHANNELS
from gatepost.core import registry
from measure import Figure, at_most

PROBE = """
import importlib, json, os, sys, time
import asyncio, ssl, gatepost.channels.contract
importlib.import_module(sys.argv[1].rpartition(".")[0])
def get_memory():  # of now: the highest ever is that of the process which started this one, if it was larger
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20
before = get_memory()
start = time.process_time()
importlib.import_module(sys.argv[1])
taken = time.process_time() - start
print(json.dumps([taken * 1000, get_memory() - before]))
"""
TIMES = 3
MOST_MS, MOST_MB = 600.0, 40.0


def figures(python: float) -> list[Figure]:
    registry.load_package("gatepost.channels")
    found = []
    for name, kind in CHANNELS.items():
        module = CHANNELS.origin(name)
        if kind.always or not module.endswith(".adapter"):
            continue
        ms, mb = _probe(module)
        found.append(at_most(f"{name}_import_ms", ms, "ms", python, MOST_MS))
        found.append(at_most(f"{name}_import_mb", mb, "MB", 1.0, MOST_MB))
    return found


def _probe(module: str) -> tuple[float, float]:
    runs = []
    for _ in range(TIMES):
        done = subprocess.run([sys.executable, "-c", PROBE, module], capture_output=True, text=True, check=True)
        runs.append(json.loads(done.stdout))
    return statistics.median(run[0] for run in runs), max(run[1] for run in runs)
