"""Check 8 of the daemon: every form of `listen` gives the right kind, nonsense says what to write instead."""

from pathlib import Path

import pytest

from gatepost.core.errors import SetupError
from gatepost.core.home import Home
from gatepost.core.process.listen_address import (
    CONTROL_SOCKET,
    control_path,
    find_control_path,
    parse,
    render_open_help,
)
from gatepost.core.settings import Config


@pytest.mark.parametrize("text", ["unix:/p/g.sock", "unix:///p/g.sock", "/p/g.sock"])
def test_paseo_8_a_socket_may_be_written_in_three_ways(text: str) -> None:
    found = parse(text)

    assert (found.kind, found.path, str(found)) == ("unix", Path("/p/g.sock"), "unix:/p/g.sock")


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("127.0.0.1:0", "127.0.0.1", 0),
        ("7000", "127.0.0.1", 7000),
        (":7000", "127.0.0.1", 7000),
        ("[::1]:7000", "::1", 7000),
        ("[fe80::1%eth0]:7000", "fe80::1%eth0", 7000),
        ("0.0.0.0:80", "0.0.0.0", 80),
        ("gate.example.org:443", "gate.example.org", 443),
        (" localhost:8420 ", "localhost", 8420),
    ],
)
def test_paseo_8_a_tcp_address_may_leave_out_its_host(text: str, host: str, port: int) -> None:
    found = parse(text)

    assert (found.kind, found.host, found.port) == ("tcp", host, port)


def test_an_address_says_itself_as_it_can_be_opened() -> None:
    assert parse("[::1]:7000").url == "http://[::1]:7000"
    assert parse(":7000").url == "http://127.0.0.1:7000"


def test_a_path_is_made_absolute_and_its_tilde_means_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)

    assert parse("~/g.sock").path == parse("./g.sock").path == parse("unix:g.sock").path == tmp_path / "g.sock"


@pytest.mark.parametrize(
    "text",
    ["nonsense", "", "::1:7000", "[::1]", "[zz]:1", "host:", "host:70000", "host:-1", "host:x", "a b:1", "unix:", "/"],
)
def test_nonsense_is_refused_with_examples(text: str) -> None:
    with pytest.raises(SetupError, match=r"127\.0\.0\.1:8420.*unix:"):
        parse(text)


def test_the_control_socket_lies_in_the_home_unless_it_was_moved(tmp_path: Path) -> None:
    home = Home(tmp_path)

    assert control_path(home, Config()) == tmp_path / "run" / "control.sock"
    assert control_path(home, Config({CONTROL_SOCKET.name: "unix:/run/g.sock"})) == Path("/run/g.sock")


def test_a_command_finds_the_socket_of_a_daemon_that_was_told_otherwise(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.pid_file.write_text('{"pid": 1, "control": "/elsewhere/c.sock"}')

    assert find_control_path(home) == Path("/elsewhere/c.sock")


def test_what_is_set_wins_over_what_a_daemon_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = Home(tmp_path)
    home.pid_file.write_text('{"pid": 1, "control": "/elsewhere/c.sock"}')
    monkeypatch.setenv("GATEPOST_CONTROL_SOCK", "/chosen/c.sock")

    assert find_control_path(home) == Path("/chosen/c.sock")


def test_a_socket_is_told_apart_from_the_token_with_what_to_put_before_it() -> None:
    first, second, *rest = render_open_help("unix:/run/web.sock/#token=abc").splitlines()

    assert (first, second) == ("unix:/run/web.sock", "  token abc")
    assert any("UNIX-CONNECT:/run/web.sock" in line for line in rest)
    assert rest[-1] == "  and open http://127.0.0.1:8420/#token=abc"
    assert render_open_help("http://127.0.0.1:1/#token=abc") == "http://127.0.0.1:1/#token=abc"
