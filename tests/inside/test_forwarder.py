"""The forwarder: from a port of the sandbox's own loopback to egress.sock."""

import asyncio
import json
import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gatepost.core.clock import SystemClock
from gatepost.core.home import Home
from gatepost.core.registry import load_package
from gatepost.core.settings import Config
from gatepost.egress.egress_socket import EgressSocket
from gatepost.egress.model_proxy import ModelProxy
from gatepost.egress.way_out import EgressDeps
from gatepost.flow.groups import make_folder
from gatepost.flow.sessions.host.host_uids import sandbox_uid
from gatepost.flow.sessions.sandbox.sandbox_plan import make_sandbox_plan, prepare_folders
from gatepost.inside import forwarder
from gatepost.sandboxes import bubblewrap
from gatepost.sandboxes.bubblewrap import Bubblewrap
from gatepost.sandboxes.contract import Sandbox
from gatepost.store.engine.sqlite_store import SqliteStore
from gatepost.store.sessions import groups
from gatepost.tools.call import Caller
from gatepost_testing.waiting import PATIENCE_S

load_package("gatepost.sandboxes")


@pytest.fixture
async def echo(tmp_path: Path) -> AsyncIterator[Path]:
    """An egress.sock that says what it heard once the client has done."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard = await reader.read()
        writer.write(b"heard %d" % len(heard))
        writer.close()

    server = await asyncio.start_unix_server(serve, tmp_path / forwarder.SOCKET)
    yield tmp_path
    server.close()


def ask(port: int, data: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as client:
        client.sendall(data)
        client.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: client.recv(65536), b""))


async def test_bytes_go_both_ways(echo: Path) -> None:
    port = forwarder.start(echo)
    answers = await asyncio.gather(*(asyncio.to_thread(ask, port, b"x" * size) for size in (0, 10, 1_000_000)))
    assert answers == [b"heard 0", b"heard 10", b"heard 1000000"]


@pytest.mark.parametrize(("status", "seen"), [(429, b"503"), (200, b"200")])
async def test_a_client_that_gives_up_when_it_was_too_fast_sees_another_status(
    tmp_path: Path, status: int, seen: bytes
) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.write(b"HTTP/1.1 %d So it is\r\n\r\nHTTP/1.1 429 in the body" % status)
        writer.close()

    async with await asyncio.start_unix_server(serve, tmp_path / forwarder.SOCKET):
        answer = await asyncio.to_thread(ask, forwarder.start(tmp_path, busy_status=503), b"x")

    assert answer == b"HTTP/1.1 %s So it is\r\n\r\nHTTP/1.1 429 in the body" % seen


def test_a_taken_port_is_said_and_a_closed_way_ends_the_connection(tmp_path: Path) -> None:
    port = forwarder.start(tmp_path)
    assert ask(port, b"") == b""
    with pytest.raises(OSError, match="in use"):
        forwarder.start(tmp_path, port)


def test_the_variables_lead_here_and_hold_no_key() -> None:
    env = forwarder.environment(3128)
    assert env["HTTPS_PROXY"] == env["http_proxy"] == "http://127.0.0.1:3128"
    assert env["NO_PROXY"] == "127.0.0.1,localhost"
    assert env["ANTHROPIC_BASE_URL"] == "http://127.0.0.1:3128/anthropic"
    assert env["OPENAI_BASE_URL"] == "http://127.0.0.1:3128/openai/v1"
    assert env["GATEPOST_TO"] == "http://127.0.0.1:3128/to"
    assert env["GOOGLE_GEMINI_BASE_URL"] == "http://127.0.0.1:3128/google"
    assert {env["ANTHROPIC_API_KEY"], env["OPENAI_API_KEY"], env["GEMINI_API_KEY"]} == {"gatepost"}


async def test_it_runs_as_a_process_with_the_standard_library_alone(echo: Path) -> None:
    command = (sys.executable, "-I", "-S", forwarder.__file__, str(echo), "0")
    process = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE)
    assert process.stdout is not None
    port = int(await process.stdout.readline())
    assert await asyncio.to_thread(ask, port, b"hello") == b"heard 5"
    process.terminate()
    await process.wait()


INSIDE = """
import http.client, json, sys
from pathlib import Path
sys.path.append("/opt/gatepost/lib")
from gatepost.inside import forwarder
port = forwarder.start(Path("/run/gatepost"))
def ask(method, path):
    link = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    link.request(method, path)
    answer = link.getresponse()
    return [answer.status, answer.read().decode()]
found = [ask("GET", "http://example.com/"), ask("GET", "/anthropic/v1/files")]
Path("/workspace/out/found.json").write_text(json.dumps(found))
"""


class NoPurse:
    """Nothing is called here."""

    async def get(self, name: str, spender: object, purpose: str = "") -> None:
        return None

    room = reserve = settle = get


@pytest.mark.skipif(bubblewrap.find_bwrap() is None, reason="bubblewrap is not installed: apt install bubblewrap")
async def test_a_sandbox_without_a_network_is_told_why_it_reaches_nothing(tmp_path: Path, store: SqliteStore) -> None:
    home, config = Home(Path(os.path.realpath(tmp_path)) / "home"), Config()
    home.prepare()
    await store.write(groups.add, "acme", "acme", "scripted", 1)
    group = await store.read(groups.get, "acme")
    assert group is not None
    for folder in (tmp_path, *list(tmp_path.parents)[:3]):
        if folder != Path("/tmp"):
            folder.chmod(folder.stat().st_mode | 0o011)  # the sandbox's uid passes through
    make_folder(home, "acme", sandbox_uid(config), name="acme")
    prepare_folders(home, config, group, "session-1")
    layout = make_sandbox_plan(
        home,
        config,
        group,
        "session-1",
        provider="scripted",
        command=("/opt/gatepost/python/bin/python3", "-c", INSIDE),
    )
    started: list[Sandbox] = []
    purse = NoPurse()
    models = ModelProxy(config, purse, purse, lambda model: None)
    deps = EgressDeps(store=store, clock=SystemClock(), models=models, keys=purse)
    way = EgressSocket(deps, Caller("acme", "session-1"), lambda pid: bool(started) and started[0].owns(pid))
    await way.open(home.sockets_of("session-1") / forwarder.SOCKET, layout.uid)
    try:
        started.append(await Bubblewrap(config).start(layout))
        assert await started[0].wait() == 0
    finally:
        await way.close()
        await models.close()

    refused, unknown = json.loads((home.session("session-1") / "out" / "found.json").read_text())
    assert refused[0] == 403 and "example.com:80 is not allowed for acme" in refused[1]
    assert unknown[0] == 404 and "no model endpoint" in unknown[1]


@pytest.mark.parametrize("asked", [b"POST /openai/v1/responses HTTP/1.1\r\n\r\n", b"GET /refused HTTP/1.1\r\n\r\n"])
def test_a_call_of_the_model_is_reported_when_it_begins_and_with_its_tail_when_it_ends(asked: bytes) -> None:
    seen: list[forwarder.ModelCallBegin | forwarder.ModelCallEnd] = []
    watch = forwarder.ModelCallWatch(seen.append)
    watch.send(asked)
    watch.send(b"and more")
    watch.receive(b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * forwarder.LARGEST_BEGINNING)
    watch.receive(b"the end")
    watch.end(left=False)

    if asked.startswith(b"GET"):
        assert seen == []
        return
    begin, end = seen
    assert isinstance(begin, forwarder.ModelCallBegin) and isinstance(end, forwarder.ModelCallEnd)
    assert len(end.tail) == forwarder.LARGEST_TAIL and end.tail.endswith(b"xthe end")
    assert len(end.body) < forwarder.LARGEST_BEGINNING and b"the end" not in end.body
