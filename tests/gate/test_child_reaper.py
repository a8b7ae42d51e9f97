"""The keeper of a server: whatever comes of the program, and wherever it hides, ends with it."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gatepost.gate import child_reaper
from gatepost_testing.waiting import PATIENCE_S, block_until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are kept on Linux alone")

# Each writes its number and sleeps: a child, one in a session of its own, and one whose parent has ended.
FAMILY = """
import os, subprocess, sys, time

def leave(name):
    open(os.path.join(sys.argv[1], name), "w").write(str(os.getpid()))
    time.sleep(1000)

if os.fork() == 0:
    leave("child")
if os.fork() == 0:
    os.setsid()
    leave("session")
if os.fork() == 0:
    if os.fork() == 0:
        os.setsid()
        leave("orphan")
    os._exit(0)
os.wait()
leave("parent")
"""
NAMES = ("child", "session", "orphan", "parent")


def start(*command: str, **more: object) -> subprocess.Popen[bytes]:
    reaper = [sys.executable, "-I", "-S", str(child_reaper.__file__), *command]
    return subprocess.Popen(reaper, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **more)  # type: ignore[call-overload,no-any-return]


@pytest.fixture
def started() -> Iterator[list[subprocess.Popen[bytes]]]:
    made: list[subprocess.Popen[bytes]] = []
    yield made
    for each in made:
        if each.poll() is None:
            each.terminate()  # killed, it would leave behind what it keeps
        each.communicate(timeout=PATIENCE_S)


def read_pids(folder: Path) -> dict[str, int]:
    def are_there() -> bool:
        return all((folder / name).exists() and (folder / name).read_text() for name in NAMES)

    block_until(are_there, "the family")
    return {name: int((folder / name).read_text()) for name in NAMES}


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_all_that_came_of_a_program_ends_when_told(tmp_path: Path, started: list[subprocess.Popen[bytes]]) -> None:
    reaper = start(sys.executable, "-c", FAMILY, str(tmp_path))
    started.append(reaper)
    pids = read_pids(tmp_path)
    assert all(map(is_alive, pids.values()))
    reaper.send_signal(signal.SIGTERM)
    assert reaper.wait(timeout=PATIENCE_S) == 0
    assert [name for name, pid in pids.items() if is_alive(pid)] == []


def test_all_ends_when_the_gateway_dies(tmp_path: Path) -> None:
    """Nobody is left who could tell the keeper."""
    script = (
        "import subprocess, sys, time\n"
        f"subprocess.Popen([sys.executable, '-I', '-S', {child_reaper.__file__!r}, sys.executable, '-c',"
        f" {FAMILY!r}, {str(tmp_path)!r}])\n"
        "time.sleep(1000)\n"
    )
    gateway = subprocess.Popen([sys.executable, "-c", script])
    pids = read_pids(tmp_path)
    gateway.kill()
    gateway.wait(timeout=PATIENCE_S)
    block_until(lambda: not any(map(is_alive, pids.values())), "the end of the family")


def test_the_program_has_the_pipes_and_its_end_is_seen_by_them(started: list[subprocess.Popen[bytes]]) -> None:
    reaper = start(sys.executable, "-c", "print(input() * 2)")
    started.append(reaper)
    assert reaper.stdin is not None and reaper.stdout is not None
    reaper.stdin.write(b"ab\n")
    reaper.stdin.flush()
    assert reaper.stdout.read() == b"abab\n"  # to its end, though the keeper lives
    assert reaper.poll() is None


def test_a_pipe_that_was_passed_by_accident_is_not_held(started: list[subprocess.Popen[bytes]]) -> None:
    """Held, it would never end for whoever reads it."""
    mine, theirs = os.pipe()
    reaper = start(sys.executable, "-c", "print('up', flush=True); import time; time.sleep(1000)", pass_fds=(theirs,))
    started.append(reaper)
    os.close(theirs)
    assert reaper.stdout is not None and reaper.stdout.readline() == b"up\n"
    os.set_blocking(mine, False)
    block_until(lambda: _has_ended(mine), "the end of the pipe")
    os.close(mine)


def _has_ended(fd: int) -> bool:
    try:
        return os.read(fd, 1) == b""
    except BlockingIOError:
        return False


def test_a_program_that_cannot_be_started_is_named(started: list[subprocess.Popen[bytes]]) -> None:
    reaper = start("/no/such/program")
    started.append(reaper)
    _, said = reaper.communicate(timeout=PATIENCE_S)
    assert reaper.returncode == 1 and b"/no/such/program cannot be started: No such file" in said


def test_the_program_has_usual_signals(started: list[subprocess.Popen[bytes]]) -> None:
    code = (
        "import signal as s; print(s.pthread_sigmask(s.SIG_BLOCK, ()) == set(),"
        " open('/proc/self/status').read().split('SigIgn:')[1].split()[0])"
    )
    reaper = start("/bin/sh", "-c", f'exec {sys.executable} -c "{code}"')
    started.append(reaper)
    assert reaper.stdout is not None
    blocked_none, _ = reaper.stdout.readline().split()
    assert blocked_none == b"True"


def test_zombies_are_not_left_behind(tmp_path: Path, started: list[subprocess.Popen[bytes]]) -> None:
    code = "import os, sys, time\nif os.fork() == 0:\n if os.fork() == 0: os._exit(0)\n os._exit(0)\n"
    reaper = start(sys.executable, "-c", f"{code}os.wait(); print('up', flush=True); time.sleep(1000)")
    started.append(reaper)
    assert reaper.stdout is not None and reaper.stdout.readline() == b"up\n"
    children = Path(f"/proc/{reaper.pid}/task/{reaper.pid}/children")
    block_until(lambda: len(children.read_text().split()) == 1, "the end of the orphan")
