"""The Claude Agent SDK with the program it brings, against the scripted model: both transports."""

import asyncio
import importlib.util
from pathlib import Path
from typing import Any

import pytest

from gatepost.embed.claude import ClaudeTools, Transport, in_process, run_tool
from gatepost.embed.host import ToolHost
from gatepost.embed.results import Image, ToolOutput
from gatepost_testing.models import ModelEndpoint

pytestmark = pytest.mark.slow  # real clients and processes, again and again

needs_sdk = pytest.mark.skipif(
    importlib.util.find_spec("claude_agent_sdk") is None,
    reason="claude-agent-sdk is not installed: pip install '.[claude]'",
)


async def get_weather(city: str) -> dict[str, Any]:
    """The weather of a city, now."""
    return {"city": city, "degrees": 21}


@needs_sdk
@pytest.mark.parametrize("transport", ["auto", "stdio", "in-process"])
async def test_claude_code_calls_a_function_of_this_process(transport: Transport, tmp_path: Path) -> None:
    import claude_agent_sdk as sdk

    script = {
        "tools": True,
        "turns": [
            {"when": "zx-weather", "do": [{"call": "get_weather", "with": {"city": "Köln"}}, {"say": "Saw {result}"}]}
        ],
    }
    async with ModelEndpoint(script) as endpoint:
        async with ClaudeTools([get_weather], name="shop", transport=transport) as tools:
            env = {
                "ANTHROPIC_BASE_URL": endpoint.anthropic,
                "ANTHROPIC_API_KEY": "none",
                "HOME": str(tmp_path),
                "CLAUDE_CONFIG_DIR": str(tmp_path / "claude"),
                "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            }
            options = sdk.ClaudeAgentOptions(
                mcp_servers=tools.mcp_servers,
                allowed_tools=tools.allowed_tools,
                tools=[],
                cwd=tmp_path,
                env=env,
                setting_sources=[],
            )
            async with asyncio.timeout(90):
                said = [message async for message in sdk.query(prompt="zx-weather please", options=options)]
    result = next(message for message in said if isinstance(message, sdk.ResultMessage))
    assert result.result is not None and '"degrees":21' in result.result and "Köln" in result.result
    assert "mcp__shop__get_weather" in endpoint.calls[-1].tools


async def test_a_server_in_the_process_lists_and_calls_like_the_bridge() -> None:
    from mcp import types

    async def look() -> ToolOutput:
        return ToolOutput(["here", Image(b"x")], is_error=True)

    async def broken() -> None:
        raise KeyError("gone")

    host = ToolHost([get_weather, look, broken])
    server = in_process(host)
    assert isinstance(await run_tool(host, "look", b"{}"), dict)
    assert (await run_tool(host, "broken", b"{}"))["content"][0]["text"] == "'gone' (KeyError)"
    assert types.CallToolResult.model_validate(await run_tool(host, "look", b"{}")).is_error is True
    assert server.name == "tools"


def test_a_transport_that_there_is_not_is_refused() -> None:
    with pytest.raises(ValueError, match="only auto, stdio, in-process"):
        ClaudeTools([], transport="pigeon")  # type: ignore[arg-type]
