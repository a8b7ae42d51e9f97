"""Toolsets of pydantic-ai for any CLI agent: their tools are listed, checked and called as pydantic-ai would.

    async with toolset_tools(agent.toolsets, deps=deps) as tools, ToolHost(tools) as host: ...

`deps` stay in this process, passed by reference.
"""

from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from typing import Any
from uuid import uuid4

import pydantic
from pydantic_ai import RunContext, exceptions
from pydantic_ai.messages import BinaryContent, ToolReturn
from pydantic_ai.models import Model
from pydantic_ai.models.test import TestModel
from pydantic_ai.toolsets import AbstractToolset, CombinedToolset, ToolsetTool
from pydantic_ai.usage import RunUsage

from gatepost.embed.results import Audio, Image, Resource, ToolError, ToolOutput
from gatepost.embed.tool import FunctionTool

NONE_GIVEN: Any = object()


@asynccontextmanager
async def toolset_tools(
    toolsets: Sequence[AbstractToolset[Any]],
    *,
    deps: Any = NONE_GIVEN,
    only: Collection[str] | None = None,
    model: Model | None = None,
) -> AsyncIterator[list[FunctionTool]]:
    """The tools of these toolsets, opened as for one run. `only` keeps those of these names, and each must exist.
    Without `deps`, a tool that takes a run context is refused by its name."""
    context = RunContext[Any](deps=None if deps is NONE_GIVEN else deps, model=model or TestModel(), usage=RunUsage())
    async with AsyncExitStack() as stack:
        combined = await CombinedToolset(list(toolsets)).for_run(context)
        await stack.enter_async_context(combined)
        ready = await combined.for_run_step(context)
        found = await ready.get_tools(context)
        chosen = choose(found, only)
        if deps is NONE_GIVEN and (needy := [name for name, tool in chosen.items() if _needs_context(name, tool)]):
            raise exceptions.UserError(f"{', '.join(needy)}: these tools take a run context, so `deps` must be given")
        yield [_tool(name, tool, ready, context) for name, tool in chosen.items()]


def choose(found: dict[str, ToolsetTool[Any]], only: Collection[str] | None) -> dict[str, ToolsetTool[Any]]:
    if only is None:
        return found
    if missing := [name for name in only if name not in found]:
        raise exceptions.UserError(
            f"no registered toolset has {', '.join(missing)}; there are {', '.join(found) or 'none'}"
        )
    return {name: tool for name, tool in found.items() if name in only}


def _needs_context(name: str, tool: ToolsetTool[Any]) -> bool:
    """Known of plain functions; others are asked when they are called."""
    source: Any = getattr(tool, "source_tool", tool)
    tools = getattr(getattr(source, "toolset", None), "tools", {})
    return bool(getattr(tools.get(name), "takes_ctx", False)) if isinstance(tools, dict) else False


def _tool(name: str, tool: ToolsetTool[Any], toolset: AbstractToolset[Any], context: RunContext[Any]) -> FunctionTool:
    async def call(given: bytes) -> object:
        mine = replace(context, tool_name=name, tool_call_id=uuid4().hex)
        try:
            arguments = tool.args_validator.validate_json(given or b"{}", context=mine.validation_context)
            if tool.args_validator_func is not None:
                checked = tool.args_validator_func(mine, **arguments)
                if hasattr(checked, "__await__"):
                    await checked
            return _plain(await toolset.call_tool(name, arguments, mine, tool))
        except (exceptions.ModelRetry, exceptions.ToolFailed) as error:
            raise ToolError(str(error)) from error
        except (exceptions.CallDeferred, exceptions.ApprovalRequired) as error:
            raise ToolError(f"{name} must be approved or done elsewhere, and nobody can be asked here") from error
        except pydantic.ValidationError as error:
            raise ToolError(str(error)) from error

    definition = tool.tool_def
    return FunctionTool(name, definition.description or "", definition.parameters_json_schema, call, _raw)


def _raw(given: bytes) -> dict[str, Any]:
    """pydantic reads the JSON itself: from JSON it takes what it would not take from Python."""
    return {"given": given}


_BINARY: dict[str, Callable[[bytes, str], Image | Audio]] = {"image": Image, "audio": Audio}


def _plain(value: Any) -> object:
    if isinstance(value, BinaryContent):
        kind = _BINARY.get(value.media_type.partition("/")[0])
        name = f"file:///{value.identifier}"
        return kind(value.data, value.media_type) if kind else Resource(name, value.data, value.media_type)
    if isinstance(value, ToolReturn):
        more = [value.content] if isinstance(value.content, str) else list(value.content or ())
        parts = [_plain(each) for each in ([] if value.return_value is None else [value.return_value]) + more]
        return parts[0] if len(parts) == 1 else ToolOutput([_shown(part) for part in parts])
    if isinstance(value, list) and any(isinstance(each, BinaryContent) for each in value):
        return [_plain(each) for each in value]
    return value


def _shown(part: object) -> Any:
    return (
        part if isinstance(part, str | Image | Audio | Resource) else pydantic.TypeAdapter(Any).dump_json(part).decode()
    )
