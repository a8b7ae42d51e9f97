"""Claude Code manages another agent through `gatepost bridge`: it makes one, waits for it, answers what it asks, and
reads what it did. Its configuration is what `gatepost mcp config` prints; its model is the scripted one."""

import asyncio
import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from gatepost.sandboxes.bubblewrap import find_bwrap
from gatepost_testing.agent_profiles import AGENTS, run_agent_gateway
from gatepost_testing.channel import FakeChannel
from gatepost_testing.clients.management_client import (
    ManagementClient,
    connect_client,
    open_management_gateway,
    serve_management,
)
from gatepost_testing.gateway import wait_until_settled
from gatepost_testing.models import ModelEndpoint

PATIENCE_S = 100.0

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        importlib.util.find_spec("claude_agent_sdk") is None,
        reason="claude-agent-sdk is not installed: pip install '.[claude]'",
    ),
]


def managing(**wanted: Any) -> dict[str, Any]:
    """Return what the manager's model does: it knows its agent by the title, and the request from what waiting told."""
    worker = {"agentId": "Worker"}
    answer = {**worker, "requestId": "{result.permission.id}", "response": {"behavior": "allow"}}
    do: list[dict[str, Any]] = [
        {"call": "create_agent", "with": {"title": "Worker", "background": True, **wanted}},
        {"call": "wait_for_agent", "with": worker},
        {"call": "respond_to_permission", "with": answer},
        {"call": "wait_for_agent", "with": worker},
        {"call": "get_agent_activity", "with": worker},
        {"say": "It is done."},
    ]
    return {"tools": True, "turns": [{"when": "zx-manage", "do": do}]}


def configuration(home: Path) -> str:
    words = [sys.executable, "-m", "gatepost", "--home", str(home), "mcp", "config", "claude"]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout


async def claude_code(folder: Path, home: Path, endpoint: ModelEndpoint) -> tuple[list[dict[str, Any]], str]:
    """(what its tools answered, its last words) of Claude Code, run as a person runs it."""
    import claude_agent_sdk

    (folder / "mcp.json").write_text(await asyncio.to_thread(configuration, home))
    words = ["-p", "zx-manage an agent", "--mcp-config", str(folder / "mcp.json"), "--strict-mcp-config"]
    words += ["--allowedTools", "mcp__gatepost", "--output-format", "stream-json", "--verbose"]
    env = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "ANTHROPIC_BASE_URL": endpoint.anthropic,
        "ANTHROPIC_API_KEY": "none",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "ENABLE_TOOL_SEARCH": "false",
    }
    program = Path(claude_agent_sdk.__file__).parent / "_bundled" / "claude"
    process = await asyncio.create_subprocess_exec(
        str(program),
        *words,
        cwd=folder,
        env=env,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        limit=2**24,
    )
    try:
        out, errors = await asyncio.wait_for(process.communicate(), PATIENCE_S)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == 0, (out + errors).decode()
    said = [json.loads(line) for line in out.splitlines()]
    return [found for message in said for found in answers_in(message)], str(said[-1].get("result"))


def answers_in(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    if message["type"] != "user":
        return []
    blocks = [block for block in message["message"]["content"] if block.get("type") == "tool_result"]
    return [json.loads(_text(block["content"])) for block in blocks]


def _text(content: str | list[dict[str, str]]) -> str:
    return content if isinstance(content, str) else "".join(block["text"] for block in content)


async def assert_managed(desk: ManagementClient, answers: list[dict[str, Any]], asked: str, said: str) -> None:
    """On both sides: what Claude Code was told, and how the gateway stands."""
    made, asking, responded, ended, activity = answers
    assert made["status"] in ("initializing", "running") and made["agentId"].startswith("s-")
    assert asking["permission"]["name"] == asked and asking["agentId"] == made["agentId"]
    assert responded == {"success": True}
    assert (ended["status"], ended["lastMessage"], ended["permission"]) == ("idle", said, None)
    assert said in activity["content"] and f"[Permission] {asked}: allowed" in activity["content"]

    (agent,) = (await desk("list_agents"))["agents"]
    assert (agent["agentId"], agent["title"], agent["status"]) == (made["agentId"], "Worker", "idle")
    assert (await desk("list_pending_permissions"))["permissions"] == []
    assert (await wait_until_settled(desk.gateway)).unaccounted == 0


async def test_claude_code_manages_an_agent_through_the_bridge(tmp_path: Path) -> None:
    ask = {"permission": "Bash", "input": {"command": "ls"}}
    script = {"turns": [{"when": "ask first", "do": [{"ask": ask}, {"say": "I did it."}]}]}
    async with (
        ModelEndpoint(managing(initialPrompt="ask first")) as endpoint,
        open_management_gateway(tmp_path / "h", "http", script) as desk,
    ):
        answers, last = await claude_code(tmp_path, tmp_path / "h", endpoint)

        assert last == "It is done."
        assert answers[1]["permission"]["input"] == {"command": "ls"}
        await assert_managed(desk, answers, "Bash", "I did it.")


@pytest.mark.skipif(find_bwrap() is None, reason="bubblewrap is not installed")
async def test_claude_code_manages_claude_code_that_asks_before_it_acts(tmp_path: Path) -> None:
    touch = {"call": "Bash", "with": {"command": "touch made.txt", "description": "make it"}}
    work = {"tools": True, "turns": [{"when": "zx-work", "do": [touch, {"say": "I made it."}]}]}
    wanted = {"initialPrompt": "zx-work now", "agentType": "claude", "initialMode": "default", "folder": "home"}
    async with (
        ModelEndpoint(managing(**wanted)) as managers,
        ModelEndpoint(work) as workers,
        run_agent_gateway(AGENTS["claude"], tmp_path / "h", FakeChannel(), workers) as gateway,
        serve_management(gateway),
        connect_client(gateway, "http") as desk,
    ):
        answers, last = await claude_code(tmp_path, tmp_path / "h", managers)

        assert last == "It is done."
        assert answers[1]["permission"]["input"]["command"] == "touch made.txt"
        await assert_managed(desk, answers, "Bash", "I made it.")
        assert (gateway.home.group("home") / "made.txt").exists()
    assert workers.calls[-1].count_text("zx-work now") == 1
