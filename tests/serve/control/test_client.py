"""The control API's client before something on the socket that answers in other terms: nothing is done twice."""

import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from gatepost.cli import operation_runner
from gatepost.cli.conversation import ChatTarget, send
from gatepost.cli.gateway_retry import post_operation, retry_unavailable
from gatepost.cli.operation_runner import run_operation
from gatepost.core.errors import Unavailable
from gatepost.core.home import Home
from gatepost.core.process import home_lock
from gatepost.serve.control import client
from gatepost.serve.control.arguments.users import AddUserArgs
from gatepost.serve.control.client import ControlClient, ControlError, get_result

STRANGE_ANSWERS = [b"", b"Internal Server Error", b"[1]", b"\xff", b"[" * 100_000, b'{"ok": true}', b"{}"]


class StrangeServer(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    """Answers each request with the same bytes. `endless`: again and again."""

    daemon_threads = True

    def __init__(self, path: Path, answer: bytes, *, endless: bool = False) -> None:
        super().__init__(str(path), _StrangeHandler)
        self.answer, self.endless, self.calls = answer, endless, 0


class _StrangeHandler(socketserver.StreamRequestHandler):
    server: StrangeServer

    def handle(self) -> None:
        length = 0
        while line := self.rfile.readline().strip().lower():
            length = int(line.partition(b":")[2]) if line.startswith(b"content-length:") else length
        self.rfile.read(length)
        self.server.calls += 1
        self.wfile.write(b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n" + self.server.answer)
        try:
            while self.server.endless:
                self.wfile.write(self.server.answer)
        except OSError:
            pass  # whoever asked has left


@contextmanager
def serve_strangely(path: Path, answer: bytes, **more: Any) -> Iterator[StrangeServer]:
    with StrangeServer(path, answer, **more) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize("answer", STRANGE_ANSWERS)
def test_a_change_whose_answer_cannot_be_read_is_not_made_again(
    answer: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Home(tmp_path / "home")
    control = ControlClient(tmp_path / "c.sock")
    monkeypatch.setattr(home_lock, "find_holder", lambda home: 1)
    monkeypatch.setattr(operation_runner, "control_of", lambda home: control)
    with serve_strangely(control.path, answer) as server:
        with pytest.raises(Unavailable) as refused:
            run_operation(home, "user.add", {"id": "beacon:user/1"})
        assert refused.value.uncertain and server.calls == 1
        with pytest.raises(Unavailable):
            retry_unavailable(
                lambda: post_operation(control, AddUserArgs, {"id": "beacon:user/1"}), lambda: None, harmless=False
            )
        assert server.calls == 2


def test_a_refusal_without_words_is_a_refusal(tmp_path: Path) -> None:
    with serve_strangely(tmp_path / "c.sock", b'{"ok": false, "error": "no"}'), pytest.raises(ControlError):
        ControlClient(tmp_path / "c.sock").post("/v1/ops/user.add")


def test_a_message_whose_receipt_is_of_another_version_is_an_error_that_names_the_remedy(tmp_path: Path) -> None:
    with (
        serve_strangely(tmp_path / "c.sock", b'{"ok": true, "result": {"message_id": "x"}}'),
        pytest.raises(Unavailable, match="`gatepost up` start this one"),
    ):
        send(ControlClient(tmp_path / "c.sock"), ChatTarget(room="", thread="", sender=""), "hello")


def test_a_stream_of_something_else_is_an_error(tmp_path: Path) -> None:
    with serve_strangely(tmp_path / "c.sock", b"hello\n"), pytest.raises(Unavailable, match="language"):
        list(ControlClient(tmp_path / "c.sock").stream("/v1/chat/stream"))


@pytest.mark.parametrize(("largest", "timeout"), [(10_000, 60.0), (2**40, 0.2)])
def test_an_answer_that_does_not_end_is_left(
    largest: int, timeout: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "LARGEST_ANSWER", largest)
    with (
        serve_strangely(tmp_path / "c.sock", b" ", endless=True),
        pytest.raises(Unavailable, match="does not end") as left,
    ):
        ControlClient(tmp_path / "c.sock").get("/v1/status", timeout)
    assert left.value.uncertain


def test_an_answer_of_several_pieces_is_read_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "_PIECE", 7)
    with serve_strangely(tmp_path / "c.sock", b'{"ok": true, "result": "' + b"x" * 5000 + b'"}'):
        assert get_result(ControlClient(tmp_path / "c.sock").get("/v1/status")) == "x" * 5000
