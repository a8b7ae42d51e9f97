"""The keeper: a small process beside a gateway that shares its store with others. It holds the gateway's sandboxes when
the gateway itself cannot, because it is stopped or gone.

The gateway tells it on standard input, a line of JSON each, which sandboxes there are and until when they may run. When
that time is over and nothing further was heard, the keeper freezes them. A later time of the same life lets them go on;
one of another life kills what is left of the last. When the input ends, so has the gateway, and they are killed.

It is run by its path, with the standard library alone: it starts in milliseconds, and nothing else can stop it.
"""

import json
import os
import select
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

LONGEST_WAIT_S = 1.0  # a wait does not count the time in which the machine sleeps
MOST_ROUNDS = 20  # a tree is stopped parent by parent, so it is never reached
LONGEST_LINE = 65536
PROC = Path("/proc")


def read_clock() -> float:
    """Seconds since the machine started, with those in which it slept."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


def read_start_time(pid: int, proc: Path = PROC) -> str:
    """When a process began, in the kernel's ticks: with it a number means one process. '': it is gone."""
    try:
        return (proc / str(pid) / "stat").read_text(errors="replace").rpartition(") ")[2].split()[19]
    except (OSError, IndexError):
        return ""


class KeptSandbox:
    """One sandbox. `freezer`: the file of its cgroup that freezes it; '': it is stopped by signals."""

    def __init__(self, pid: int, started: str, freezer: str = "", epoch: int = 0) -> None:
        self.pid, self.started, self.freezer, self.epoch = pid, started, freezer, epoch

    def freeze(self) -> None:
        if not self._write_freezer("1", "FROZEN"):
            self._signal_tree(signal.SIGSTOP)

    def thaw(self) -> None:
        self._write_freezer("0", "THAWED")
        self._signal_tree(signal.SIGCONT)

    def kill(self) -> None:
        """Frozen first, so that nothing forks faster than it is killed."""
        self.freeze()
        for pid in self._list_members():
            _signal(pid, signal.SIGKILL)
        self._signal_tree(signal.SIGKILL)
        self._write_freezer("0", "THAWED")  # by now there is nothing that could go on but to its end

    def _write_freezer(self, of_v2: str, of_v1: str) -> bool:
        if not self.freezer:
            return False
        try:
            fd = os.open(self.freezer, os.O_WRONLY)
            try:
                os.write(fd, (of_v2 if self.freezer.endswith("cgroup.freeze") else of_v1).encode())
            finally:
                os.close(fd)
        except OSError:
            return False
        return True

    def _list_members(self) -> list[int]:
        """Return the processes of its cgroup, whose name is never used again."""
        if not self.freezer:
            return []
        try:
            return [int(pid) for pid in Path(self.freezer).with_name("cgroup.procs").read_text().split()]
        except (OSError, ValueError):
            return []

    def _signal_tree(self, number: int) -> None:
        stopped: set[int] = set()
        for _ in range(MOST_ROUNDS):
            new = [pid for pid in self._list_tree() if pid not in stopped]
            if not new:
                return
            for pid in new:  # a parent before its children: stopped, it starts no further ones
                stopped.add(pid)
                _signal(pid, number)

    def _list_tree(self) -> list[int]:
        """The first process and all descendants, each after its parent. None, if its number is another's by now."""
        if not self.started or read_start_time(self.pid) != self.started:
            return []
        found = [self.pid]
        for pid in found:
            with suppress(OSError):
                for task in (PROC / str(pid) / "task").iterdir():
                    with suppress(OSError, ValueError):
                        found += [int(child) for child in (task / "children").read_text().split()]
        return found


class KeptSandboxes:
    """The keeper's knowledge, and what it does about it."""

    def __init__(self) -> None:
        self.all: dict[str, KeptSandbox] = {}
        self.until, self.epoch = float("inf"), 0
        self.is_frozen = False

    def apply_switches(self, line: dict[str, Any], now: float) -> None:
        """One line of the gateway's."""
        if "add" in line:
            added = KeptSandbox(int(line["pid"]), str(line["started"]), str(line["freezer"]), int(line["epoch"]))
            self.all[str(line["add"])] = added
            if self.is_frozen:
                added.freeze()
        elif "remove" in line:
            self.all.pop(str(line["remove"]), None)
        elif "until" in line:
            self._extend(float(line["until"]), int(line["epoch"]), now)

    def _extend(self, until: float, epoch: int, now: float) -> None:
        self.until, self.epoch = until, max(epoch, self.epoch)
        for key, each in list(self.all.items()):
            if each.epoch < self.epoch:
                each.kill()
                del self.all[key]
        if self.is_frozen and now < until:
            self.is_frozen = False
            for each in self.all.values():
                each.thaw()

    def check_time(self, now: float) -> None:
        if now >= self.until and not self.is_frozen:
            self.is_frozen = True
            for each in self.all.values():
                each.freeze()

    def kill_all(self) -> None:
        for each in self.all.values():
            each.kill()


def _signal(pid: int, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def run(source: int) -> None:
    """Until the gateway is gone."""
    kept, rest = KeptSandboxes(), b""
    while True:
        now = read_clock()
        kept.check_time(now)
        wait = None if kept.is_frozen or not kept.all else min(LONGEST_WAIT_S, max(0.0, kept.until - now))
        if not select.select([source], [], [], wait)[0]:
            continue
        data = os.read(source, LONGEST_LINE)
        if not data:
            kept.kill_all()
            return
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            kept.apply_switches(json.loads(line), read_clock())


def main() -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # what stops a service is sent to us as well; we end after the gateway
    os.chdir("/")
    run(0)


if __name__ == "__main__":
    main()
