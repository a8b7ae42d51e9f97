"""The daemon as a user runs it: a real `gatepost up` in a process of its own.

The first nine follow the acceptance checks 1-9 of the daemon and its lock.
"""

import asyncio
import gc
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gatepost.core.errors import GatepostError, Unavailable
from gatepost.core.home import Home
from gatepost.core.process import home_lock
from gatepost.serve.control.client import ControlClient
from gatepost.store.engine.readonly import read_snapshot
from gatepost.store.sessions import turns
from gatepost_testing import fork_server
from gatepost_testing.clients.management_client import TRANSPORTS, open_management_gateway
from gatepost_testing.provider import ScriptBuilder
from gatepost_testing.waiting import PATIENCE_S, block_until

STARTS = 100


class Up:
    """One `gatepost up`."""

    def __init__(self, home: Home, *args: str, env: dict[str, str] | None = None, anew: bool = False) -> None:
        self.home = home
        self._said = tempfile.TemporaryFile()  # noqa: SIM115  closed at the end
        reads, writes = os.pipe()
        self._out = open(reads, "rb")  # noqa: SIM115  closed at the end
        words = ["up", "--home", str(home.path), *(args or ("--listen", "127.0.0.1:0"))]
        with open(writes, "wb") as out:
            self.process = fork_server.start(words, {**os.environ, **(env or {})}, out, self._said, anew=anew)
        self.pid = self.process.pid

    def ready(self) -> str:
        """The ready line; fails if the daemon ends or says nothing."""
        readable, _, _ = select.select([self._out], [], [], PATIENCE_S)
        line = self._out.readline().decode() if readable else ""
        if not line.startswith("gatepost is ready at "):
            self.process.kill()
            pytest.fail(f"not ready: {line!r} {self.end()[1]}")
        return line

    def read_line(self) -> str:
        """The next line of the banner, once the ready line was read: it is written with it."""
        return self._out.readline().decode()

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def end(self) -> tuple[int, str]:
        """Its exit code and what it wrote to stderr."""
        code = self.process.wait(PATIENCE_S)
        self._said.seek(0)
        return code, self._said.read().decode()

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(PATIENCE_S)
        self._out.close()
        self._said.close()

    def health(self) -> dict[str, Any]:
        return ControlClient(self.home.control).get("/v1/health")

    def children(self) -> list[int]:
        """Every process below it."""
        found, ask = [], [self.pid]
        while ask:
            pid = ask.pop()
            try:
                below = [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
            except OSError:
                below = []
            found += below
            ask += below
        return found


@pytest.fixture
def home() -> Iterator[Home]:
    """A short path: a socket's has 107 bytes."""
    path = Path(tempfile.mkdtemp(prefix="gp-"))
    yield Home(path / "h")
    shutil.rmtree(path)


@pytest.fixture
def start(home: Home) -> Iterator[Callable[..., Up]]:
    started: list[Up] = []

    def start(*args: str, env: dict[str, str] | None = None, anew: bool = False) -> Up:
        started.append(Up(home, *args, env=env, anew=anew))
        return started[-1]

    yield start
    for up in started:
        up.close()


def command(home: Home, *args: str) -> subprocess.CompletedProcess[str]:
    return fork_server.run([*args, "--home", str(home.path)], os.environ, timeout=2 * PATIENCE_S)


def assert_nothing_left(home: Home) -> None:
    assert not home.pid_file.exists()
    assert [path for path in home.run.rglob("*") if path.is_socket()] == []
    assert home_lock.find_holder(home) is None
    assert home.lock.exists()


@pytest.mark.slow
def test_paseo_1_a_start_in_an_empty_home_makes_it_and_serves(home: Home, start: Callable[..., Up]) -> None:
    up = start(anew=True)
    line = up.ready()

    told = json.loads(home.pid_file.read_text())
    passable = 0o711 if os.geteuid() == 0 else 0o700
    assert home.path.stat().st_mode & 0o777 == passable
    assert home.control.stat().st_mode & 0o777 == home.store.stat().st_mode & 0o777 == 0o600
    assert (
        told["startedAt"]
        and told["pid"] == up.pid
        and told["hostname"] == socket.gethostname()
        and told["uid"] == os.getuid()
    )
    assert line.startswith(f"gatepost is ready at http://{told['listen']}/") and not told["listen"].endswith(":0")
    assert up.health()["ok"]


@pytest.mark.slow
def test_a_start_names_the_extra_that_a_way_of_signing_in_lacks(home: Home, start: Callable[..., Up]) -> None:
    hides = home.path.parent / "hides"
    hides.mkdir()
    (hides / "sitecustomize.py").write_text("import sys\nsys.modules['argon2'] = None\n")
    up = start(env={"PYTHONPATH": str(hides), "GATEPOST_WEB_PASSWORD_LOGIN": "true"}, anew=True)
    up.ready()
    said = [up.read_line() for _ in range(3)]
    assert said[-1] == (
        "signing in by password is on, and nobody can: its extra is not installed: pip install 'gatepost[password]'\n"
    )


@pytest.mark.slow
def test_paseo_2_a_second_start_exits_1_and_names_the_first(home: Home, start: Callable[..., Up]) -> None:
    first = start(anew=True)
    first.ready()

    code, said = start(anew=True).end()

    assert code == 1 and f"pid {first.pid}" in said and said.count("\n") == 1
    assert first.health()["ok"]


@pytest.mark.slow
def test_paseo_3_a_killed_daemon_is_followed_by_a_new_one(home: Home, start: Callable[..., Up]) -> None:
    first = start()
    first.ready()
    first.signal(signal.SIGKILL)
    first.end()
    assert home.control.is_socket() and home.pid_file.exists()

    second = start()
    second.ready()

    assert second.health()["ok"]
    assert json.loads(home.pid_file.read_text())["pid"] == second.pid


@pytest.mark.slow
@pytest.mark.parametrize("left", ["", "{bad"])
def test_paseo_4_a_lock_file_of_nonsense_does_not_block_a_start(
    home: Home, start: Callable[..., Up], left: str
) -> None:
    home.path.mkdir()
    home.lock.write_text(left)
    home.pid_file.write_text(left)

    start().ready()


@pytest.mark.slow
@pytest.mark.parametrize("whose", ["a live stranger", "another host"])
def test_paseo_5_a_lock_of_somebody_else_does_not_block_a_start(
    home: Home, start: Callable[..., Up], whose: str
) -> None:
    stranger = subprocess.Popen(["sleep", "300"])
    try:
        host = socket.gethostname() if whose == "a live stranger" else "elsewhere"
        home.path.mkdir()
        home.pid_file.write_text(json.dumps({"pid": stranger.pid, "hostname": host, "startedAt": "2020-01-01"}))

        start().ready()

        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


@pytest.mark.slow
def test_paseo_6_of_ten_simultaneous_starts_on_a_stale_lock_exactly_one_serves(
    home: Home, start: Callable[..., Up]
) -> None:
    home.path.mkdir()
    home.lock.touch()
    home.pid_file.write_text(json.dumps({"pid": 1, "hostname": "gone"}))
    ups = [start() for _ in range(10)]

    block_until(lambda: sum(up.process.poll() is not None for up in ups) >= 9, "nine to give up")

    [winner] = [up for up in ups if up.process.poll() is None]
    winner.ready()
    losers = [up.end() for up in ups if up is not winner]
    assert [code for code, _ in losers] == [1] * 9
    assert all("already running" in said for _, said in losers)
    assert winner.health()["ok"]


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_paseo_7_and_nanoclaw_d20_a_signal_ends_it_in_order_with_a_turn_running_and_leaves_nothing(
    home: Home, start: Callable[..., Up], number: signal.Signals
) -> None:
    home.prepare()
    ScriptBuilder().otherwise().hang().write(home.group("home"))
    up = start(env={"GATEPOST_SESSIONS_PROVIDER": "scripted"}, anew=True)
    up.ready()
    asked = command(home, "chat", "-m", "hello")
    assert asked.returncode == 0, asked.stderr
    block_until(
        lambda: [turn.state for turn in read_snapshot(home.store, turns.list_open)] == ["begun"], "the turn to begin"
    )
    below = up.children()
    assert below, "a sandbox should be awake"

    up.signal(number)
    code, said = up.end()

    assert code == 0, said
    assert_nothing_left(home)
    block_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in below), "the sandboxes to be gone")
    assert [turn.state for turn in read_snapshot(home.store, turns.list_open)] == ["interrupted"]
    assert json.loads(command(home, "ledger", "check", "--json").stdout)["unaccounted"] == 0


@pytest.mark.slow
def test_paseo_7_a_second_signal_ends_it_now_and_the_next_start_is_not_hindered(
    home: Home, start: Callable[..., Up]
) -> None:
    up = start()
    up.ready()

    for _ in range(2):
        up.signal(signal.SIGTERM)
    up.end()

    assert home_lock.find_holder(home) is None
    start().ready()


def test_paseo_8_a_file_in_the_place_of_a_socket_is_refused_and_stays(home: Home, start: Callable[..., Up]) -> None:
    home.path.mkdir()
    precious = home.path / "precious"
    precious.write_text("mine")

    for args, env in (
        (("--listen", f"unix:{precious}"), {}),
        (("--listen", "127.0.0.1:0"), {"GATEPOST_CONTROL_SOCK": str(precious)}),
    ):
        code, said = start(*args, env=env).end()
        assert code == 1 and str(precious) in said and said.count("\n") == 1
        assert precious.read_text() == "mine"
    assert_nothing_left(home)


def test_a_home_whose_agents_could_not_be_reached_is_refused_before_it_is_made(home: Home) -> None:
    long = Home(home.path.with_name("h" * (81 - len(str(home.path.parent)) - 1)))
    done = command(long, "up")
    assert done.returncode == 1 and done.stderr.count("\n") == 1
    assert "has 81 bytes, and at most 80 are possible" in done.stderr
    assert not long.path.exists()
    assert "has 81 bytes" in command(long, "doctor").stdout


@pytest.mark.slow
@pytest.mark.parametrize("form", ["unix:{}", "unix://{}", "{}"])
def test_paseo_8_the_page_can_be_served_on_a_socket(home: Home, start: Callable[..., Up], form: str) -> None:
    path = home.path.parent / "web.sock"

    up = start("--listen", form.format(path))
    up.ready()

    assert path.is_socket()
    up.signal(signal.SIGTERM)
    assert up.end()[0] == 0
    assert not path.exists()


@pytest.mark.parametrize("listen", ["nonsense", "127.0.0.1:99999", "unix:/" + "x" * 120])
def test_paseo_8_an_address_that_cannot_be_is_told(home: Home, start: Callable[..., Up], listen: str) -> None:
    code, said = start("--listen", listen).end()

    assert code == 1 and said.count("\n") == 1 and said.startswith("gatepost: ")
    assert_nothing_left(home)


def test_paseo_8_a_taken_port_is_named_with_the_way_out(home: Home, start: Callable[..., Up]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

        code, said = start("--listen", f"127.0.0.1:{port}").end()

    assert code == 1 and str(port) in said and "--listen" in said and said.count("\n") == 1
    assert_nothing_left(home)


def test_paseo_9_an_unknown_key_stops_the_start_with_its_dotted_path(home: Home, start: Callable[..., Up]) -> None:
    home.path.mkdir()
    (home.path / "gatepost.toml").write_text("[sessions]\nmost_awak = 3\n")

    code, said = start().end()

    assert code == 1 and "'sessions.most_awak'; did you mean 'sessions.most_awake'?" in said
    assert_nothing_left(home)


def test_the_control_socket_can_be_moved_and_is_found_there(home: Home, start: Callable[..., Up]) -> None:
    moved = home.path.parent / "c.sock"
    start(env={"GATEPOST_CONTROL_SOCK": str(moved)}).ready()

    assert moved.stat().st_mode & 0o777 == 0o600
    assert json.loads(command(home, "status", "--json").stdout)["control"] == str(moved)
    assert command(home, "group", "add", "acme").returncode == 0


@pytest.mark.slow
def test_what_an_operator_does_goes_through_the_running_daemon(home: Home, start: Callable[..., Up]) -> None:
    up = start()
    up.ready()

    added = command(home, "group", "add", "acme/eng")
    refused = command(home, "group", "add", "acme/eng")
    status = json.loads(command(home, "status", "--json").stdout)

    assert added.returncode == 0 and (home.group("acme/eng") / "AGENTS.md").exists()
    assert refused.returncode == 1 and "already" in refused.stderr
    assert (status["running"], status["answers"], status["pid"]) == (True, True, up.pid)
    assert status["store"]["groups"] == 3 and status["store"]["ledger"]["unaccounted"] == 0
    assert {"terminal", "web"} <= set(status["channels"])


@pytest.mark.slow
def test_stranger_new_a_daemon_reads_no_integer_of_thousands_of_digits(home: Home, start: Callable[..., Up]) -> None:
    start().ready()
    with pytest.raises(GatepostError, match="it is not JSON"):
        ControlClient(home.control).post("/v1/chat", {"text": 10**1000})


@pytest.mark.slow
def test_down_ends_it_and_waits_until_it_is_gone(home: Home, start: Callable[..., Up]) -> None:
    up = start()
    up.ready()

    told = command(home, "down")

    assert told.returncode == 0 and f"pid {up.pid}" in told.stdout
    assert_nothing_left(home)
    assert up.end()[0] == 0


@pytest.mark.slow
def test_down_ends_one_whose_socket_is_lost(home: Home, start: Callable[..., Up]) -> None:
    up = start()
    up.ready()
    home.control.unlink()
    with pytest.raises(Unavailable):
        up.health()

    assert command(home, "down").returncode == 0
    assert up.end()[0] == 0


FLOCK = """
import fcntl, sys
with open(sys.argv[1], "a") as lock:
    fcntl.flock(lock, fcntl.LOCK_EX)
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.mark.parametrize("left", ["", "the information of a gateway that was killed"])
def test_stranger_24_down_ends_no_process_that_is_not_this_homes_gateway(home: Home, left: str) -> None:
    home.prepare()
    if left:
        with home_lock.acquire(home, role=home_lock.DAEMON):
            kept = home.pid_file.read_bytes()
        home.pid_file.write_bytes(kept)
    with subprocess.Popen(
        [sys.executable, "-c", FLOCK, str(home.lock)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None and other.stdout.readline() == "held\n"
        told = command(home, "down", "--timeout", "1")
        alive = other.poll() is None
        other.communicate()

    assert alive
    assert told.returncode != 0 and f"pid {other.pid} holds the lock" in told.stderr and "left alone" in told.stderr


def test_stranger_24_who_comes_second_is_told_so_before_anything_heavy_is_imported(home: Home) -> None:
    home.prepare()
    with home_lock.acquire(home, role=home_lock.DAEMON):
        told = subprocess.run(
            [sys.executable, "-X", "importtime", "-m", "gatepost", "up", "--home", str(home.path)],
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )

    assert told.returncode != 0 and "already running" in told.stderr
    assert (
        "gatepost.core.process.home_lock" in told.stderr
        and "gatepost.app" not in told.stderr
        and "gatepost.daemon" not in told.stderr
    )


@pytest.mark.slow
def test_stranger_24_a_start_imports_no_sdk(home: Home, start: Callable[..., Up]) -> None:
    up = start(env={"PYTHONPROFILEIMPORTTIME": "1"}, anew=True)
    up.ready()
    up.signal(signal.SIGTERM)
    _, said = up.end()

    imported = {line.rpartition("|")[2].strip() for line in said.splitlines() if line.startswith("import time:")}
    assert "gatepost.app" in imported
    assert not imported & {"mcp", "openai", "anthropic", "pydantic", "httpx"}


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_hundred_starts_and_stops_leave_no_file_and_no_process_behind(
    home: Home, start: Callable[..., Up], tmp_path: Path
) -> None:
    """Some of them with an agent awake, so that there is a sandbox to be left behind."""
    below: set[int] = set()

    def once(talks: bool) -> None:
        up = start(env={"GATEPOST_SESSIONS_PROVIDER": "scripted", "TMPDIR": str(tmp_path)})
        up.ready()
        if talks:
            assert command(home, "chat", "-m", "hello", "--wait").stdout == "echo: hello\n"
            assert up.children(), "a sandbox should be awake"
        below.update(up.children())
        up.signal(signal.SIGTERM)
        code, said = up.end()
        assert code == 0, said

    def left() -> set[Path]:
        return {*home.path.rglob("*"), *tmp_path.rglob("*")}

    for _ in range(2):
        once(True)
    before = left()
    for number in range(STARTS):
        once(number % 10 == 9)
    block_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in below), "the sandboxes to be gone")
    assert left() == before and list(tmp_path.iterdir()) == []
    assert_nothing_left(home)


@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_a_hundred_gateways_in_one_process_leave_no_descriptor_thread_child_or_task_behind(home: Home) -> None:
    ScriptBuilder().otherwise().say("here").write(home.group("agents"))

    async def once(transport: str) -> None:
        async with open_management_gateway(home.path, transport) as desk:
            if transport != "memory":
                assert (await desk("create_agent", initialPrompt="hello"))["lastMessage"] == "here"

    def counted() -> dict[str, int]:
        """The threads that are the loop's own, and that it shares among all, are not."""
        gc.collect()
        return {
            "descriptors": len(os.listdir("/proc/self/fd")),
            "children": len(Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()),
            "tasks": len(asyncio.all_tasks()),
            "threads": sum(not thread.name.startswith(("asyncio_", "uvloop_")) for thread in threading.enumerate()),
        }

    for transport in TRANSPORTS:
        await once(transport)
    before = counted()
    for number in range(STARTS):
        await once(TRANSPORTS[number % 10] if number % 10 < len(TRANSPORTS) else "memory")
    assert counted() == before
    assert [path for path in home.run.rglob("*") if path.is_socket()] == []


@pytest.mark.slow
def test_logs_can_be_followed(home: Home, start: Callable[..., Up]) -> None:
    home.prepare()
    log = home.logs / "gatepost.log"
    log.write_text('{"event": "old"}\n')
    following = subprocess.Popen(
        [sys.executable, "-m", "gatepost", "logs", "-f", "-n", "1", "--json", "--home", str(home.path)],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert following.stdout is not None
        assert following.stdout.readline() == '{"event": "old"}\n'
        with log.open("a") as file:
            file.write('{"event": "new"}\n')
        assert following.stdout.readline() == '{"event": "new"}\n'
        log.rename(home.logs / "gatepost.log.1")
        log.write_text('{"event": "rotated"}\n')
        assert following.stdout.readline() == '{"event": "rotated"}\n'
    finally:
        following.send_signal(signal.SIGINT)
        following.communicate(timeout=PATIENCE_S)
    assert following.returncode == 130
