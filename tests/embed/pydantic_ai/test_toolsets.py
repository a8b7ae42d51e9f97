"""Toolsets of pydantic-ai as tools of a host. Skipped where pydantic-ai is not installed."""

from dataclasses import dataclass, field
from typing import Any

import pytest

pytest.importorskip("pydantic_ai", reason="pydantic-ai is not installed: pip install pydantic-ai-slim")

from pydantic_ai import Agent, BinaryContent, ModelRetry, RunContext, exceptions
from pydantic_ai.toolsets import FunctionToolset

from gatepost.embed.claude import run_tool
from gatepost.embed.host import ToolHost
from gatepost.embed.pydantic_ai import toolset_tools


@dataclass
class Shop:
    sold: list[str] = field(default_factory=list)


shop_tools = FunctionToolset[Shop]()


@shop_tools.tool
def sell(ctx: RunContext[Shop], item: str, count: int = 1) -> dict[str, Any]:
    """Sell it.

    Args:
        item: what
        count: how many
    """
    ctx.deps.sold += [item] * count
    return {"sold": len(ctx.deps.sold), "called": ctx.tool_name}


@shop_tools.tool
async def ask(ctx: RunContext[Shop]) -> str:
    raise ModelRetry("which shop?")


plain_tools = FunctionToolset[Any]()


@plain_tools.tool_plain
def picture() -> BinaryContent:
    return BinaryContent(b"png", media_type="image/png")


async def test_tools_run_here_with_their_deps() -> None:
    shop = Shop()
    agent = Agent("test", deps_type=Shop, toolsets=[shop_tools, plain_tools])
    async with toolset_tools(agent.toolsets, deps=shop) as tools:
        host = ToolHost(tools)
        assert set(host.tools) == {"sell", "ask", "picture"}
        assert host.tools["sell"].description == "Sell it."
        assert host.tools["sell"].schema["properties"]["item"]["description"] == "what"
        found = await run_tool(host, "sell", b'{"item":"tea","count":2}')
        assert found["structuredContent"] == {"sold": 2, "called": "sell"}
        assert shop.sold == ["tea", "tea"]
        wrong = await run_tool(host, "sell", b'{"item":"tea","count":"many"}')
        assert wrong["isError"] is True and "valid integer" in wrong["content"][0]["text"]
        asked = await run_tool(host, "ask", b"{}")
        assert (asked["isError"], asked["content"][0]["text"]) == (True, "which shop?")
        assert (await run_tool(host, "picture", b"{}"))["content"][0]["mimeType"] == "image/png"


async def test_a_request_gets_only_the_tools_that_it_names() -> None:
    async with toolset_tools([shop_tools, plain_tools], deps=Shop(), only=["picture"]) as tools:
        assert [tool.name for tool in tools] == ["picture"]
    with pytest.raises(exceptions.UserError, match="no registered toolset has dance; there are sell, ask"):
        async with toolset_tools([shop_tools], deps=Shop(), only=["dance"]):
            pass


async def test_a_tool_that_takes_a_context_needs_deps() -> None:
    with pytest.raises(exceptions.UserError, match="sell, ask: these tools take a run context"):
        async with toolset_tools([shop_tools]):
            pass
    async with toolset_tools([plain_tools]) as tools:
        assert len(tools) == 1
