"""The management server of a real daemon, over its control socket: with the official client, and through the bridge."""

import asyncio
import json
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client

from gatepost_testing.daemon import DaemonProcess

ELEVEN = {
    "create_agent",
    "wait_for_agent",
    "send_agent_prompt",
    "get_agent_status",
    "list_agents",
    "cancel_agent",
    "kill_agent",
    "get_agent_activity",
    "set_agent_mode",
    "list_pending_permissions",
    "respond_to_permission",
}


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    home = tmp_path_factory.mktemp("agents") / "h"
    with DaemonProcess(home, sandbox_kind="process", sessions_provider="scripted") as made:
        yield made


async def managed(client: Client) -> None:
    """Made, waited for, asked again, looked at and ended."""

    async def do(name: str, **arguments: Any) -> dict[str, Any]:
        answer = await client.call_tool(name, arguments)
        assert not answer.is_error, answer.content
        found = answer.structured_content
        assert isinstance(found, dict) and json.loads(answer.content[0].text) == found  # type: ignore[union-attr]
        return found

    assert {tool.name for tool in (await client.list_tools()).tools} >= ELEVEN
    made = await do("create_agent", initialPrompt="sweep")
    assert (made["status"], made["lastMessage"]) == ("idle", "echo: sweep")
    sent = await do("send_agent_prompt", agentId=made["agentId"], prompt="mop")
    assert sent["lastMessage"] == "echo: mop"
    assert "echo: sweep" in (await do("get_agent_activity", agentId=made["agentId"]))["content"]
    await do("kill_agent", agentId=made["agentId"])
    assert (await do("get_agent_status", agentId=made["agentId"]))["status"] == "closed"
    wrong = await client.call_tool("get_agent_status", {"agentId": "s-nobody"})
    assert wrong.is_error


@pytest.mark.slow
async def test_the_official_client_manages_an_agent_over_the_control_socket(daemon: DaemonProcess) -> None:
    transport = httpx2.AsyncHTTPTransport(uds=str(daemon.home / "run" / "control.sock"))
    async with httpx2.AsyncClient(transport=transport, timeout=60) as http:
        async with Client(streamable_http_client("http://localhost/mcp/agents", http_client=http)) as client:
            await managed(client)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_and_through_the_bridge(daemon: DaemonProcess, mode: Any) -> None:
    url = f"unix:{daemon.home}/run/control.sock:/mcp/agents"
    bridge = StdioServerParameters(command=sys.executable, args=["-m", "gatepost", "bridge", "--url", url])
    async with Client(stdio_client(bridge), mode=mode) as client:
        await managed(client)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_paseo_33_a_client_goes_on_where_it_was_when_the_daemon_was_restarted(tmp_path: Path, mode: Any) -> None:
    with DaemonProcess(tmp_path / "h", sandbox_kind="process", sessions_provider="scripted") as daemon:
        url = f"unix:{daemon.home}/run/control.sock:/mcp/agents"
        bridge = StdioServerParameters(command=sys.executable, args=["-m", "gatepost", "bridge", "--url", url])
        async with Client(stdio_client(bridge), mode=mode) as client:
            made = await client.call_tool("create_agent", {"initialPrompt": "sweep", "title": "Sweeper"})
            assert not made.is_error
            for number in (signal.SIGTERM, signal.SIGKILL):
                await asyncio.to_thread(daemon.stop, number)
                await asyncio.to_thread(daemon.start)
                again = await client.call_tool("send_agent_prompt", {"agentId": "Sweeper", "prompt": "mop"})
                assert again.structured_content is not None and again.structured_content["lastMessage"] == "echo: mop"


def test_the_command_line_manages_the_same_agents(daemon: DaemonProcess, tmp_path: Path) -> None:
    made = daemon.gatepost("agent", "run", "sweep", "--title", "Sweeper", "--label", "a=b", "--json")
    assert json.loads(made.stdout)["lastMessage"] == "echo: sweep"
    listed = json.loads(daemon.gatepost("agent", "ls", "--json").stdout)
    assert [(each["title"], each["labels"]) for each in listed if each["title"]] == [("Sweeper", {"a": "b"})]
    assert daemon.gatepost("agent", "send", "Sweeper", "again").stdout == "echo: again\n"
    assert "[User] sweep" in daemon.gatepost("agent", "logs", "Sweeper").stdout
    assert daemon.gatepost("agent", "archive", "Sweeper").returncode == 0
    assert "Sweeper" not in daemon.gatepost("agent", "ls").stdout
    assert "nobody asks" in daemon.gatepost("permit", "ls").stdout
