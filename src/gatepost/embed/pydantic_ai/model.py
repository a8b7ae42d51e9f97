"""ClaudeCodeModel: a pydantic-ai agent on Claude Code, which calls the agent's tools itself while a request runs. Each
request has a tool host of its own, so requests may run beside one another.

    model = ClaudeCodeModel("sonnet")
    agent = Agent(model, tools=[get_weather], deps_type=Deps)
    model.set_agent_toolsets(agent.toolsets, deps=deps)
"""

import asyncio
import json
from base64 import b64encode
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import claude_agent_sdk as sdk
from pydantic_ai import exceptions
from pydantic_ai.messages import (
    BinaryContent,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    RetryPromptPart,
    SystemPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.profiles import ModelProfile
from pydantic_ai.settings import ModelSettings
from pydantic_ai.toolsets import AbstractToolset
from pydantic_ai.usage import RequestUsage

from gatepost.embed.claude import TRANSPORTS, ClaudeTools, Transport
from gatepost.embed.pydantic_ai.toolsets import NONE_GIVEN, toolset_tools

_PROFILE = ModelProfile(supports_tools=True, supports_json_schema_output=True, default_structured_output_mode="native")
LARGEST_LINE = 64 * 1024 * 1024  # of what Claude Code says; a tool's result is one
Block = dict[str, Any]


class ClaudeCodeSettings(ModelSettings, total=False):  # type: ignore[call-arg,unused-ignore] # without pydantic-ai
    """Settings of one request, beside `timeout`."""

    max_turns: int
    max_budget_usd: float
    append_system_prompt: str
    working_directory: str
    continue_conversation: bool
    resume: str


@dataclass(frozen=True, slots=True)
class Metadata:
    """Claude Code's words about a request when it has ended."""

    session_id: str
    cost_usd: float | None
    turns: int
    duration_ms: int
    duration_api_ms: int
    usage: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Toolsets:
    toolsets: Sequence[AbstractToolset[Any]]
    name: str
    transport: Transport
    deps: Any


@dataclass(frozen=True, slots=True)
class ClaudePrompt:
    """A conversation as one prompt for Claude Code: what was said before as text, the newest words whole."""

    system: str
    blocks: list[Block]

    def sent(self) -> "str | AsyncIterator[Block]":
        """Text as text; with images, the one message of a stream."""
        if all(block["type"] == "text" for block in self.blocks):
            return "\n\n".join(block["text"] for block in self.blocks)
        return self._stream()

    async def _stream(self) -> AsyncIterator[Block]:
        message = {"role": "user", "content": self.blocks}
        yield {"type": "user", "message": message, "parent_tool_use_id": None, "session_id": ""}


def _make_prompt(messages: list[ModelMessage], parameters: ModelRequestParameters) -> ClaudePrompt:
    system = [part.content for message in messages for part in message.parts if isinstance(part, SystemPromptPart)]
    instructions = next((each.instructions for each in reversed(messages) if isinstance(each, ModelRequest)), None)
    before, blocks = messages[:-1], list[Block]()
    if lines := [line for message in before for line in _lines(message)]:
        blocks.append(_text("This was said before:\n\n" + "\n\n".join(lines) + "\n\nNow:"))
    for part in messages[-1].parts if messages else ():
        blocks += _blocks(part)
    return ClaudePrompt("\n\n".join(each for each in [*system, instructions] if each), blocks or [_text("")])


def _lines(message: ModelMessage) -> list[str]:
    who = "User" if isinstance(message, ModelRequest) else "Assistant"
    found = []
    for part in message.parts:
        blocks = [_text(part.content)] if isinstance(part, TextPart) else _blocks(part)
        found += [f"{who}: {block['text']}" for block in blocks if block["type"] == "text"]
    return found


def _blocks(part: Any) -> list[Block]:
    if isinstance(part, UserPromptPart):
        items = [part.content] if isinstance(part.content, str) else list(part.content)
        return [_block(item) for item in items]
    if isinstance(part, RetryPromptPart):
        return [_text(part.model_response())]
    if isinstance(part, ToolReturnPart):
        return [_text(f"{part.tool_name} gave back: {part.model_response_str()}")]
    return []


def _block(item: Any) -> Block:
    if isinstance(item, str):
        return _text(item)
    if isinstance(item, BinaryContent) and item.media_type.startswith("image/"):
        source = {"type": "base64", "media_type": item.media_type, "data": b64encode(item.data).decode()}
        return {"type": "image", "source": source}
    raise exceptions.UserError(f"Claude Code takes text and images in a prompt, not a {type(item).__name__}")


def _text(words: str) -> Block:
    return {"type": "text", "text": words}


class ClaudeCodeModel(Model[Any]):
    """`tools` are those of Claude Code itself that may be used; none, if nothing is said. `options` go to
    `ClaudeAgentOptions` as they are."""

    def __init__(
        self,
        model_name: str = "default",
        *,
        tools: Sequence[str] = (),
        timeout: float = 120.0,
        working_directory: str | Path | None = None,
        env: Mapping[str, str] | None = None,
        options: Mapping[str, Any] | None = None,
        settings: ModelSettings | None = None,
    ) -> None:
        super().__init__(settings=settings, profile=_PROFILE)
        self._model_name, self._timeout = model_name, timeout
        self._given: dict[str, Any] = {
            "tools": list(tools),
            "allowed_tools": list(tools),
            "permission_mode": "dontAsk",
            "setting_sources": [],
            "strict_mcp_config": True,
            "max_buffer_size": LARGEST_LINE,
            "env": {"ENABLE_TOOL_SEARCH": "false", **(env or {})},  # else an agent's tools are hidden behind a search
            "cwd": working_directory,
            **(options or {}),
        }
        self._toolsets: _Toolsets | None = None

    @property
    def model_name(self) -> str:
        return self._model_name

    @property
    def system(self) -> str:
        return "claude-code"

    def set_agent_toolsets(
        self,
        toolsets: Sequence[AbstractToolset[Any]] | None,
        *,
        server_name: str = "pydantic_tools",
        transport: Transport = "auto",
        deps: Any = NONE_GIVEN,
    ) -> None:
        """Which tools a request may name. Said again, it overrules what was said before, from the next request on."""
        if transport not in TRANSPORTS:
            raise exceptions.UserError(f"there is no transport {transport!r}, only {', '.join(TRANSPORTS)}")
        self._toolsets = _Toolsets(tuple(toolsets), server_name, transport, deps) if toolsets else None

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        return (await self.request_with_metadata(messages, model_settings, model_request_parameters))[0]

    async def request_with_metadata(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None = None,
        model_request_parameters: ModelRequestParameters | None = None,
    ) -> tuple[ModelResponse, Metadata]:
        settings, parameters = self.prepare_request(
            model_settings, model_request_parameters or ModelRequestParameters()
        )
        result: Any = None
        async with aclosing(self._run(messages, settings, parameters)) as said:
            async for message in said:
                if isinstance(message, sdk.ResultMessage):
                    result = message
        if result is None or result.is_error:
            raise exceptions.ModelAPIError(self._model_name, _reason(result))
        usage = result.usage or {}
        metadata = Metadata(
            result.session_id,
            result.total_cost_usd,
            result.num_turns,
            result.duration_ms,
            result.duration_api_ms,
            usage,
        )
        response = ModelResponse(
            parts=[_part(result, parameters)],
            usage=_usage(usage),
            model_name=self._model_name,
            provider_name=self.system,
            provider_response_id=result.session_id,
        )
        return response, metadata

    async def stream_messages(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None = None,
        model_request_parameters: ModelRequestParameters | None = None,
    ) -> AsyncGenerator[Any, None]:
        """Yield what Claude Code says, as the SDK has it, while it says it. Leave it with `aclosing` to stop early."""
        settings, parameters = self.prepare_request(
            model_settings, model_request_parameters or ModelRequestParameters()
        )
        async with aclosing(self._run(messages, settings, parameters)) as said:
            async for message in said:
                yield message

    async def _run(
        self, messages: list[ModelMessage], settings: ModelSettings | None, parameters: ModelRequestParameters
    ) -> AsyncGenerator[Any, None]:
        """In a task of its own: the SDK's cancel scopes must be left by whoever entered them."""
        heard: asyncio.Queue[Any] = asyncio.Queue()

        async def listen() -> None:
            prompt = _make_prompt(messages, parameters)
            async with asyncio.timeout(_number(settings, "timeout") or self._timeout):
                async with self._options(prompt, settings, parameters) as options:
                    said = sdk.query(prompt=prompt.sent(), options=options)
                    async with aclosing(said):  # type: ignore[type-var] # it is a generator, and does not say so
                        async for message in said:
                            heard.put_nowait(message)

        task = asyncio.create_task(listen())
        task.add_done_callback(lambda _: heard.put_nowait(None))
        try:
            while (message := await heard.get()) is not None:
                yield message
            await task
        except TimeoutError:
            raise exceptions.ModelAPIError(self._model_name, "Claude Code took longer than `timeout` allows") from None
        except sdk.ClaudeSDKError as error:
            raise exceptions.ModelAPIError(self._model_name, str(error)) from error
        finally:
            task.cancel()
            await asyncio.wait([task], timeout=5)

    @asynccontextmanager
    async def _options(
        self, prompt: ClaudePrompt, settings: ModelSettings | None, parameters: ModelRequestParameters
    ) -> AsyncIterator[Any]:
        given = dict(self._given) | _read_settings(settings)
        if self._model_name != "default":
            given["model"] = self._model_name
        system = "\n\n".join(each for each in (prompt.system, given.pop("append_system_prompt", "")) if each)
        if system:
            given["system_prompt"] = system
        if (schema := _schema(parameters)) is not None:
            given["output_format"] = {"type": "json_schema", "schema": schema}
        wanted = [each.name for each in parameters.function_tools]
        async with AsyncExitStack() as stack:
            if wanted:
                tools = await stack.enter_async_context(self._tools(wanted))
                given["mcp_servers"] = {**given.get("mcp_servers", {}), **tools.mcp_servers}
                given["allowed_tools"] = [*given["allowed_tools"], *tools.allowed_tools]
            yield sdk.ClaudeAgentOptions(**given)

    @asynccontextmanager
    async def _tools(self, wanted: list[str]) -> AsyncIterator[ClaudeTools]:
        known = self._toolsets
        if known is None:
            raise exceptions.UserError(
                f"the request names {', '.join(wanted)}, and no toolset is registered: call set_agent_toolsets first"
            )
        async with toolset_tools(known.toolsets, deps=known.deps, only=wanted, model=self) as tools:
            async with ClaudeTools(tools, name=known.name, transport=known.transport) as served:
                yield served


_KINDS: dict[str, tuple[type, ...]] = {
    "max_turns": (int,),
    "max_budget_usd": (int, float),
    "append_system_prompt": (str,),
    "working_directory": (str, Path),
    "continue_conversation": (bool,),
    "resume": (str,),
}


def _read_settings(settings: ModelSettings | None) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, kinds in _KINDS.items():
        value = (settings or {}).get(name)
        if value is None:
            continue
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            raise exceptions.UserError(f"{name} must be {' or '.join(kind.__name__ for kind in kinds)}, not {value!r}")
        found["cwd" if name == "working_directory" else name] = value
    if found.get("max_turns", 1) < 1 or found.get("max_budget_usd", 0) < 0:
        raise exceptions.UserError("max_turns must be above 0, and max_budget_usd not below it")
    if found.get("continue_conversation") and found.get("resume"):
        raise exceptions.UserError("continue_conversation and resume exclude one another")
    return found


def _number(settings: ModelSettings | None, name: str) -> float | None:
    value = (settings or {}).get(name)
    return float(value) if isinstance(value, int | float) else None


def _schema(parameters: ModelRequestParameters) -> dict[str, Any] | None:
    if parameters.output_object is not None and parameters.output_mode == "native":
        return parameters.output_object.json_schema
    if len(parameters.output_tools) > 1:
        raise exceptions.UserError("Claude Code gives one kind of output a request: use NativeOutput for several types")
    return parameters.output_tools[0].parameters_json_schema if parameters.output_tools else None


def _part(result: Any, parameters: ModelRequestParameters) -> TextPart | ToolCallPart:
    if result.structured_output is None:
        return TextPart(result.result or "")
    if parameters.output_tools:
        return ToolCallPart(parameters.output_tools[0].name, result.structured_output)
    return TextPart(json.dumps(result.structured_output, ensure_ascii=False))


def _usage(counts: Mapping[str, Any]) -> RequestUsage:
    read, written = counts.get("cache_read_input_tokens") or 0, counts.get("cache_creation_input_tokens") or 0
    return RequestUsage(
        input_tokens=(counts.get("input_tokens") or 0) + read + written,
        output_tokens=counts.get("output_tokens") or 0,
        cache_read_tokens=read,
        cache_write_tokens=written,
    )


def _reason(result: Any) -> str:
    if result is None:
        return "Claude Code ended without a result"
    return "; ".join(result.errors or ()) or result.result or f"Claude Code ended with {result.subtype}"
