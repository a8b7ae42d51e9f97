"""One daemon per home: the lock decides, the information beside it never does."""

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from gatepost.core.errors import SetupError
from gatepost.core.home import Home
from gatepost.core.process import home_lock
from gatepost.core.records import replace
from gatepost_testing.waiting import PATIENCE_S

HOLD = """
import os
import signal
import sys
from pathlib import Path
from gatepost.core.process import home_lock
from gatepost.core.errors import SetupError
from gatepost.core.home import Home
try:
    held = home_lock.acquire(Home(Path(sys.argv[1])), role=sys.argv[2])
except SetupError as error:
    print("refused", error, flush=True)
    sys.exit(1)
if sys.argv[3:] and os.fork():
    signal.pause()  # until it is killed; its child has the lock, too
print("held", flush=True)
sys.stdin.read()
held.release()
"""


class Holder:
    """Another process that holds, or tries to hold, a home."""

    def __init__(self, home: Home, role: str = "", *more: str) -> None:
        command = [sys.executable, "-c", HOLD, str(home.path), role, *more]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.pid = self.process.pid

    def word(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def end(self) -> int:
        self.process.communicate(timeout=PATIENCE_S)
        return self.process.returncode

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate(timeout=PATIENCE_S)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def test_who_finds_a_gateway_there_does_not_wait_for_its_end(home: Home) -> None:
    gateway = Holder(home, home_lock.DAEMON)
    try:
        assert gateway.word() == "held\n"
        with pytest.raises(home_lock.HomeLocked):
            home_lock.acquire(home, patience=3600)
    finally:
        gateway.end()


def test_the_information_says_who_and_where(home: Home) -> None:
    with home_lock.acquire(home) as held:
        held.publish(listen="127.0.0.1:8420", control="/c.sock")
        told = json.loads(home.pid_file.read_text())

        assert set(told) == {"pid", "startedAt", "hostname", "bootId", "uid", "listen", "control", "argv"} | {
            "role",
            "began",
        }
        assert (told["pid"], told["uid"], told["listen"]) == (os.getpid(), os.getuid(), "127.0.0.1:8420")
        assert home.pid_file.stat().st_mode & 0o777 == home.lock.stat().st_mode & 0o777 == 0o600


def test_after_the_end_the_information_is_gone_and_the_lock_file_stays(home: Home) -> None:
    with home_lock.acquire(home):
        inode = home.lock.stat().st_ino

    assert [path.name for path in home.path.iterdir()] == ["gatepost.lock"]
    assert home.lock.stat().st_ino == inode
    assert home_lock.find_holder(home) is None


@pytest.mark.slow
def test_a_second_start_names_the_first(home: Home) -> None:
    first = Holder(home)
    assert first.word() == "held\n"

    second = Holder(home)

    assert f"pid {first.pid}" in second.word()
    assert second.end() == 1
    assert first.end() == 0


def test_a_second_start_names_the_first_by_the_kernel_if_the_information_is_corrupt(home: Home) -> None:
    first = Holder(home)
    assert first.word() == "held\n"
    home.pid_file.write_text("{bad")

    with pytest.raises(home_lock.HomeLocked) as refused:
        home_lock.acquire(home, patience=0)

    known = Path("/proc/locks").exists()
    assert refused.value.info.pid == (first.pid if known else 0)
    first.end()


def test_a_killed_daemon_leaves_a_home_that_starts(home: Home) -> None:
    first = Holder(home)
    assert first.word() == "held\n"
    first.kill()

    assert home_lock.find_holder(home) is None
    with home_lock.acquire(home) as held:
        assert held.info.pid == os.getpid()


@pytest.mark.parametrize(
    "left",
    [
        b"",
        b"{bad",
        b"[]",
        b"null",
        b'{"pid": "many"}',
        b"\xff\xfe\x00",
        json.dumps({"pid": 1, "hostname": "elsewhere", "bootId": "other", "argv": 7}).encode(),
    ],
)
def test_unreadable_or_foreign_information_never_blocks_a_start(home: Home, left: bytes) -> None:
    home.pid_file.write_bytes(left)

    with home_lock.acquire(home, patience=0):
        assert json.loads(home.pid_file.read_text())["pid"] == os.getpid()


def test_a_recycled_pid_never_blocks_a_start(home: Home) -> None:
    stranger = subprocess.Popen(["sleep", "60"])
    try:
        with home_lock.acquire(home) as held:
            told = json.loads(home.pid_file.read_text())
        home.pid_file.write_text(json.dumps({**told, "pid": stranger.pid}))

        assert home_lock.find_holder(home) is None
        with home_lock.acquire(home, patience=0) as held:
            assert held.info.pid == os.getpid()
    finally:
        stranger.kill()
        stranger.wait()


def test_a_folder_in_the_place_of_the_information_never_blocks_a_start(home: Home) -> None:
    home.pid_file.mkdir()

    held = home_lock.acquire(home, patience=0)

    assert home_lock.find_holder(home) is not None
    home.pid_file.rmdir()
    held.release()


@pytest.mark.slow
def test_ten_simultaneous_starts_on_a_stale_lock_give_exactly_one(home: Home) -> None:
    home.lock.touch()
    home.pid_file.write_text("")
    starts = [Holder(home) for _ in range(10)]

    words = [start.word().split()[0] for start in starts]

    assert sorted(words) == ["held"] + ["refused"] * 9
    assert sorted(start.end() for start in starts) == [0] + [1] * 9


def test_whoever_only_looks_does_not_make_a_start_fail(home: Home) -> None:
    home.lock.touch()
    for _ in range(20):
        assert home_lock.find_holder(home) is None
    with home_lock.acquire(home, patience=0):
        held = home_lock.find_holder(home)
        assert held is not None and held.pid == os.getpid()


def test_what_a_killed_gateway_had_begun_to_start_is_waited_for(home: Home) -> None:
    gateway = Holder(home, home_lock.DAEMON, "with a child")
    assert gateway.word() == "held\n"
    gateway.process.kill()
    os.waitid(os.P_PID, gateway.pid, os.WEXITED | os.WNOWAIT)  # dead, and its parent has not asked for it
    held = home_lock.find_holder(home)
    assert held is not None and held.pid == gateway.pid and not held.is_daemon

    with ThreadPoolExecutor() as threads:
        start = threads.submit(home_lock.acquire, home, patience=PATIENCE_S)
        gateway.process.communicate(timeout=PATIENCE_S)  # its child has ended, too

        with start.result() as ours:
            assert ours.info.pid == os.getpid()


def test_a_link_in_the_place_of_the_lock_is_refused(home: Home, tmp_path: Path) -> None:
    home.lock.symlink_to(tmp_path / "other")

    with pytest.raises(SetupError, match="cannot be opened"):
        home_lock.acquire(home)
    assert not (tmp_path / "other").exists()


def test_stranger_24_only_the_process_that_wrote_it_is_a_daemon(home: Home) -> None:
    with home_lock.acquire(home, role=home_lock.DAEMON) as held:
        assert held.info.is_daemon
        found = home_lock.read_holder(home)
        assert found is not None and found.is_daemon
        assert not replace(found, began="1").is_daemon  # its pid was given to another process
        assert not replace(found, boot_id="another").is_daemon
    with home_lock.acquire(home) as held:  # a command
        assert not held.info.is_daemon
