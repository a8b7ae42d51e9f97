"""The control API over its real socket, by its own client."""

import asyncio
import http.client
import json
import socket
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from gatepost.core.clock import SystemClock
from gatepost.core.errors import GatepostError, Refused, Unavailable
from gatepost.core.event_bus import EventBus
from gatepost.core.home import Home
from gatepost.core.process.listen_address import ListenAddress
from gatepost.core.registry import Registry
from gatepost.core.settings import Config
from gatepost.messages.outbound import Draft
from gatepost.serve.control import contract
from gatepost.serve.control.answers import to_json
from gatepost.serve.control.api import LARGEST_BODY, ApiDeps, make_api
from gatepost.serve.control.client import ControlClient, ControlError
from gatepost.serve.control.contract import Operation, OperationDeps
from gatepost.serve.control.daemon_status import DaemonStatus
from gatepost.serve.control.declaration import OperationArgs, declares
from gatepost.serve.http import HttpServer, bind
from gatepost.store.engine.sqlite_store import SqliteStore
from gatepost_testing.waiting import PATIENCE_S

STATUS = DaemonStatus(pid=9, version="1", channels=["terminal"])
OPERATIONS: Registry[Operation] = Registry("operation")
operation = partial(contract.operation, registry=OPERATIONS)


@declares("greet", right="test")
class Greeting(OperationArgs[Any]):
    name: str


@declares("forbid", right="test")
class ForbidArgs(OperationArgs[Any]):
    """No arguments."""


@declares("break", right="test")
class BreakArgs(OperationArgs[Any]):
    """No arguments."""


@operation
async def greet(operation_deps: OperationDeps, args: Greeting) -> dict[str, str]:
    return {"said": f"hello {args.name}"}


@operation
async def forbid(operation_deps: OperationDeps, args: ForbidArgs) -> None:
    raise Refused("terminal:eve", "do that")


@operation
async def break_down(operation_deps: OperationDeps, args: BreakArgs) -> None:
    raise RuntimeError("secret detail")


@declares("keep", right="test")
class Number(OperationArgs[Any]):
    number: int


@operation
async def keep(operation_deps: OperationDeps, args: Number) -> None:
    await operation_deps.store.read(lambda db: db.row("SELECT ?", (args.number,)))


class Running:
    def __init__(self, path: Path, terminal: Any) -> None:
        self.control, self.path, self.terminal = ControlClient(path), path, terminal
        self.stopping = asyncio.Event()
        self.was_told_to_stop = False

    def shutdown(self) -> None:
        self.was_told_to_stop = True

    async def ask(self, method: str, *args: Any) -> Any:
        return await asyncio.to_thread(getattr(self.control, method), *args)


@pytest.fixture
async def api(store: SqliteStore, home: Home, terminal: Any) -> AsyncIterator[Running]:
    running = Running(home.control, terminal)

    async def new_login(person: str) -> str:
        return f"http://127.0.0.1:1/#token=x{person}"

    async def status() -> DaemonStatus:
        return STATUS

    operation_deps = OperationDeps(home=home, store=store, clock=SystemClock(), config=Config(), events=EventBus())
    parts = ApiDeps(
        operation_deps=operation_deps,
        terminal=terminal.hub,
        status=status,
        shutdown=running.shutdown,
        new_login=new_login,
        stopping=running.stopping,
        operations=OPERATIONS,
    )
    server = HttpServer(make_api(parts), bind(ListenAddress("unix", path=home.control)))
    task = asyncio.create_task(server.run())
    yield running
    running.stopping.set()
    server.stop()
    await asyncio.wait_for(task, PATIENCE_S)


async def test_health_status_login_and_shutdown(api: Running) -> None:
    assert (await api.ask("get", "/v1/health"))["status"] == "ok"
    assert (await api.ask("get", "/v1/status"))["result"] == to_json(STATUS)
    assert (await api.ask("post", "/v1/login"))["result"]["url"].startswith("http://")
    assert (await api.ask("post", "/v1/login?user=fake%3Auser%2F1"))["result"]["url"].endswith("xfake:user/1")
    await api.ask("post", "/v1/shutdown")
    assert api.was_told_to_stop


async def test_an_operation_is_run_by_its_name(api: Running) -> None:
    assert (await api.ask("post", "/v1/ops/greet", {"name": "Ann"}))["result"] == {"said": "hello Ann"}


async def test_the_openapi_document_describes_each_operation(api: Running) -> None:
    told = await api.ask("get", "/openapi.json")

    method = told["paths"]["/v1/ops/greet"]["post"]
    assert told["openapi"] == "3.1.0" and {"/v1/health", "/v1/status"} <= set(told["paths"])
    assert (method["operationId"], method["x-right"]) == ("greet", "op:test")
    given = told["components"]["schemas"]["Greeting"]
    assert (given["required"], given["additionalProperties"]) == (["name"], False)
    assert method["responses"]["default"]["content"]["application/json"]["schema"]["$ref"].endswith("/Error")


@pytest.mark.parametrize(
    ("path", "body", "kind"),
    [
        ("/v1/ops/greet", {}, "invalid"),
        ("/v1/ops/nothing", {}, "not_found"),
        ("/v1/ops/forbid", {}, "refused"),
        ("/v1/nowhere", {}, "not_found"),
        ("/v1/health", {}, "not_found"),
        ("/v1/chat", {"text": "x", "extra": 1}, "invalid"),
        ("/v1/chat", {"text": "x", "as": "telegram:user/1"}, "invalid"),
    ],
)
async def test_a_refusal_names_its_kind(api: Running, path: str, body: dict[str, Any], kind: str) -> None:
    with pytest.raises(ControlError) as caught:
        await api.ask("post", path, body)
    assert caught.value.kind == kind


@pytest.mark.parametrize("path", ["/v1/nowhere", "/v1/health/", "/v1/ops/greet"])
async def test_who_gives_no_host_does_not_learn_where_the_socket_lies(api: Running, path: str) -> None:
    reader, writer = await asyncio.open_unix_connection(api.path)
    writer.write(f"GET {path} HTTP/1.0\r\n\r\n".encode())
    answer = (await asyncio.wait_for(reader.read(), PATIENCE_S)).decode()
    writer.close()
    assert path.rstrip("/") in answer
    assert str(api.path.parent) not in answer


async def test_a_breakdown_shows_no_inner_detail(api: Running) -> None:
    with pytest.raises(ControlError) as caught:
        await api.ask("post", "/v1/ops/break", {})
    assert caught.value.kind == "internal"
    assert "secret" not in str(caught.value)


def post_raw(path: Path, body: bytes, kind: str = "application/json") -> tuple[int, dict[str, Any]]:
    connection = http.client.HTTPConnection("localhost", timeout=PATIENCE_S)
    connection.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.sock.settimeout(PATIENCE_S)
    connection.sock.connect(str(path))
    connection.request("POST", "/v1/ops/greet", body, {"content-type": kind})
    response = connection.getresponse()
    answer = response.status, json.loads(response.read())
    connection.close()
    return answer


@pytest.mark.parametrize(
    ("body", "kind", "status"),
    [
        (b"{bad", "application/json", 400),
        (b"[1]", "application/json", 400),
        (b'{"name": "x"}', "text/plain", 400),
        (b"[" * 100_000, "application/json", 400),
        (b'{"name": "' + b"x" * LARGEST_BODY + b'"}', "application/json", 413),
        (b'{"name": "' + b"x" * 1_000_000 + b'"}', "application/json", 200),
    ],
)
async def test_only_json_objects_within_the_limit_are_taken(api: Running, body: bytes, kind: str, status: int) -> None:
    got, answer = await asyncio.to_thread(post_raw, api.path, body, kind)
    assert got == status
    assert answer["ok"] is (status == 200)


async def test_a_message_is_accepted_once_under_its_id_and_answered(api: Running) -> None:
    first = (await api.ask("post", "/v1/chat", {"text": "hello", "id": "k1"}))["result"]
    again = (await api.ask("post", "/v1/chat", {"text": "hello", "id": "k1"}))["result"]
    answer = (await api.ask("get", f"/v1/chat/wait?message={first['message_id']}&timeout=30"))["result"]

    assert (first["new"], again["new"]) == (True, False)
    assert first["message_id"] == again["message_id"]
    assert answer["done"]
    assert [reply["text"] for reply in answer["replies"]] == ["You said: hello"]


async def test_a_stream_tells_replies_and_resumes_at_its_cursor(api: Running) -> None:
    def until(stream: Any, wanted: str) -> int:
        cursor = -1
        found = False
        for event in stream:
            if event["type"] == "message" and event["text"] == wanted:
                found = True
            if event["type"] == "cursor":
                cursor = event["cursor"]
                if found:
                    return cursor
        raise AssertionError("the stream ended")

    await api.ask("post", "/v1/chat", {"text": "one"})
    first = api.control.stream("/v1/chat/stream?after=0")
    cursor = await asyncio.to_thread(until, first, "You said: one")
    first.close()  # type: ignore[attr-defined]
    await api.ask("post", "/v1/chat", {"text": "two"})
    second = api.control.stream(f"/v1/chat/stream?after={cursor}")

    await asyncio.to_thread(until, second, "You said: two")
    second.close()  # type: ignore[attr-defined]


async def test_a_stream_tells_what_is_being_written_to_those_who_want_it(api: Running) -> None:
    hub = api.terminal.hub

    def read(query: str, kind: str) -> list[dict[str, Any]]:
        found = []
        for event in api.control.stream(f"/v1/chat/stream?{query}"):
            found.append(event)
            if event["type"] == kind:
                return found
        raise AssertionError("the stream ended")

    hub.show_draft(
        Draft(session="s-1", instance="terminal", address="terminal:main", thread="", agent="Home", text="Hel")
    )
    told = (await asyncio.to_thread(read, "drafts=1", "draft"))[-1]
    assert (told["session"], told["text"], told["thread"]) == ("s-1", "Hel", "")
    assert [event["type"] for event in await asyncio.to_thread(read, "", "cursor")] == ["cursor"]


async def test_an_open_stream_ends_when_the_gateway_stops(api: Running) -> None:
    reading = asyncio.create_task(asyncio.to_thread(list, api.control.stream("/v1/chat/stream")))
    await api.ask("post", "/v1/chat", {"text": "one"})
    api.stopping.set()

    assert await asyncio.wait_for(reading, PATIENCE_S)


def test_a_gateway_that_is_not_running_is_said_to_be_so(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match=r"no gateway runs in .*; `gatepost up` starts one"):
        ControlClient(tmp_path / "control.sock").get("/v1/health")


@pytest.mark.parametrize(
    ("name", "args", "said"),
    [("greet", {"name": "half \ud800"}, "half of a character"), ("keep", {"number": 2**63}, "larger than anything")],
)
async def test_what_no_row_can_hold_is_refused_as_the_callers_mistake(
    api: Running, name: str, args: dict[str, Any], said: str
) -> None:
    with pytest.raises(GatepostError, match=said):
        await api.ask("post", f"/v1/ops/{name}", args)
    assert (await api.ask("post", "/v1/ops/greet", {"name": "\u00e4 \U0001f600"}))["result"] == {"said": "hello ä 😀"}


async def test_stranger_04_a_body_of_many_values_is_refused_before_it_is_built(api: Running) -> None:
    body = b'{"name": [' + b"1," * 85_000 + b"1]}"
    status, answer = await asyncio.to_thread(post_raw, api.path, body, "application/json")

    assert status == 400
    assert "values" in str(answer)
