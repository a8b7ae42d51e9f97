"""`gatepost sandbox run`, as an operator uses it."""

import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import nullcontext
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from gatepost.sandboxes.bubblewrap import find_bwrap
from gatepost_testing import fork_server
from gatepost_testing.daemon import DaemonProcess
from gatepost_testing.waiting import PATIENCE_S

pytestmark = pytest.mark.skipif(find_bwrap() is None, reason="bubblewrap is not installed: apt install bubblewrap")


@pytest.fixture(scope="module")
def home() -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="look-"))
    gatepost(path, "group", "add", "acme")
    yield path
    shutil.rmtree(path)


def gatepost(home: Path, *words: str, said: str = "") -> subprocess.CompletedProcess[str]:
    return fork_server.run(["--home", str(home), *words], os.environ, said=said)


@pytest.mark.slow
def test_a_command_runs_in_the_groups_folder_with_our_input_and_output(home: Path) -> None:
    ran = gatepost(
        home, "sandbox", "run", "acme", "--", "sh", "-c", "pwd; id -u; ls work.md; cat; echo no >&2", said="hi"
    )

    assert ran.stdout == "/workspace/agent\n1000\nwork.md\nhi"
    assert ran.stderr == "no\n"


@pytest.mark.slow
def test_its_exit_code_is_ours(home: Path) -> None:
    assert gatepost(home, "sandbox", "run", "acme", "--", "sh", "-c", "exit 7").returncode == 7
    assert gatepost(home, "sandbox", "run", "acme", "nosuch").returncode == 127


@pytest.mark.slow
def test_nothing_of_it_is_left(home: Path) -> None:
    gatepost(home, "sandbox", "run", "acme", "--", "sh", "-c", "mkdir -p ../out/a/b; touch ../out/a/b/c")

    assert list((home / "sessions").iterdir()) == []
    assert list((home / "run" / "s").iterdir()) == []


def test_a_group_that_is_not_there_is_named(home: Path) -> None:
    ran = gatepost(home, "sandbox", "run", "nobody", "--", "ls")

    assert ran.returncode == 1
    assert "nobody" in ran.stderr
    assert "Traceback" not in ran.stderr


def test_without_a_command_it_says_what_is_missing(home: Path) -> None:
    assert gatepost(home, "sandbox", "run", "acme", "--").returncode == 2


@pytest.fixture
def page() -> Iterator[int]:
    """A server of this machine; its port."""

    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("content-length", "5")
            self.end_headers()
            self.wfile.write(b"hello")

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Page)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_port
    server.shutdown()
    server.server_close()


needs_curl = pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")


@pytest.mark.slow
@needs_curl
@pytest.mark.parametrize("up", [False, True], ids=["down", "up"])
def test_what_may_not_be_reached_is_refused_with_a_reason_and_one_audit_row(tmp_path: Path, up: bool) -> None:
    tmp_path.chmod(0o711)
    daemon = DaemonProcess(tmp_path / "h")
    gatepost(daemon.home, "group", "add", "acme")
    with daemon if up else nullcontext():
        ran = gatepost(daemon.home, "sandbox", "run", "--folder", "acme", "--", "curl", "-sS", "https://example.com")
        rows = gatepost(daemon.home, "audit", "list", "--json").stdout

    assert ran.returncode != 0 and ran.stdout == ""
    assert "gatepost: example.com:443 is not allowed for acme" in ran.stderr
    assert rows.count("example.com:443 is not allowed") == 1


@pytest.mark.slow
@needs_curl
def test_an_allowed_host_is_reached_and_nothing_is_told(tmp_path: Path, page: int) -> None:
    tmp_path.chmod(0o711)
    home = tmp_path / "h"
    gatepost(home, "group", "add", "acme")
    look = ("sandbox", "run", "acme", "--", "curl", "-sS", "--noproxy", "", f"http://localhost:{page}/")
    before = gatepost(home, *look)
    gatepost(home, "egress", "allow", f"localhost:{page}", "--folder", "acme")
    after = gatepost(home, *look)

    assert "is not allowed" in before.stdout and "is not allowed" in before.stderr
    assert (after.returncode, after.stdout, after.stderr) == (0, "hello", "")


@pytest.mark.parametrize("up", [False, True], ids=["down", "up"])
@pytest.mark.slow
def test_a_panic_ends_it_cuts_its_way_out_and_lets_none_start(tmp_path: Path, up: bool) -> None:
    tmp_path.chmod(0o711)
    daemon = DaemonProcess(tmp_path / "h")
    gatepost(daemon.home, "group", "add", "acme")
    command = [sys.executable, "-m", "gatepost", "--home", str(daemon.home), "sandbox", "run", "acme", "--"]
    with daemon if up else nullcontext():
        running = subprocess.Popen(
            [*command, "sh", "-c", "echo here; sleep 600"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert running.stdout is not None and running.stdout.readline() == "here\n"
        gatepost(daemon.home, "panic")
        _, told = running.communicate(timeout=PATIENCE_S)
        refused = gatepost(daemon.home, "sandbox", "run", "acme", "--", "true")
        gatepost(daemon.home, "panic", "--off")
        again = gatepost(daemon.home, "sandbox", "run", "acme", "--", "true")

    assert running.returncode == 137 and "everything is stopped" in told
    assert refused.returncode == 1 and "`gatepost panic --off`" in refused.stderr
    assert again.returncode == 0
