"""A forked command is what a started one is: its own words, environment, streams, end."""

import os
import select
import shutil
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from gatepost_testing import fork_server
from gatepost_testing.waiting import PATIENCE_S

pytestmark = pytest.mark.skipif(not fork_server.FORKS, reason="commands are not forked on this system")


@pytest.mark.parametrize("words", [["--version"], ["nosuch"], ["group", "list"], ["group", "add", "acme"]])
def test_it_says_and_returns_what_a_started_one_does(words: list[str], tmp_path: Path) -> None:
    home = tmp_path / "home"
    env = {**os.environ, "GATEPOST_HOME": str(home)}

    fork = fork_server.run(words, env)
    shutil.rmtree(home, ignore_errors=True)
    command = [sys.executable, "-m", "gatepost", *words]
    started = subprocess.run(command, env=env, capture_output=True, text=True, check=False)

    assert (fork.returncode, fork.stdout, fork.stderr) == (started.returncode, started.stdout, started.stderr)


def test_it_has_the_environment_that_it_is_given_and_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fork_server.run(["--version"], {})  # the template is there, and has ours
    monkeypatch.setenv("GATEPOST_HOME", "/nowhere")

    told = fork_server.run(["status"], {"GATEPOST_HOME": str(tmp_path / "here"), "PATH": os.environ["PATH"]})

    assert str(tmp_path / "here") in told.stdout


@pytest.mark.slow
def test_many_at_once_each_get_their_own_answer(tmp_path: Path) -> None:
    def add(number: int) -> str:
        home = tmp_path / str(number)
        return fork_server.run(["--home", str(home), "group", "add", f"g{number}"], os.environ).stdout

    with ThreadPoolExecutor(8) as pool:
        told = list(pool.map(add, range(16)))

    assert all(f"group g{number} " in said for number, said in enumerate(told))


def test_the_handle_is_its_own_however_late_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine a command has ended, and its number is free, before who started it reads the number."""
    fork_server.run(["--version"], os.environ)  # the template is there
    receive = socket.recv_fds

    def receive_late(line: socket.socket, *more: int) -> object:
        select.select([line], [], [], PATIENCE_S)
        answer = receive(line, *more)
        select.select([line], [], [], PATIENCE_S)  # its exit code: the template has reaped it
        return answer

    monkeypatch.setattr(socket, "recv_fds", receive_late)

    assert fork_server.run(["--version"], os.environ).returncode == 0


def test_a_signal_ends_it_and_is_told(tmp_path: Path) -> None:
    reads, writes = os.pipe()
    with open(writes, "wb") as out, (tmp_path / "err").open("wb") as err:
        env = {**os.environ, "GATEPOST_LISTEN": "127.0.0.1:0", "GATEPOST_HOME": str(tmp_path / "home")}
        up = fork_server.start(["up"], env, out, err)
    with open(reads) as said:
        assert said.readline().startswith("gatepost is ready at ")
        assert up.poll() is None

        up.send_signal(signal.SIGKILL)

        assert up.wait(30) == up.poll() == -signal.SIGKILL
        assert "ready" not in said.read()


@pytest.mark.slow
def test_it_ends_as_a_started_one_does_when_nobody_reads_what_it_prints(tmp_path: Path) -> None:
    def end(anew: bool) -> int:
        reads, writes = os.pipe()
        os.close(reads)
        with open(writes, "wb") as stdout:
            return fork_server.start(["--help"], os.environ, stdout, stdout, anew=anew).wait(PATIENCE_S)

    assert end(anew=False) == end(anew=True) != 0
