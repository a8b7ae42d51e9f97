"""Neighbour latency: how long a plain reply takes in one group while another group, or a stranger, attacks.

A real daemon, group `home` with a scripted echo, group `evil` with bench/attacker.py. Each row: p99 of a reply in
`home` under one attack, beside its quiet p99 in the same run (≤ 3 ×), and how long `gatepost panic` takes then (≤ 1 s).
A new attack is a function: in attacker.py from inside a sandbox, here from outside.
"""

import contextlib
import multiprocessing
import os
import shutil
import signal
import socket
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from multiprocessing import synchronize
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2

from attacker import ATTACKS
from gatepost.core.errors import GatepostError
from gatepost.serve.control.client import ControlClient
from gatepost_testing.clients.web_manners import make_manners
from gatepost_testing.daemon import DaemonProcess
from measure import HERE, Figure, at_most, within

TIMES, PANIC_S = 3.0, 1.0
REPLIES = 300  # p99 is then the third worst
PATIENCE_S = 60.0
ROOM = "web:evil"

Place = tuple[str, int]
Stop = synchronize.Event


@dataclass(frozen=True, slots=True)
class Row:
    attack: str
    p99_ms: float
    panic_s: float
    slow_steps: int = 0  # of the event loop and the store's writer, as the daemon's watchdog counts them


class House:
    """A daemon with a quiet group and one that attacks."""

    def __init__(self, home: Path) -> None:
        plugin = home / "plugins" / "providers" / "attacker.py"
        plugin.parent.mkdir(parents=True)
        shutil.copy(HERE / "attacker.py", plugin)
        (home / "gatepost.toml").write_text('[sessions]\nidle_s = 600\n[channels.webhook]\nkind = "webhook"\n')
        self.daemon = DaemonProcess(home, sessions_provider="scripted")
        self.control = ControlClient(home / "run" / "control.sock")
        self.started = home / "groups" / "evil" / "started"

    def __enter__(self) -> "House":
        self.daemon.gatepost("secret", "set", "CHANNEL_WEBHOOK_SECRET", "s" * 32)
        self.daemon.start()
        self.operate("group.add", folder="evil", provider="attacker")
        self.operate("route.add", match=f"chat_jid={ROOM}", target="evil", seq=1)
        self._sign_in()
        return self

    def _sign_in(self) -> None:
        """A page that shows every room, also that of the attacker."""
        base = f"http://{self.listens[0]}:{self.listens[1]}"
        self._browser = httpx2.Client(base_url=base, timeout=None, **make_manners(base))
        token = self.control.post("/v1/login")["result"]["url"].partition("#token=")[2]
        self._browser.post("/login", json={"token": token}).raise_for_status()
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        with contextlib.suppress(httpx2.HTTPError), self._browser.stream("GET", "/api/events") as news:
            for _ in news.iter_bytes():
                pass

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(AssertionError, TimeoutError):
            self.daemon.stop(signal.SIGTERM)
            return
        self.daemon.kill()

    def operate(self, name: str, **args: Any) -> Any:
        return self.control.post(f"/v1/ops/{name}", args)["result"]

    def reply_ms(self, text: str) -> float:
        """From the message to its answer; then a breath, so that the next one does not join the end of this turn."""
        begun = time.perf_counter()
        sent = self.control.post("/v1/chat", {"text": text})["result"]
        answer = self.control.get(f"/v1/chat/wait?message={sent['message_id']}&timeout=60")["result"]
        taken = (time.perf_counter() - begun) * 1000
        if not answer["done"] or answer["replies"][0]["text"] != f"echo: {text}":
            raise AssertionError(f"no reply but {answer}")
        time.sleep(0.004)
        return taken

    def p99_ms(self, count: int) -> float:
        times = sorted(self.reply_ms(f"hello {number}") for number in range(count))
        return times[min(count - 1, int(count * 0.99))]

    def attack_from_inside(self, name: str) -> None:
        """Returns when it has begun."""
        self.started.unlink(missing_ok=True)
        said = {"room": ROOM, "text": f"attack {name}", "id": uuid.uuid4().hex}
        form = [(key, (None, value)) for key, value in said.items()]
        self._browser.post("/api/messages", files=form, timeout=PATIENCE_S).raise_for_status()
        end = time.monotonic() + PATIENCE_S
        while not self.started.exists():
            if time.monotonic() > end:
                raise AssertionError(f"{name} did not begin: {self.daemon.stderr()[-2000:]}")
            time.sleep(0.01)

    def panic_s(self) -> float:
        """From the word to nothing running; then on again, with the quiet group awake."""
        begun = time.perf_counter()
        self.operate("panic.on", reason="bench")
        taken = time.perf_counter() - begun
        self.operate("panic.off")
        self.reply_ms("awake again")
        return taken

    def slow_steps(self) -> int:
        found = self.control.get("/v1/status")["result"].get("slow_steps", 0)
        return int(found)

    @property
    def listens(self) -> tuple[str, int]:
        place = urlsplit(self.daemon.address)
        return str(place.hostname), int(place.port or 80)


# From outside: each runs in a process of its own until it is told to stop.


def half_requests(place: Place, stop: Stop) -> None:
    """More unfinished requests than the daemon has descriptors for."""
    held: list[socket.socket] = []
    try:
        while not stop.is_set():
            try:
                sock = socket.create_connection(place, timeout=5)
                sock.sendall(b"GET / HTTP/1.1\r\nHost: ")
                held.append(sock)
            except OSError:
                stop.wait(0.01)
            if len(held) > 1500:
                held.pop(0).close()
    finally:
        for sock in held:
            sock.close()


def endless_headers(place: Place, stop: Stop) -> None:
    line = b"x: " + b"y" * 1000 + b"\r\n"
    while not stop.is_set():
        with contextlib.suppress(OSError), socket.create_connection(place, timeout=5) as sock:
            sock.sendall(b"GET / HTTP/1.1\r\n")
            while not stop.is_set():
                sock.sendall(line * 100)


def wide_bodies(place: Place, stop: Stop) -> None:
    body = b"[" + b",".join([b"0"] * 85_000) + b"]"
    while not stop.is_set():
        with contextlib.suppress(OSError):
            connection = HTTPConnection(*place, timeout=5)
            connection.request("POST", "/api/messages", body, {"content-type": "application/json"})
            connection.getresponse().read()
            connection.close()


def wrong_posts(place: Place, stop: Stop) -> None:
    """Large posts to a channel's hook, with a secret that is wrong or a signature that is none."""
    body = b"x" * 1_000_000
    heads = ({"authorization": "Bearer wrong"}, {"x-gatepost-signature": "sha256=" + "0" * 64})
    while not stop.is_set():
        for head in heads:
            with contextlib.suppress(OSError, HTTPException):
                connection = HTTPConnection(*place, timeout=5)
                connection.request("POST", "/channels/webhook/room", body, head)
                connection.getresponse().read()
                connection.close()


def page_views(place: Place, stop: Stop) -> None:
    """Visitors without a login, as fast as they can."""
    while not stop.is_set():
        with contextlib.suppress(OSError):
            connection = HTTPConnection(*place, timeout=5)
            for _ in range(50):
                connection.request("GET", "/")
                connection.getresponse().read()
            connection.close()


OUTSIDE: dict[str, Callable[[Place, Stop], None]] = {
    each.__name__: each for each in (half_requests, endless_headers, wide_bodies, wrong_posts, page_views)
}


@contextlib.contextmanager
def attacked(house: House, name: str) -> Iterator[None]:
    if name in ATTACKS:
        house.attack_from_inside(name)
        yield
        return
    processes = multiprocessing.get_context("spawn")
    stop = processes.Event()
    stranger = processes.Process(target=OUTSIDE[name], args=(house.listens, stop), daemon=True)
    stranger.start()
    try:
        yield
    finally:
        stop.set()
        stranger.join(10)
        stranger.kill()


def measure(house: House, name: str, count: int) -> Row:
    before = house.slow_steps()
    with attacked(house, name):
        p99 = house.p99_ms(count)
        return Row(name, p99, house.panic_s(), house.slow_steps() - before)


def rows(names: list[str], count: int = REPLIES) -> tuple[float, list[Row]]:
    """The quiet p99, and a row for each attack. A daemon that does not survive one is replaced, and the row says so."""
    found: list[Row] = []
    quiet = 0.0
    left = list(names)
    while left or not quiet:
        with tempfile.TemporaryDirectory() as folder:
            Path(folder).chmod(0o711)
            with House(Path(folder) / "h") as house:
                house.p99_ms(30)  # the first replies of a daemon are slower, and would flatter the rows below
                quiet = quiet or house.p99_ms(count)
                house.panic_s()
                try:
                    while left:
                        found.append(measure(house, left.pop(0), count))
                except (GatepostError, AssertionError, OSError, httpx2.HTTPError) as error:
                    print(f"{names[len(found)]}: {error}", file=sys.stderr)
                    found.append(Row(names[len(found)], PATIENCE_S * 1000, PATIENCE_S))  # at least: nobody waits longer
                    with contextlib.suppress(OSError):
                        os.kill(house.daemon.pid, signal.SIGKILL)
    return quiet, found


def figures(names: list[str] | None = None, count: int = REPLIES) -> list[Figure]:
    quiet, found = rows(names or [*ATTACKS, *OUTSIDE], count)
    made: list[Figure] = []
    for row in found:
        made.append(within(f"p99 {row.attack}", row.p99_ms, "ms", quiet, TIMES))
        made.append(at_most(f"panic {row.attack}", row.panic_s, "s", PANIC_S, PANIC_S))
    return made


if __name__ == "__main__":
    from measure import table

    print(table(figures(sys.argv[1:] or None)))
