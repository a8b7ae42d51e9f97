"""pydantic-ai on a real Claude Code, against the scripted model. Skipped where either is not installed."""

import asyncio
import os
import tempfile
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pydantic_ai", reason="pydantic-ai is not installed: pip install pydantic-ai-slim")
pytest.importorskip("claude_agent_sdk", reason="claude-agent-sdk is not installed: pip install '.[claude]'")

from claude_agent_sdk import ResultMessage
from pydantic import BaseModel
from pydantic_ai import Agent, RunContext, exceptions
from pydantic_ai.messages import ModelRequest, TextPart, UserPromptPart, VideoUrl
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.tools import ToolDefinition

from gatepost.embed.pydantic_ai import ClaudeCodeModel, ClaudeCodeSettings
from gatepost_testing.models import ModelEndpoint

SCRIPT = {
    "turns": [
        {"when": "zx-sell (\\w+)", "do": [{"call": "sell", "with": {"item": "{1}"}}, {"say": "Done: {result}"}]},
        {"when": "zx-size", "do": [{"call": "StructuredOutput", "with": {"width": 3, "name": "box"}}, {"say": "ok"}]},
        {"when": "zx-busy", "do": [{"fault": 400, "times": -1, "error": "no such thing"}]},
    ],
    "default": [{"say": "echo: {text}"}],
}


@dataclass
class Shop:
    sold: list[str] = field(default_factory=list)


class Size(BaseModel):
    width: int
    name: str


def sell(ctx: RunContext[Shop], item: str) -> str:
    """Sell it."""
    ctx.deps.sold.append(item)
    return f"sold {item}"


@pytest.fixture
async def endpoint() -> AsyncIterator[ModelEndpoint]:
    async with ModelEndpoint(SCRIPT) as opened:
        yield opened


@pytest.fixture
def model(endpoint: ModelEndpoint, tmp_path: Path) -> ClaudeCodeModel:
    env = {
        "ANTHROPIC_BASE_URL": endpoint.anthropic,
        "ANTHROPIC_API_KEY": "none",
        "HOME": str(tmp_path),
        "CLAUDE_CONFIG_DIR": str(tmp_path / "claude"),
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "CLAUDE_CODE_MAX_RETRIES": "0",
    }
    return ClaudeCodeModel("claude-sonnet-4-5", env=env, working_directory=tmp_path, timeout=80)


def asking(text: str) -> list[Any]:
    return [ModelRequest(parts=[UserPromptPart(text)])]


@pytest.mark.slow
@pytest.mark.parametrize("transport", ["stdio", "in-process"])
async def test_an_agent_uses_its_tools_with_its_deps(model: ClaudeCodeModel, transport: Any) -> None:
    shop = Shop()
    agent = Agent(model, deps_type=Shop, tools=[sell], instructions="You are a clerk named Zed.")
    model.set_agent_toolsets(agent.toolsets, deps=shop, transport=transport)
    result = await agent.run("zx-sell tea", deps=shop)
    assert "sold tea" in result.output
    assert shop.sold == ["tea"]
    assert result.usage.output_tokens > 0


@pytest.mark.slow
async def test_paseo_40_two_concurrent_requests_on_one_model_finish_with_their_own_tools(
    model: ClaudeCodeModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tempfile.TemporaryDirectory(prefix="t") as folder:
        monkeypatch.setattr(tempfile, "tempdir", folder)
        shop = Shop()
        agent = Agent(model, deps_type=Shop, tools=[sell])
        model.set_agent_toolsets(agent.toolsets, deps=shop)
        one, two = await asyncio.gather(agent.run("zx-sell tea", deps=shop), agent.run("zx-sell cake", deps=shop))
        assert "sold tea" in one.output and "sold cake" in two.output
        assert sorted(shop.sold) == ["cake", "tea"]
        assert [name for name in os.listdir(folder) if name.startswith("gatepost_embed_")] == []


@pytest.mark.slow
async def test_output_has_the_type_that_was_asked_for(model: ClaudeCodeModel) -> None:
    result = await Agent(model, output_type=Size).run("zx-size of it")
    assert result.output == Size(width=3, name="box")


@pytest.mark.slow
async def test_metadata_and_the_messages_themselves(model: ClaudeCodeModel) -> None:
    response, metadata = await model.request_with_metadata(asking("hello zx"))
    assert isinstance(response.parts[0], TextPart) and "hello zx" in response.parts[0].content
    assert metadata.session_id and metadata.turns == 1 and metadata.duration_ms > 0
    async with aclosing(model.stream_messages(asking("hello again"))) as said:
        messages = [message async for message in said]
    assert isinstance(messages[-1], ResultMessage)
    with_history = [*asking("first words"), response, *asking("second words")]
    again, _ = await model.request_with_metadata(with_history)
    assert isinstance(again.parts[0], TextPart) and "first words" in again.parts[0].content


@pytest.mark.slow
async def test_what_goes_wrong_is_told(model: ClaudeCodeModel) -> None:
    with pytest.raises(exceptions.ModelAPIError, match="no such thing"):
        await model.request_with_metadata(asking("zx-busy"))
    named = ModelRequestParameters(function_tools=[ToolDefinition(name="sell")])
    with pytest.raises(exceptions.UserError, match="call set_agent_toolsets first"):
        await model.request_with_metadata(asking("a"), None, named)
    for settings in ({"max_turns": 0}, {"max_turns": "x"}, {"resume": "a", "continue_conversation": True}):
        with pytest.raises(exceptions.UserError):
            await model.request_with_metadata(asking("a"), ClaudeCodeSettings(**settings))
    with pytest.raises(exceptions.UserError, match="text and images"):
        await model.request_with_metadata([ModelRequest(parts=[UserPromptPart([VideoUrl("https://a.example/b.mp4")])])])


@pytest.mark.slow
async def test_leaving_the_stream_early_ends_claude_code(model: ClaudeCodeModel) -> None:
    async with aclosing(model.stream_messages(asking("hello"))) as said:
        async for _ in said:
            break
    assert not [task for task in asyncio.all_tasks() if "listen" in repr(task.get_coro())]
