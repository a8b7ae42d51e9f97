"""The whole way: a client, a real bridge process, the socket, the function. Checks 36 to 40 of the acceptance list."""

import asyncio
import gc
import os
import re
import socket
import struct
import sys
import threading
from base64 import b64encode
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import uvloop

from gatepost.embed import Image, Progress, Resource, ResourceLink, ToolError, ToolHost, ToolOutput, host_files
from gatepost.embed import host as host_module
from gatepost.embed.connection import LIMIT
from gatepost_testing.waiting import PATIENCE_S

Serving = Callable[..., Any]


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("t", numbered=True)


async def echo(text: str) -> str:
    """Say it again."""
    return text


def echo_sync(text: str) -> str:
    return text


def left(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


# 36: concurrency.


async def test_paseo_36_fifty_concurrent_calls_get_each_its_own_answer(serving: Serving) -> None:
    arrived, all_there = 0, asyncio.Event()

    async def meet(number: int) -> str:
        nonlocal arrived
        arrived += 1
        if arrived == 50:
            all_there.set()
        await all_there.wait()
        return f"I am {number}"

    async with serving(meet) as served:
        asked = {number: served.client.begin("meet", number=number) for number in range(50)}
        for number, request in asked.items():
            answer = await served.client.answer(request)
            assert answer["result"]["content"][0]["text"] == f"I am {number}"


async def test_paseo_36_threads_run_beside_one_another(serving: Serving) -> None:
    barrier = threading.Barrier(8, timeout=20)

    def meet(number: int) -> int:
        barrier.wait()
        return number

    async with serving(meet) as served:
        asked = [served.client.begin("meet", number=number) for number in range(8)]
        answers = [await served.client.answer(request) for request in asked]
    assert [each["result"]["content"][0]["text"] for each in answers] == [str(number) for number in range(8)]


@pytest.mark.slow
async def test_paseo_36_two_thousand_calls_one_after_another_are_all_right(serving: Serving) -> None:
    async with serving(echo) as served:
        for number in range(2000):
            assert await served.client.text("echo", text=f"n{number}") == f"n{number}"


# 37: everything arrives truly.


@dataclass
class Table:
    seats: int
    window: bool


PNG = b"\x89PNG\r\n\x1a\n\x00\xff"


async def test_paseo_37_what_a_function_gives_back_arrives_truly(serving: Serving) -> None:
    def a_dict() -> dict[str, Any]:
        return {"temperature": 21.5, "words": ["mild", "grau"], "none": None}

    async def a_dataclass() -> Table:
        return Table(4, True)

    def an_image() -> Image:
        return Image(PNG)

    async def mixed() -> list[object]:
        return ["look", Image(PNG, "image/jpeg"), Resource("file:///a.txt", "a"), ResourceLink("file:///b", "b")]

    async def a_blob() -> Resource:
        return Resource("file:///c", b"\x00\x01", "application/x")

    async def nothing() -> None:
        return None

    async with serving(a_dict, a_dataclass, an_image, mixed, a_blob, nothing, echo, echo_sync) as served:
        client = served.client
        found = await client.call("a_dict")
        assert found["structuredContent"] == a_dict()
        assert found["content"][0]["text"] == '{"temperature":21.5,"words":["mild","grau"],"none":null}'
        assert (await client.call("a_dataclass"))["structuredContent"] == {"seats": 4, "window": True}
        png = b64encode(PNG).decode()
        assert (await client.call("an_image"))["content"] == [{"type": "image", "data": png, "mimeType": "image/png"}]
        assert (await client.call("mixed"))["content"] == [
            {"type": "text", "text": "look"},
            {"type": "image", "data": png, "mimeType": "image/jpeg"},
            {"type": "resource", "resource": {"uri": "file:///a.txt", "text": "a"}},
            {"type": "resource_link", "uri": "file:///b", "name": "b"},
        ]
        blob = {"uri": "file:///c", "mimeType": "application/x", "blob": "AAE="}
        assert (await client.call("a_blob"))["content"] == [{"type": "resource", "resource": blob}]
        assert await client.call("nothing") == {"content": [], "isError": False}
        assert await client.text("echo", text='grüße "\n" 🌍') == 'grüße "\n" 🌍'
        assert await client.text("echo_sync", text="plain") == "plain"


async def test_paseo_37_errors_arrive_truly(serving: Serving) -> None:
    async def broken() -> str:
        raise KeyError("the shelf is empty")

    def refused() -> str:
        raise ToolError("there is no table at that time; try 20:00")

    async def said() -> ToolOutput:
        return ToolOutput(["half of it failed"], is_error=True, structured={"done": 1})

    async def as_mcp() -> dict[str, Any]:
        return {"content": [{"type": "text", "text": "bad"}], "isError": True}

    async def not_json() -> object:
        return {"it": object()}

    async def raw() -> bytes:
        return b"x"

    async with serving(broken, refused, said, as_mcp, not_json, raw, echo) as served:
        client = served.client
        found = await client.call("broken")
        assert found == {"content": [{"type": "text", "text": "'the shelf is empty' (KeyError)"}], "isError": True}
        assert await client.text("refused") == "there is no table at that time; try 20:00"
        assert (await client.call("refused"))["isError"] is True
        assert (await client.call("said"))["structuredContent"] == {"done": 1}
        assert (await client.call("said"))["isError"] is True
        assert await client.call("as_mcp") == await as_mcp()
        assert "object cannot be sent as JSON" in await client.text("not_json")
        assert "Image" in await client.text("raw")
        assert "missing required field `text`" in await client.text("echo")
        assert "Expected `str`, got `int`" in await client.text("echo", text=3)
        assert "unknown field `more`" in await client.text("echo", text="a", more=1)
        assert "there is no tool 'nobody'" in await client.text("nobody")
        assert await client.text("echo", text="still here") == "still here"


async def test_paseo_37_the_list_needs_no_server(connecting: Serving, folder: Path) -> None:
    async with ToolHost([echo], folder=folder) as host:
        command, described = host.command(), host.schema_path.read_bytes()
    schema = folder / "kept.json"
    schema.write_bytes(described)
    async with connecting([*command[:-1], str(schema)]) as client:
        listed = (await client.answer(client.ask("tools/list")))["result"]["tools"]
        assert [(each["name"], each["description"]) for each in listed] == [("echo", "Say it again.")]
        found = await client.call("echo", text="anyone?")
        assert found["isError"] is True
        assert "has stopped" in found["content"][0]["text"]


# 38: sizes.


@pytest.mark.slow
async def test_paseo_38_exactly_the_limit_passes_and_one_more_is_an_explicit_error(serving: Serving) -> None:
    async def length(text: str) -> int:
        return len(text)

    async def give(size: int) -> str:
        return "x" * size

    frame = len('{"id":1,"method":"call_tool","params":{"name":"length","arguments":{"text":""}}}')
    answer = len('{"id":3,"result":{"content":[{"type":"text","text":""}],"isError":false}}')
    async with serving(length, give) as served:
        client = served.client
        assert await client.text("length", text="x" * (LIMIT - frame)) == str(LIMIT - frame)
        too_much = await client.call("length", text="x" * (LIMIT - frame + 1))
        assert too_much["isError"] is True
        assert "10,485,761 bytes; at most 10,485,760" in too_much["content"][0]["text"]
        assert len(await client.text("give", size=LIMIT - answer)) == LIMIT - answer
        too_much = await client.call("give", size=LIMIT - answer + 1)
        assert too_much["isError"] is True
        assert "10,485,761 bytes; at most 10,485,760" in too_much["content"][0]["text"]
        assert await client.text("length", text="next") == "4"


# 39: stopping.


def test_paseo_39_a_stop_leaves_at_most_a_second_to_what_is_cancelled() -> None:
    assert 2 * host_module.LEAVE_S <= 1  # once for connections, once for functions


async def test_paseo_39_stopping_with_a_connected_bridge_is_quick_and_leaves_nothing(
    connecting: Serving, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host_module, "LEAVE_S", 2 * PATIENCE_S)  # nothing here needs it
    begun, ended = asyncio.Event(), asyncio.Event()

    async def wait() -> str:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return ""

    host = ToolHost([wait, echo], folder=folder)
    await host.start()
    async with connecting(host.command()) as client:
        assert await client.text("echo", text="a") == "a"
        request = client.begin("wait")
        await asyncio.wait_for(begun.wait(), PATIENCE_S)
        await asyncio.wait_for(host.stop(), PATIENCE_S)
        assert left(folder) == []
        assert ended.is_set()
        pending = (await client.answer(request))["result"]
        assert pending["isError"] is True and "has stopped" in pending["content"][0]["text"]
        later = await client.call("echo", text="b")
        assert later["isError"] is True and "has stopped" in later["content"][0]["text"]
    await host.stop()  # as often as wanted


async def test_paseo_39_who_connects_at_the_last_moment_is_not_served_either() -> None:
    host = ToolHost([echo])
    await host.start()
    late = socket.socket(socket.AF_UNIX)
    late.connect(str(host.socket_path))  # waits to be accepted, for the loop has not turned
    await host.stop()
    with late:
        late.settimeout(PATIENCE_S)
        with suppress(ConnectionResetError):  # or, in other words, nothing
            assert await asyncio.to_thread(late.recv, 1) == b""


async def test_paseo_39_a_function_that_will_not_end_does_not_hold_up_the_stop(
    serving: Serving, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host_module, "LEAVE_S", 2 * PATIENCE_S)
    begun, let_go = threading.Event(), threading.Event()

    def stuck() -> None:
        begun.set()
        let_go.wait(2 * PATIENCE_S)

    async with serving(stuck, folder=folder) as served:
        served.client.begin("stuck")
        await asyncio.to_thread(begun.wait, PATIENCE_S)
        await asyncio.wait_for(served.host.stop(), PATIENCE_S)
        assert left(folder) == []
        let_go.set()


# 40: files.


async def test_paseo_40_only_what_the_dead_left_is_removed(folder: Path, serving: Serving) -> None:
    code = (
        "import asyncio, os, sys, pathlib\nfrom gatepost.embed import ToolHost\n"
        "async def main():\n    await ToolHost([], folder=pathlib.Path(sys.argv[1])).start()\n"
        "    os.kill(os.getpid(), 9)\n"
        "asyncio.run(main())"
    )
    killed = await asyncio.create_subprocess_exec(sys.executable, "-c", code, str(folder))
    assert await asyncio.wait_for(killed.wait(), 60) == -9
    dead = left(folder)
    assert [Path(name).suffix for name in dead] == [".json", ".sock"]
    foreign = folder / "gatepost_embed_notes.json"
    foreign.write_text("{}")
    lonely = folder / f"gatepost_embed_{'0' * 32}.json"
    lonely.write_text("{}")

    async with ToolHost([echo], folder=folder) as living, serving(echo_sync, folder=folder) as served:
        kept = {living.socket_path, living.schema_path, served.host.socket_path, served.host.schema_path, foreign}
        assert {folder / name for name in left(folder)} == kept
        assert await served.client.text("echo_sync", text="a") == "a"
        for path in kept - {foreign}:
            assert path.lstat().st_mode & 0o777 == 0o600
            assert re.fullmatch(r"gatepost_embed_[0-9a-f]{32}\.(sock|json)", path.name)
    assert left(folder) == [foreign.name]


async def test_paseo_40_nobody_else_may_read_the_files_from_the_first_moment(folder: Path) -> None:
    """A watcher that looks without pause, and a umask that would allow everything."""
    seen: dict[str, set[int]] = {}
    done = threading.Event()

    def watch() -> None:
        while not done.is_set():
            for entry in os.scandir(folder):
                try:
                    mode = entry.stat().st_mode & 0o777
                except FileNotFoundError:
                    continue
                seen.setdefault(Path(entry.name).suffix, set()).add(mode)

    watcher = threading.Thread(target=watch)
    before = os.umask(0)
    try:
        watcher.start()
        for _ in range(50):
            async with ToolHost([echo], folder=folder):
                pass
    finally:
        done.set()
        watcher.join()
        os.umask(before)
    assert seen[".sock"] == {0o600} and seen[".json"] == {0o600}
    assert seen.get(".new", {0o700}) == {0o700}


@pytest.mark.slow
async def test_a_hundred_starts_and_stops_leave_no_file_process_thread_or_descriptor(
    folder: Path, connecting: Serving
) -> None:
    async def once(call: bool) -> None:
        async with ToolHost([echo, echo_sync], folder=folder) as host:
            if call:
                async with connecting(host.command()) as client:
                    assert await client.text("echo_sync", text="a") == "a"

    def counted() -> tuple[int, int, list[str]]:
        gc.collect()
        children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
        return len(os.listdir("/proc/self/fd")), len(children), left(folder)

    for _ in range(3):
        await once(True)
    before = counted()
    for number in range(100):
        await once(number % 10 == 0)
    for thread in threading.enumerate():
        if thread.name.startswith("tool-"):
            thread.join(PATIENCE_S)
    assert counted() == before
    assert not any(thread.name.startswith("tool-") for thread in threading.enumerate())
    assert before[2] == []


# Cancelling and progress.


async def test_a_call_that_is_cancelled_ends_its_function_and_is_never_answered(serving: Serving) -> None:
    begun, cancelled = asyncio.Event(), asyncio.Event()

    async def wait() -> str:
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise
        return "never"

    async with serving(wait, echo) as served:
        request = served.client.begin("wait")
        await asyncio.wait_for(begun.wait(), PATIENCE_S)
        served.client.tell("notifications/cancelled", {"requestId": request})
        await asyncio.wait_for(cancelled.wait(), PATIENCE_S)
        assert await served.client.text("echo", text="after") == "after"
        assert request not in [line.get("id") for line in served.client.lines]


@pytest.mark.parametrize("threaded", [False, True])
async def test_progress_is_told_to_whoever_asks_for_it(serving: Serving, threaded: bool) -> None:
    def sync_count(to: int, progress: Progress) -> str:
        for number in range(to):
            progress(number + 1, to, f"step {number + 1}")
        return "counted"

    async def count(to: int, progress: Progress) -> str:
        return sync_count(to, progress)

    async with serving(sync_count if threaded else count) as served:
        client, name = served.client, "sync_count" if threaded else "count"
        assert "progress" not in served.host.tools[name].schema["properties"]
        asked = client.ask("tools/call", {"name": name, "arguments": {"to": 3}, "_meta": {"progressToken": "p"}})
        await client.answer(asked)
        told = [line["params"] for line in client.lines if line.get("method") == "notifications/progress"]
        assert told == [{"progressToken": "p", "progress": n, "total": 3, "message": f"step {n}"} for n in (1, 2, 3)]
        assert await client.text(name, to=2) == "counted"  # nobody listens
        assert len([line for line in client.lines if "method" in line]) == 3


# The wire, as any client may speak it.


class Raw:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    def send(self, payload: bytes) -> None:
        self.writer.write(struct.pack(">I", len(payload)) + payload)

    async def read(self) -> bytes:
        size = struct.unpack(">I", await asyncio.wait_for(self.reader.readexactly(4), PATIENCE_S))[0]
        return await self.reader.readexactly(size)


async def raw(host: ToolHost) -> Raw:
    return Raw(*await asyncio.open_unix_connection(host.socket_path))


async def test_a_client_without_ids_is_answered_in_order() -> None:
    gate = asyncio.Event()

    async def slow() -> str:
        await gate.wait()
        return "slow"

    async def quick() -> str:
        gate.set()
        return "quick"

    async with ToolHost([slow, echo, quick]) as host:
        old, new = await raw(host), await raw(host)
        old.send(b'{"method":"call_tool","params":{"name":"slow"}}')
        old.send(b'{"method":"call_tool","params":{"name":"echo","arguments":{"text":"second"}}}')
        new.send(b'{"id":"q","method":"call_tool","params":{"name":"quick","arguments":{}}}')
        assert await new.read() == b'{"id":"q","result":{"content":[{"type":"text","text":"quick"}],"isError":false}}'
        assert await old.read() == b'{"result":{"content":[{"type":"text","text":"slow"}],"isError":false}}'
        assert await old.read() == b'{"result":{"content":[{"type":"text","text":"second"}],"isError":false}}'
        old.writer.close()
        new.writer.close()


@pytest.mark.parametrize(
    ("payload", "kind"),
    [
        (b"[]", b"ValueError"),
        (b"{bad", b"ValueError"),
        (b"\xff\xfe", b"ValueError"),
        (b"", b"ValueError"),
        (b'{"method":"dance"}', b"ValueError"),
        (b'{"method":"call_tool","params":[]}', b"ValidationError"),
        (b'{"method":"call_tool","params":{"name":1}}', b"ValidationError"),
        (b'{"method":"call_tool","params":{"name":"echo","arguments":[]}}', b"ValidationError"),
        (b'{"method":"call_tool","params":{"name":"nobody"}}', b"ToolNotFoundError"),
    ],
)
async def test_bad_messages_get_an_error_and_the_connection_lives(payload: bytes, kind: bytes) -> None:
    async with ToolHost([echo]) as host:
        wire = await raw(host)
        wire.send(payload)
        answer = await wire.read()
        assert b'"error"' in answer and b'"type":"' + kind in answer
        wire.send(b'{"id":7,"method":"call_tool","params":{"name":"echo","arguments":{"text":"a"}}}')
        assert b'"id":7,"result"' in await wire.read()
        wire.writer.close()


async def test_a_message_that_is_too_large_is_refused_by_its_id_and_skipped() -> None:
    async with ToolHost([echo]) as host:
        wire = await raw(host)
        wire.send(b'{"id":5,"method":"call_tool","params":{"name":"' + b"x" * LIMIT + b'"}}')
        wire.send(b'{"id":6,"method":"call_tool","params":{"name":"echo","arguments":{"text":"a"}}}')
        refused = await wire.read()
        assert refused.startswith(b'{"id":5,"error":') and b"MessageSizeError" in refused
        assert b'"id":6,"result"' in await wire.read()
        wire.writer.close()


async def test_what_nobody_waits_for_any_more_is_cancelled() -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    async def wait() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async with ToolHost([wait]) as host:
        wire = await raw(host)
        wire.send(b'{"id":1,"method":"call_tool","params":{"name":"wait"}}')
        await asyncio.wait_for(begun.wait(), PATIENCE_S)
        wire.writer.close()
        await asyncio.wait_for(ended.wait(), PATIENCE_S)


def test_it_serves_on_uvloop_too(connecting: Serving) -> None:
    async def whole_way() -> str:
        async with ToolHost([echo, echo_sync]) as host, connecting(host.command()) as client:
            return await client.text("echo", text="a") + await client.text("echo_sync", text="b")

    assert uvloop.run(whole_way()) == "ab"


def test_a_socket_path_that_is_too_long_is_told(folder: Path) -> None:
    deep = folder / ("d" * 100)
    deep.mkdir()
    with pytest.raises(OSError, match="set TMPDIR"):
        host_files.make_files(b"{}", deep)
    assert left(deep) == []
