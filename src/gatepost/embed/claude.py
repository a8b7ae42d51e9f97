"""Functions for the Claude Agent SDK: through the bridge, or by a server in this process.

    async with ClaudeTools([get_weather], name="shop") as tools:
        print(await tools.ask("What shall I wear in Cologne?"))
        # or with options of your own:
        options = ClaudeAgentOptions(mcp_servers=tools.mcp_servers, allowed_tools=tools.allowed_tools)

`stdio` passes everything on; `in-process` starts no process, but the SDK passes no progress on. `auto` is stdio.
"""

from collections.abc import Callable, Iterable
from typing import Any, Literal, Self

import msgspec

from gatepost.embed.host import ToolHost
from gatepost.embed.results import ToolError, render, render_error
from gatepost.embed.tool import FunctionTool

Transport = Literal["auto", "stdio", "in-process"]
TRANSPORTS = ("auto", "stdio", "in-process")
NO_SDK = "claude-agent-sdk is not installed; in a checkout of Gatepost: pip install '.[claude]'"
NO_KEY = (
    "Claude Code has no key: set ANTHROPIC_API_KEY, or log in with `claude /login`. To try it without one, see"
    " docs/embed.md, `Without a key`"
)


class ClaudeFailed(Exception):
    """Claude Code could not answer; the text says why, and what helps."""


class ClaudeTools:
    """Servers and permissions for `ClaudeAgentOptions`, as long as the `async with` lasts."""

    def __init__(
        self, tools: Iterable[Callable[..., Any] | FunctionTool], *, name: str = "tools", transport: Transport = "auto"
    ) -> None:
        if transport not in TRANSPORTS:
            raise ValueError(f"there is no transport {transport!r}, only {', '.join(TRANSPORTS)}")
        self.host = ToolHost(tools, name=name)
        self._in_process = transport == "in-process"

    async def __aenter__(self) -> Self:
        if not self._in_process:
            await self.host.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.host.stop()

    @property
    def mcp_servers(self) -> dict[str, Any]:
        if self._in_process:
            return {self.host.name: {"type": "sdk", "name": self.host.name, "instance": in_process(self.host)}}
        servers: dict[str, Any] = self.host.mcp_config("claude")["mcpServers"]
        return servers

    @property
    def allowed_tools(self) -> list[str]:
        """Every tool, as Claude Code calls it: it then asks nobody before it calls one."""
        return [f"mcp__{self.host.name}__{each}" for each in self.host.tools]

    async def ask(self, prompt: str, **options: Any) -> str:
        """Return what Claude Code says in the end; it may use these tools, and no others unless `tools` names them.
        `options` go to `ClaudeAgentOptions`. Raises ClaudeFailed."""
        try:
            import claude_agent_sdk as sdk
        except ImportError:
            raise ClaudeFailed(NO_SDK) from None
        env = {"ENABLE_TOOL_SEARCH": "false", **options.pop("env", {})}  # else they are hidden behind a search
        given = {"mcp_servers": self.mcp_servers, "allowed_tools": self.allowed_tools, "tools": [], **options}
        wanted = sdk.ClaudeAgentOptions(**{"setting_sources": [], **given}, env=env)
        result: sdk.ResultMessage | None = None
        try:
            async for message in sdk.query(prompt=prompt, options=wanted):
                result = message if isinstance(message, sdk.ResultMessage) else result
        except sdk.ClaudeSDKError as error:
            raise ClaudeFailed(reason_of(result.result or "" if result else str(error))) from None
        if result is None or result.is_error:
            raise ClaudeFailed(reason_of(result.result or result.subtype if result else ""))
        return result.result or ""


def reason_of(said: str) -> str:
    """Claude Code's own words, or better ones where we know what helps."""
    if "not logged in" in said.lower() or "/login" in said:
        return NO_KEY
    return f"Claude Code could not answer: {said.strip()}" if said.strip() else "Claude Code ended without an answer"


def in_process(host: ToolHost) -> Any:
    """The host's tools as an `mcp.server.Server`; the host need not be started."""
    import mcp.server.lowlevel  # 0.7 s: only for those who want it

    async def listed(_context: object, _params: object) -> mcp.types.ListToolsResult:
        return mcp.types.ListToolsResult.model_validate({"tools": [tool.listed() for tool in host.tools.values()]})

    async def called(_context: object, params: mcp.types.CallToolRequestParams) -> mcp.types.CallToolResult:
        arguments = msgspec.json.encode(params.arguments or {})
        return mcp.types.CallToolResult.model_validate(await run_tool(host, params.name, arguments))

    return mcp.server.lowlevel.Server(host.name, version="1", on_list_tools=listed, on_call_tool=called)


async def run_tool(host: ToolHost, name: str, arguments: bytes) -> dict[str, Any]:
    """Return what a bridge would tell."""
    try:
        return render(await host.run(name, arguments, _ignore_progress))
    except ToolError as error:
        return render_error(str(error))
    except Exception as error:  # noqa: BLE001  the dispatching loop: a tool's fault goes to its caller
        return render_error(f"{error} ({type(error).__name__})")


def _ignore_progress(done: float, total: float | None = None, message: str = "") -> None:
    """Nobody listens to progress."""
