"""The check whether an agent that asks wants one of the gateway's own tools: the gate judges those, and nobody is asked
twice.

An agent names a tool only by a title, which says little: of a command it is the command. So the call must never have
had another one, must be of no other kind, and the gateway must have a tool of just that name.
"""

from collections.abc import Mapping
from pathlib import Path

import msgspec

from gatepost.inside.acp.protocol import OURS
from gatepost.inside.jsonrpc_process import Json
from gatepost.inside.mcp_client import McpClient


async def is_gateway_tool(router: Path, asked: Json, titles: Mapping[str, str]) -> bool:
    """`titles`: of the turn's calls, as they were first named."""
    name = get_gateway_tool_name(asked, titles.get(str(asked.get("toolCallId") or "")))
    if not name:
        return False
    try:
        tools = await McpClient.connect(router)
        try:
            return name in {each.name for each in await tools.list_tools()}
        finally:
            await tools.close()
    except (OSError, msgspec.ValidationError):
        return False


def get_gateway_tool_name(asked: Json, first: str | None) -> str:
    """Which tool of the gateway's it would be; '' if it can be none."""
    title = str(asked.get("title") or "")
    if asked.get("kind") not in (None, "", "other") or first not in (None, title):
        return ""
    begins = OURS.match(title)
    return title[begins.end() :] if begins else ""
