"""The bridge as an MCP server: both wires, bad lines, the end of its client."""

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gatepost.embed import ToolHost
from gatepost.jsonrpc import protocol
from gatepost.jsonrpc.bridge_command import bridge_command
from gatepost_testing.waiting import PATIENCE_S

META = "io.modelcontextprotocol/"
ENVELOPE = {META + "protocolVersion": "2026-07-28", META + "clientCapabilities": {}}
Connecting = Callable[..., Any]


async def echo(text: str) -> str:
    """Say it again."""
    return text


async def test_the_2026_wire_needs_no_handshake(connecting: Connecting) -> None:
    async with ToolHost([echo], name="shop") as host, connecting(host.command(), start=False) as client:
        found = (await client.answer(client.ask("server/discover", {"_meta": ENVELOPE})))["result"]
        assert found["supportedVersions"] == ["2026-07-28"]
        assert found["capabilities"] == {"tools": {}}
        listed = (await client.answer(client.ask("tools/list", {"_meta": ENVELOPE})))["result"]
        assert [each["name"] for each in listed["tools"]] == ["echo"]
        assert (listed["resultType"], listed["cacheScope"]) == ("complete", "private")
        asked = client.ask("tools/call", {"name": "echo", "arguments": {"text": "a"}, "_meta": ENVELOPE})
        result = (await client.answer(asked))["result"]
        assert result["content"] == [{"type": "text", "text": "a"}]
        assert result["resultType"] == "complete"
        assert result["_meta"][META + "serverInfo"]["name"] == "shop"
        late = await client.answer(client.ask("initialize", {"protocolVersion": "2025-11-25"}))
        assert late["error"]["code"] == protocol.UNSUPPORTED_VERSION
        assert (await client.answer(client.ask("ping")))["error"]["code"] == protocol.METHOD_NOT_FOUND


async def test_a_version_that_is_not_known_is_told_which_are(connecting: Connecting) -> None:
    async with ToolHost([echo]) as host, connecting(host.command(), start=False) as client:
        newer = {**ENVELOPE, META + "protocolVersion": "2031-01-01"}
        error = (await client.answer(client.ask("tools/list", {"_meta": newer})))["error"]
        assert error["data"] == {"supported": ["2026-07-28"], "requested": "2031-01-01"}
        assert (await client.answer(client.ask("tools/list")))["error"]["code"] == protocol.INVALID_PARAMS
        found = await client.answer(client.ask("initialize", {"protocolVersion": "1999-01-01"}))
        assert found["result"]["protocolVersion"] == "2025-11-25"
        assert (await client.answer(client.ask("ping")))["result"] == {}


async def test_a_subscription_is_acknowledged_and_can_be_given_up(connecting: Connecting) -> None:
    async with ToolHost([echo]) as host, connecting(host.command(), start=False) as client:
        asked = client.ask("subscriptions/listen", {"notifications": {"toolsListChanged": True}, "_meta": ENVELOPE})
        told = await client.next()
        assert told["method"] == "notifications/subscriptions/acknowledged"
        assert told["params"] == {"notifications": {}, "_meta": {META + "subscriptionId": asked}}
        client.tell("notifications/cancelled", {"requestId": asked})


async def test_paseo_31_bad_lines_between_good_ones_are_answered_and_do_no_harm(connecting: Connecting) -> None:
    async with ToolHost([echo]) as host, connecting(host.command()) as client:
        for line, code in (
            (b"{bad", protocol.PARSE_ERROR),
            (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":NaN}}', protocol.PARSE_ERROR),
            (b"[" * 100_000, protocol.PARSE_ERROR),
            (b"[]", protocol.INVALID_REQUEST),
            (b'{"id":null,"jsonrpc":"2.0","method":"ping"}', protocol.INVALID_REQUEST),
            (b'{"jsonrpc":"2.0"}', protocol.INVALID_REQUEST),
        ):
            client.send(line)
            answer = await client.next()
            assert (answer["id"], answer["error"]["code"]) == (None, code)
        for method, params, code in (
            ("dance", {}, protocol.METHOD_NOT_FOUND),
            ("tools/call", {"name": 1}, protocol.INVALID_PARAMS),
            ("tools/call", {"name": "echo", "arguments": []}, protocol.INVALID_PARAMS),
        ):
            assert (await client.answer(client.ask(method, params)))["error"]["code"] == code
        client.send(b"\n")
        client.tell("notifications/initialized", {})
        assert await client.text("echo", text="still here") == "still here"


async def test_an_id_in_use_is_refused(connecting: Connecting) -> None:
    let_go = asyncio.Event()

    async def wait() -> str:
        await let_go.wait()
        return "done"

    async with ToolHost([wait]) as host, connecting(host.command()) as client:
        call = {"jsonrpc": "2.0", "id": "a", "method": "tools/call", "params": {"name": "wait"}}
        client.send(call)
        client.send(call)
        assert "already in use" in (await client.next())["error"]["message"]
        let_go.set()
        assert (await client.next())["result"]["content"][0]["text"] == "done"


async def test_when_stdin_ends_what_was_asked_is_still_answered(connecting: Connecting) -> None:
    async with ToolHost([echo]) as host, connecting(host.command()) as client:
        request = client.begin("echo", text="last words")
        client.process.stdin.close()
        assert (await client.answer(request))["result"]["content"][0]["text"] == "last words"
        assert await asyncio.wait_for(client.process.wait(), PATIENCE_S) == 0


async def test_it_also_runs_as_a_module(connecting: Connecting) -> None:
    async with ToolHost([echo]) as host:
        command = [sys.executable, "-m", "gatepost.embed.bridge", str(host.socket_path), str(host.schema_path)]
        async with connecting(command) as client:
            assert await client.text("echo", text="a") == "a"


@pytest.mark.parametrize(
    ("arguments", "code", "words"), [([], 2, "usage"), (["s", "{}"], 1, "does not describe tools")]
)
async def test_a_wrong_start_is_told(arguments: list[str], code: int, words: str, tmp_path: Path) -> None:
    given = [each.replace("{}", str(tmp_path / "none.json")) for each in arguments]
    pipe = asyncio.subprocess.PIPE
    command = bridge_command("gatepost.embed.bridge", *given)
    process = await asyncio.create_subprocess_exec(*command, stderr=pipe)
    _, said = await asyncio.wait_for(process.communicate(), PATIENCE_S)
    assert process.returncode == code
    assert words in said.decode() and "Traceback" not in said.decode()
