"""Both of two gateways behind HAProxy are drained and started again, one after the other, under load. A program posts
each message once and retries nothing: it sees no error, and everything is answered once."""

import json
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from gatepost_testing.provider import ScriptBuilder
from gatepost_testing.servers.postgres import PACKAGE, find_programs
from gatepost_testing.storms.cluster import Cluster
from gatepost_testing.waiting import PATIENCE_S, block_until

from .channel_desk import SETTINGS
from .test_gateways_balanced import HAPROXY, balancer, find_port, wait_until_ready

__all__ = ["balancer"]

pytestmark = [
    pytest.mark.alone,
    pytest.mark.skipif(find_programs() is None, reason=f"PostgreSQL is not installed: apt-get install {PACKAGE}"),
    pytest.mark.skipif(HAPROXY is None, reason="HAProxy is not installed: apt-get install haproxy"),
]

ECHO = ScriptBuilder().otherwise().say("echo: {text}")
SECRET = "0123456789abcdef0123456789abcdef"
ROOMS, PAUSE_S = 5, 0.1


class Program:
    """It posts to a room without end, and keeps what is said to it."""

    def __init__(self) -> None:
        self.answers: list[str] = []
        self.sent: list[str] = []
        self.errors: list[str] = []
        self._stopped = threading.Event()
        program = self

        class Target(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                program.answers.append(str(body["text"]))
                self.send_response(200)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                return

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Target)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}/said"

    def start(self, balancer: str) -> None:
        self._posting = threading.Thread(target=self._post_all, args=(balancer,), daemon=True)
        self._posting.start()

    def stop(self) -> None:
        self._stopped.set()
        self._posting.join(PATIENCE_S)

    def _post_all(self, balancer: str) -> None:
        while not self._stopped.wait(PAUSE_S):
            text = f"m{len(self.sent)}"
            room = f"r{len(self.sent) % ROOMS}"
            self.sent.append(text)
            request = urllib.request.Request(
                f"{balancer}/channels/webhook/{room}",
                json.dumps({"text": text, "sender": "p"}).encode(),
                {"authorization": f"Bearer {SECRET}", "content-type": "application/json"},
            )
            begun = time.monotonic()
            try:
                with urllib.request.urlopen(request, timeout=PATIENCE_S):
                    pass
            except (urllib.error.URLError, OSError) as error:
                detail = error.read().decode() if isinstance(error, urllib.error.HTTPError) else ""
                self.errors.append(f"{text} after {time.monotonic() - begun:.2f} s: {error} {detail}")

    def list_echoes(self) -> list[str]:
        return [text.removeprefix("echo: ") for text in self.answers if text.startswith("echo: ")]


@pytest.fixture
def program() -> Iterator[Program]:
    program = Program()
    yield program
    program.server.shutdown()


@pytest.fixture
def cluster(tmp_path: Path, program: Program) -> Iterator[Cluster]:
    toml = f'[channels.webhook]\nkind = "webhook"\nurl = "{program.url}"\n'
    with Cluster(tmp_path, ("a", "b"), toml, **SETTINGS, http_connections_per_peer="0") as cluster:
        assert cluster.first.gatepost("secret", "set", "CHANNEL_WEBHOOK_SECRET", SECRET).returncode == 0
        for room in range(ROOMS):
            done = cluster.first.gatepost("room", "policy", f"webhook:r{room}", "public")
            assert done.returncode == 0, done.stderr
        cluster.share_keys()
        for daemon in cluster.daemons.values():
            daemon.env["GATEPOST_LISTEN"] = f"127.0.0.1:{find_port()}"
            daemon.start()
            ECHO.write(daemon.home / "groups" / "home").chmod(0o644)
        yield cluster


def test_a_rolling_restart_shows_the_sender_no_error(
    cluster: Cluster,
    balancer: str,
    program: Program,
    figures: Callable[[str], None],
) -> None:
    program.start(balancer)
    block_until(lambda: len(program.list_echoes()) >= ROOMS, f"the first answers; {program.errors[:3]}")
    for name in ("a", "b"):
        done = cluster[name].gatepost("down", "--drain")
        assert done.returncode == 0, done.stderr
        block_until(lambda name=name: not cluster[name].is_running, "it to end")  # type: ignore[misc]
        cluster[name].stop()
        cluster[name].start()
        wait_until_ready(cluster, name)
        before = len(program.list_echoes())
        block_until(lambda before=before: len(program.list_echoes()) > before + ROOMS, "more answers")  # type: ignore[misc]
    program.stop()
    assert program.errors == []
    block_until(lambda: cluster.first.json("ledger", "check")["in_flight"] == 0, "everything to be settled")
    assert Counter(program.list_echoes()) == Counter(program.sent)
    assert cluster.first.json("ledger", "check")["unaccounted"] == 0
    figures(f"rolling restart of both under load: {len(program.sent)} posts, no error, all answered once")
