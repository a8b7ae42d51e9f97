"""The adapter in JavaScript of the docs against a real gateway, with kill -9 of both in the middle. Judged by the file
that the adapter writes: nothing lost, nothing twice."""

import json
import os
import shutil
import signal
import socket
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from gatepost_testing.daemon import DaemonProcess
from gatepost_testing.provider import ScriptBuilder
from gatepost_testing.waiting import PATIENCE_S, block_until

from .channel_desk import SETTINGS

ADAPTER = Path(__file__).parents[2] / "docs" / "extend" / "examples" / "adapter.mjs"
NODE = shutil.which("node") or ""

pytestmark = pytest.mark.skipif(not NODE, reason="node is not here")


class Files:
    """The platform: two files, and the program between them and the gateway."""

    def __init__(self, folder: Path, url: str, token: str) -> None:
        self.folder = folder
        folder.mkdir()
        self._env = {**os.environ, "GATEPOST_URL": url, "GATEPOST_TOKEN": token, "FOLDER": str(folder)}
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with (self.folder / "stderr").open("ab") as stderr:
            self._process = subprocess.Popen([NODE, str(ADAPTER)], env=self._env, stderr=stderr)

    def kill(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGKILL)
        self._process.wait(PATIENCE_S)

    def wait(self) -> int:
        assert self._process is not None
        return self._process.wait(PATIENCE_S)

    def say(self, *words: str) -> None:
        with (self.folder / "chat.in").open("a") as file:
            file.writelines(f"ann: {each}\n" for each in words)

    def count(self) -> Counter[str]:
        path = self.folder / "chat.out"
        lines = path.read_text().splitlines() if path.exists() else []
        return Counter(json.loads(line)["text"].removeprefix("echo: ") for line in lines)

    def stderr(self) -> str:
        return (self.folder / "stderr").read_text()


def find_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[DaemonProcess]:
    listen = f"127.0.0.1:{find_port()}"
    with DaemonProcess(tmp_path / "home", **{**SETTINGS, "listen": listen}) as made:
        script = ScriptBuilder().otherwise().say("echo: {text}")
        script.write(made.home / "groups" / "home").chmod(0o644)
        yield made


@pytest.fixture
def files(daemon: DaemonProcess, tmp_path: Path) -> Iterator[Files]:
    made = daemon.json("channel", "token", "files", "--feature", "keyed", "--feature", "markdown")
    done = daemon.gatepost("room", "policy", "files:chat", "public")
    assert done.returncode == 0, done.stderr
    made = Files(tmp_path / "chat", made["url"], made["secret"])
    made.start()
    yield made
    made.kill()


@pytest.mark.slow
def test_nothing_is_lost_or_said_twice_when_the_program_and_the_gateway_are_killed(
    daemon: DaemonProcess, files: Files
) -> None:
    assert len([line for line in ADAPTER.read_text().splitlines() if line.strip()]) <= 60
    said: list[str] = []

    def say_some(name: str) -> None:
        words = [f"{name}{number}" for number in range(5)]
        said.extend(words)
        files.say(*words)
        before = sum(files.count().values())
        block_until(lambda: sum(files.count().values()) > before, f"an answer to {name}: {files.stderr()}")

    say_some("first")
    files.kill()
    files.say("while the program was away")
    said.append("while the program was away")
    files.start()
    say_some("second")
    daemon.kill()
    files.say("while the gateway was away")
    said.append("while the gateway was away")
    daemon.start()
    say_some("third")
    files.kill()
    daemon.kill()
    daemon.start()
    files.start()
    say_some("fourth")
    block_until(lambda: len(files.count()) == len(said), f"every answer; there are {files.count()}")
    block_until(lambda: int(daemon.json("ledger", "check")["in_flight"]) == 0, "everything to be settled")
    assert files.count() == Counter(said)


@pytest.mark.slow
def test_a_second_program_replaces_the_first_which_ends_and_the_channel_says_so(
    daemon: DaemonProcess, files: Files
) -> None:
    files.say("one")
    block_until(lambda: files.count()["one"] == 1, "an answer")
    first, files._process = files._process, None
    files.start()
    assert first is not None and first.wait(PATIENCE_S) != 0
    assert "took its place" in files.stderr()

    def is_named() -> bool:
        return any("two programs use its token" in each["note"] for each in daemon.json("channel", "list"))

    block_until(is_named, "the note")
    files.say("two")
    block_until(lambda: files.count()["two"] == 1, "an answer of the second")


@pytest.mark.slow
def test_a_new_token_ends_the_old_one_and_so_does_removing_the_channel(daemon: DaemonProcess, files: Files) -> None:
    assert daemon.json("channel", "token", "files")["revoked"] == 1
    assert files.wait() != 0
    assert "the token is wrong" in files.stderr()
    assert daemon.gatepost("channel", "rm", "files", "--yes").returncode == 0
    files.start()
    files.kill()
