"""The bare limits, measured in the same run: what the machine does without us. Figures are held against these."""

import asyncio
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import apsw

from measure import client

ECHO = """
import asyncio, sys, uvloop
class Echo(asyncio.Protocol):
    def connection_made(self, transport): self.transport = transport
    def data_received(self, data): self.transport.write(data)
async def main():
    server = await asyncio.get_running_loop().create_unix_server(Echo, sys.argv[1])
    print("ready", flush=True)
    await server.serve_forever()
uvloop.run(main())
"""


async def raw_echo_us(calls: int, way: str = "socket") -> float:
    """A line of 100 bytes over a Unix socket to another process and back; `way` as the client knows it."""
    folder = tempfile.mkdtemp()
    path = f"{folder}/e"
    child = await asyncio.create_subprocess_exec(sys.executable, "-c", ECHO, path, stdout=asyncio.subprocess.PIPE)
    try:
        assert child.stdout is not None
        await child.stdout.readline()
        answer = await client([way, path], [], "x" * 100, calls)
        return answer["median_us"]
    finally:
        child.terminate()
        await child.wait()
        shutil.rmtree(folder)


def _database() -> tuple[apsw.Connection, str]:
    folder = tempfile.mkdtemp()
    db = apsw.Connection(f"{folder}/bare.db")
    db.execute("PRAGMA journal_mode=WAL")
    db.execute("PRAGMA synchronous=FULL")
    db.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, body TEXT)")
    return db, folder


def commit_us(times: int = 500) -> float:
    """One durable one-row commit."""
    db, folder = _database()
    taken = []
    for number in range(times):
        start = time.perf_counter_ns()
        db.execute("INSERT INTO t (body) VALUES (?)", (f"row {number}",))
        taken.append(time.perf_counter_ns() - start)
    db.close()
    shutil.rmtree(folder)
    return statistics.median(taken) / 1000


def rows_per_s(groups: int = 100, size: int = 64) -> float:
    """Durable rows, committed in groups."""
    db, folder = _database()
    start = time.perf_counter()
    for _ in range(groups):
        with db:
            for number in range(size):
                db.execute("INSERT INTO t (body) VALUES (?)", (f"row {number}",))
    taken = time.perf_counter() - start
    db.close()
    shutil.rmtree(folder)
    return groups * size / taken


def group_turns_per_s(size: int) -> float:
    """Turns a second if each were one row in each of three durable commits, shared by `size` sessions."""
    return rows_per_s(60, size) / 3


def command_ms(command: list[str], times: int = 15) -> float:
    taken = []
    for _ in range(times):
        start = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        taken.append((time.perf_counter() - start) * 1000)
    return statistics.median(taken)


def bwrap_ms() -> float | None:
    if shutil.which("bwrap") is None:
        return None
    return command_ms(["bwrap", "--unshare-all", "--ro-bind", "/", "/", "--proc", "/proc", "/bin/true"])


def python_ms() -> float:
    return command_ms([sys.executable, "-I", "-S", "-c", "pass"])


def loaded_python_ms() -> float:
    """An interpreter with what a runner cannot do without."""
    return command_ms([sys.executable, "-c", "import asyncio, apsw, msgspec"])


def rss_mb(pid: int) -> float:
    """Memory of one process that is its own, in MB (its share of what it shares included)."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Rss:"):
            return int(line.split()[1]) / 1024
    return 0.0


def tree_rss_mb(pid: int) -> float:
    """Of a process and all below it, shared pages counted once each (Pss)."""
    total = 0.0
    waiting = [pid]
    while waiting:
        each = waiting.pop()
        try:
            for line in Path(f"/proc/{each}/smaps_rollup").read_text().splitlines():
                if line.startswith("Pss:"):
                    total += int(line.split()[1]) / 1024
            waiting += [int(child) for child in Path(f"/proc/{each}/task/{each}/children").read_text().split()]
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue
    return total


def python_rss_mb() -> float:
    """An interpreter with asyncio, apsw and msgspec, doing nothing."""
    code = "import asyncio, apsw, msgspec, sys; print('ready', flush=True); sys.stdin.read()"
    child = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdout is not None and child.stdin is not None
    child.stdout.readline()
    measured = rss_mb(child.pid)
    child.stdin.close()
    child.wait()
    return measured


async def settle() -> None:
    """Let what was started come to rest."""
    await asyncio.sleep(0.2)
    os.sync()


def calls_per_s(count: int = 500_000) -> float:
    """A plain function that looks into a table."""
    table = {"send": True}

    def look(name: str) -> bool:
        return table[name]

    start = time.perf_counter()
    for _ in range(count):
        look("send")
    return count / (time.perf_counter() - start)
