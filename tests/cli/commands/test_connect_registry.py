"""`gatepost connect acp:ID`: what the ACP registry says is shown, and nothing of it is kept unless somebody agrees."""

import io
import json
import os
import shlex
import ssl
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from tests.cli.conftest import Ran

from gatepost.cli.connect_steps import choose_command
from gatepost.core.errors import GatepostError, Invalid, SetupError
from gatepost.core.home import Home
from gatepost.core.record_changes import parse_texts
from gatepost.serve.control.agent_registry import LARGEST, LONGEST, find_command
from gatepost.serve.control.arguments.groups import GroupChange
from gatepost.serve.control.connectable_agents import get_agent
from gatepost.store.engine.readonly import read_snapshot
from gatepost.store.sessions import groups
from gatepost.store.sessions.groups import Group
from gatepost_testing.clients.terminal import PtyTerminal

Run = Callable[..., Ran]
GROUP = Group(folder="home", name="Home", created_at=0)
DOUBLE = Path(__file__).parents[2] / "inside" / "providers" / "acp_agent.py"
PLATFORMS = [f"{system}-{machine}" for system in ("linux", "darwin") for machine in ("x86_64", "aarch64")]


@pytest.fixture
def home(bare_home: Home) -> Home:
    """What nobody agrees to must not even make a store."""
    return bare_home


def agent(name: str, **distribution: Any) -> dict[str, Any]:
    about = {"version": "1.2.3", "description": "An agent.", "license": "MIT", "authors": ["Ann"]}
    return {"id": name, "name": name.title(), **about, "distribution": distribution}


def binary(cmd: str, **more: Any) -> dict[str, Any]:
    return {each: {"archive": "https://example.com/a.tar.gz", "cmd": cmd, **more} for each in PLATFORMS}


AGENTS = [
    agent("plum", npx={"package": "@fruit/plum@1.2.3", "args": ["--acp"], "env": {"PLUM_MODE": "ripe fruit"}}),
    agent("pear", uvx={"package": "pear==1", "cmd": "pear-acp"}),
    agent("fig", npx={"package": "fig", "cmd": "fig-acp", "args": ["a b"]}),
    agent("kiwi", binary=binary("./dist/kiwi", args=["acp"]), npx={"package": "kiwi"}),
    agent("mango", binary={"windows-x86_64": {"archive": "https://example.com/a.zip", "cmd": "./mango.exe"}}),
]


@pytest.fixture(autouse=True)
def registry(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    return write(monkeypatch, tmp_path / "registry.json", {"version": "1.0.0", "agents": AGENTS})


def write(monkeypatch: pytest.MonkeyPatch, path: Path, told: Any) -> Path:
    path.write_text(told if isinstance(told, str) else json.dumps(told))
    monkeypatch.setenv("GATEPOST_PROVIDERS_ACP_REGISTRY", str(path))
    return path


def said(_: str) -> None:
    """Nobody reads it."""


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("plum", "npx --yes @fruit/plum@1.2.3 --acp"),
        ("pear", "uvx --from pear==1 pear-acp"),
        ("fig", "npx --yes --package fig fig-acp 'a b'"),
        ("kiwi", "kiwi acp"),
    ],
)
def test_each_way_to_have_an_agent_is_a_command(home: Home, name: str, command: str) -> None:
    assert shlex.join(find_command(home, name, said).words) == command


def test_an_agent_that_is_not_there_or_not_for_this_machine_is_said(home: Home) -> None:
    with pytest.raises(Invalid, match="did you mean 'plum'"):
        find_command(home, "plumm", said)
    with pytest.raises(Invalid, match="no mango for this machine"):
        find_command(home, "mango", said)


@pytest.mark.parametrize("more", [(), ("--yes",)])
def test_without_somebody_who_agrees_the_command_is_shown_and_nothing_is_kept(
    run: Run, home: Home, monkeypatch: pytest.MonkeyPatch, more: tuple[str, ...]
) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal("y\n") if more else io.StringIO("y\n"))
    told = run("connect", "acp:plum", *more)

    assert told.code == 1 and not home.store.exists()
    assert "Plum 1.2.3 of the ACP registry is started by: npx --yes @fruit/plum@1.2.3 --acp" in told.out
    assert "PLUM_MODE=ripe fruit" in told.out
    assert "gatepost connect acp --command 'npx --yes @fruit/plum@1.2.3 --acp'" in told.err


def test_what_is_agreed_to_becomes_options_of_the_group(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    def choose(answer: str) -> dict[str, str]:
        monkeypatch.setattr(sys, "stdin", Terminal(answer))
        return choose_command(home, get_agent(home, "acp"), GROUP, "", "plum", said, ask=True)

    texts = {f"options.{name}": raw for name, raw in choose("y\n").items()}
    options = parse_texts(GroupChange, texts, "group")["options"]
    assert options == {"command": "npx --yes @fruit/plum@1.2.3 --acp", "env": {"PLUM_MODE": "ripe fruit"}}
    for no in ("n\n", "\n"):
        with pytest.raises(Invalid, match="nothing was changed"):
            choose(no)


@pytest.mark.slow
def test_at_a_terminal_an_agent_is_connected_by_its_name(
    home: Home, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program = tmp_path / "apricot"
    program.write_text(f"#!{sys.executable}\n{DOUBLE.read_text()}")
    program.chmod(0o755)
    listed = agent("apricot", binary=binary("./apricot", env={"CAN": "load resume"}))
    write(monkeypatch, tmp_path / "r.json", {"version": "1.0.0", "agents": [listed]})
    given = {"SANDBOX_KIND": "process", "PROGRAMS": f"apricot={program}"}
    env = {
        **os.environ,
        **{f"GATEPOST_{name}": value for name, value in given.items()},
        "ANTHROPIC_API_KEY": "sk-ant-0",
    }
    with PtyTerminal(env, "connect", "acp:apricot") as terminal:
        terminal.expect("is started by: apricot")
        terminal.expect("[y/N]")
        terminal.type("y")
        terminal.expect("home now runs on acp")

    group = read_snapshot(home.store, groups.get, "home")
    assert group is not None and group.provider == "acp"
    assert group.options == {"command": "apricot", "env": {"CAN": "load resume"}}


def test_a_program_that_is_not_installed_is_said_with_where_it_comes_from(run: Run) -> None:
    told = run("connect", "acp:kiwi")

    assert "kiwi is not on this machine; install it first: https://example.com/a.tar.gz" in told.out


def test_a_name_of_the_registry_is_for_the_provider_that_starts_any_program(run: Run) -> None:
    assert "belongs to acp" in run("connect", "claude:plum").err
    assert "give one of the two" in run("connect", "acp:plum", "--command", "x").err


# The registry is a stranger's.


@pytest.mark.parametrize(
    "listed",
    [
        agent("evil", npx={"package": "--call=sh"}),
        agent("evil", npx={"package": "p", "cmd": "-x"}),
        agent("evil", npx={"package": ""}),
        agent("evil", npx={"package": "p", "args": ["\x1b[2K"]}),
        agent("evil", npx={"package": "p", "args": ["a\nb"]}),
        agent("evil", npx={"package": "p", "args": ["x" * LONGEST]}),
        agent("evil", npx={"package": "p", "env": {"A": "\x1b[2K"}}),
        agent("evil", npx={"package": "p", "env": {"A=B": "c"}}),
        agent("evil", binary=binary("/")),
        {**agent("evil", npx={"package": "p"}), "name": "\x1b[2K"},
        {**agent("evil", npx={"package": "p"}), "id": "\x1b[2K"},
        agent("evil", npx={"package": "p", "args": "x"}),
    ],
)
def test_stranger_a_command_that_cannot_be_shown_as_it_is_run_is_refused(
    home: Home, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, listed: dict[str, Any]
) -> None:
    write(monkeypatch, tmp_path / "r.json", {"agents": [listed]})
    with pytest.raises(GatepostError, match=r"no sound command|is no ACP registry"):
        find_command(home, "evil", said)


@pytest.mark.parametrize("told", ["", "[]", "{}", '{"agents": 1}', "[" * 100_000, " " * (LARGEST + 1)])
def test_stranger_a_file_that_is_no_registry_is_refused(
    home: Home, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, told: str
) -> None:
    write(monkeypatch, tmp_path / "r.json", told)
    with pytest.raises(SetupError, match=r"providers\.acp\.registry"):
        find_command(home, "plum", said)


# Fetched from this machine.


@contextmanager
def served(folder: Path, answers: dict[str, tuple[int, bytes]]) -> Iterator[tuple[str, list[str]]]:
    """An https server for `localhost`: its address, and the paths that it was asked for."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    begin, end = datetime(2020, 1, 1, tzinfo=UTC), datetime(2120, 1, 1, tzinfo=UTC)
    builder = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number(), begin, end)
    builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
    pem = builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    kind, plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    (folder / "cert.pem").write_bytes(pem)
    (folder / "both.pem").write_bytes(pem + key.private_bytes(serialization.Encoding.PEM, kind, plain))
    asked: list[str] = []

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            status, body = answers[self.path]
            self.send_response(status)
            self.send_header("Location", "/registry.json")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None: ...

    server = HTTPServer(("127.0.0.1", 0), Answers)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(folder / "both.pem")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"https://localhost:{server.server_port}", asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "cert.pem"))
    for name in ("https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.usefixtures("trusted")
def test_a_url_is_fetched_once_and_kept_in_the_home(
    home: Home, registry: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    with served(tmp_path, {"/registry.json": (200, registry.read_bytes())}) as (address, asked):
        monkeypatch.setenv("GATEPOST_PROVIDERS_ACP_REGISTRY", f"{address}/registry.json")
        first = find_command(home, "plum", told.append)
        second = find_command(home, "plum", told.append)

    (kept,) = home.path.glob("acp-registry-*.json")
    assert first == second and asked == ["/registry.json"]
    assert told == [f"fetching {address}/registry.json into {kept}"]
    assert kept.stat().st_mode & 0o777 == 0o600


@pytest.mark.usefixtures("trusted")
@pytest.mark.parametrize("path", ["/elsewhere", "/missing", "/nonsense", "/huge"])
def test_stranger_a_redirect_an_error_and_what_is_no_registry_are_not_kept(
    home: Home, registry: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    answers = {"/registry.json": (200, registry.read_bytes()), "/elsewhere": (302, b""), "/missing": (404, b"{}")}
    answers |= {"/nonsense": (200, b"<html>"), "/huge": (200, b" " * (LARGEST + 1))}
    with served(tmp_path, answers) as (address, asked):
        monkeypatch.setenv("GATEPOST_PROVIDERS_ACP_REGISTRY", address + path)
        with pytest.raises(SetupError, match=r"providers\.acp\.registry"):
            find_command(home, "plum", said)

    assert asked == [path] and not list(home.path.glob("acp-registry-*"))


@pytest.mark.parametrize("url", ["http://127.0.0.1:1/r.json", "file:///etc/passwd", "ftp://127.0.0.1/r.json"])
def test_stranger_nothing_but_https_is_fetched(home: Home, monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setenv("GATEPOST_PROVIDERS_ACP_REGISTRY", url)
    with pytest.raises(SetupError, match="neither a file nor an https URL"):
        find_command(home, "plum", said)
