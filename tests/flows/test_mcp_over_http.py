"""A group's tools over HTTP, on a real daemon: by its socket, by TCP with the token, and through the bridge."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from gatepost.core.home import Home
from gatepost.serve.agents import bridge
from gatepost_testing.clients.mcp_http_client import BOTH, INITIALIZE, make_call_params, make_request, parse_answer
from gatepost_testing.daemon import DaemonProcess
from gatepost_testing.provider import ScriptBuilder
from gatepost_testing.waiting import PATIENCE_S

pytestmark = pytest.mark.slow  # real clients and processes, again and again

PATH = "/mcp/groups/home"
HEADERS = {"accept": BOTH, "content-type": "application/json"}


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[DaemonProcess]:
    with DaemonProcess(tmp_path / "h", sandbox_kind="process", control_listen="127.0.0.1:0") as daemon:
        yield daemon


def by_socket(daemon: DaemonProcess) -> httpx2.Client:
    transport = httpx2.HTTPTransport(uds=str(Home(daemon.home).control))
    return httpx2.Client(transport=transport, base_url="http://localhost", headers=HEADERS, timeout=PATIENCE_S)


def by_tcp(daemon: DaemonProcess) -> httpx2.Client:
    with by_socket(daemon) as client:
        listens = client.get("/v1/status").json()["result"]["control_listen"]
    return httpx2.Client(base_url=f"http://{listens}", headers=HEADERS, timeout=PATIENCE_S)


def token(daemon: DaemonProcess) -> dict[str, str]:
    return {"authorization": f"Bearer {(daemon.home / 'control.token').read_text().strip()}"}


def initialized(client: httpx2.Client, **headers: str) -> dict[str, str]:
    answer = client.post(PATH, content=json.dumps(make_request("initialize", INITIALIZE)), headers=headers)
    assert answer.status_code == 200
    return {"mcp-session-id": answer.headers["mcp-session-id"], **headers}


def call(client: httpx2.Client, session: dict[str, str], name: str, **arguments: object) -> dict[str, Any]:
    body = json.dumps(make_request("tools/call", make_call_params(name, None, **arguments)))
    return parse_answer(client.post(PATH, content=body, headers=session))


def test_paseo_14_on_the_socket_no_name_and_no_token_is_asked_for(daemon: DaemonProcess) -> None:
    with by_socket(daemon) as client:
        session = initialized(client, host="evil.example")
        assert call(client, session, "list_routes")["result"]["isError"] is False


def test_paseo_14_and_15_on_tcp_both_are(daemon: DaemonProcess) -> None:
    body = json.dumps(make_request("initialize", INITIALIZE))
    with by_tcp(daemon) as client:
        assert client.post(PATH, content=body).status_code == 401
        assert client.post(PATH, content=body, headers={**token(daemon), "host": "evil.example"}).status_code == 403
        session = initialized(client, **token(daemon))
        assert call(client, session, "list_routes")["result"]["isError"] is False
        without = {name: value for name, value in session.items() if name != "authorization"}
        assert client.post(PATH, content=json.dumps(make_request("tools/list")), headers=without).status_code == 401


def test_stranger_e_a_wrong_control_token_is_written_to_the_audit(daemon: DaemonProcess) -> None:
    with by_tcp(daemon) as client:
        assert client.get("/v1/status", headers={"authorization": "Bearer wrong"}).status_code == 401
    rows = daemon.read_audit("door.token")

    assert [(row["actor"], row["verdict"]) for row in rows] == [("peer:127.0.0.1", "refused")]
    assert rows[0]["details"] == {"where": "control.listen", "times": 1}


def test_paseo_15_agents_reach_their_own_server_although_a_token_is_set(tmp_path: Path) -> None:
    home = Home(tmp_path / "h")
    home.prepare()
    ScriptBuilder().otherwise().call("list_routes").say("I found: {result}").write(home.group("home"))
    settings = {"sandbox_kind": "process", "sessions_provider": "scripted", "control_listen": "127.0.0.1:0"}
    with DaemonProcess(home.path, **settings) as daemon:
        assert (home.path / "control.token").exists()
        answer = daemon.gatepost("chat", "-m", "hello", "--wait").stdout
    assert 'I found: {"routes":[{"match":"","target":"home"' in answer


def test_what_an_operator_does_is_audited_as_the_groups(daemon: DaemonProcess) -> None:
    with by_socket(daemon) as client:
        call(client, initialized(client), "add_route", route={"pattern": "terminal:x/*", "target": "home"})
    assert "agent:home" in [row["actor"] for row in daemon.read_audit("add_route")]


@pytest.mark.parametrize(("path", "tool"), [(PATH, "list_routes"), ("/mcp/agents", "list_agents")])
def test_through_the_bridge_with_the_token(daemon: DaemonProcess, path: str, tool: str) -> None:
    with by_tcp(daemon) as client:
        url = f"{client.base_url}".rstrip("/") + path
    words = bridge.command(url, str(daemon.home / "control.token"))
    command = [each.replace("sys.exit", f"bridge.PATIENCE_S = {PATIENCE_S}; sys.exit") for each in words]
    lines = [make_request("initialize", INITIALIZE, 0), make_request("tools/call", make_call_params(tool), 1)]
    given = "".join(json.dumps(line) + "\n" for line in lines)
    done = subprocess.run(command, input=given, capture_output=True, text=True, timeout=PATIENCE_S, check=True)
    answers = {each["id"]: each for each in map(json.loads, done.stdout.splitlines())}
    assert answers[1]["result"]["isError"] is False


def test_an_open_stream_does_not_hold_up_the_end(daemon: DaemonProcess) -> None:
    with by_socket(daemon) as client:
        session = initialized(client)
        with client.stream(
            "GET", PATH, headers={**session, "accept": "text/event-stream"}, timeout=PATIENCE_S
        ) as stream:
            assert daemon.stop() == 0
            assert list(stream.iter_lines()) == []
