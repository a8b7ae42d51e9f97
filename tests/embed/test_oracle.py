"""The official SDK's client, on either wire, finds in the bridge the server that it expects."""

import base64

import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from gatepost.embed import Image, ToolError, ToolHost

pytestmark = pytest.mark.slow  # real clients and processes, again and again


async def echo(text: str) -> dict[str, str]:
    """Say it again."""
    return {"said": text}


async def picture() -> Image:
    return Image(b"png")


async def refused() -> None:
    raise ToolError("not today")


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28", "auto"])
async def test_the_sdks_client_lists_and_calls(mode: str) -> None:
    async with ToolHost([echo, picture, refused]) as host:
        command, *arguments = host.command()
        transport = stdio_client(StdioServerParameters(command=command, args=arguments))
        async with Client(transport, mode=mode) as client:
            listed = await client.list_tools()
            assert [tool.name for tool in listed.tools] == ["echo", "picture", "refused"]
            said = await client.call_tool("echo", {"text": "a"})
            assert said.structured_content == {"said": "a"} and not said.is_error
            shown = (await client.call_tool("picture", {})).content[0]
            assert shown.type == "image" and base64.b64decode(shown.data) == b"png"
            assert (await client.call_tool("refused", {})).is_error is True
