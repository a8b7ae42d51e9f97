"""Serve Python functions to any CLI agent that speaks MCP. It imports `gatepost.jsonrpc` and nothing else of Gatepost.

    async with ToolHost([get_weather, book_table]) as host:
        config = host.mcp_config()

The names are loaded when they are first used: `python -m gatepost.embed.bridge` comes through here and must start fast.
"""

TYPE_CHECKING = False  # the import of `typing` would take longer than the bridge's own
if TYPE_CHECKING:
    from gatepost.embed.host import ToolHost
    from gatepost.embed.results import Audio, Image, Resource, ResourceLink, ToolError, ToolOutput
    from gatepost.embed.tool import FunctionTool, Progress

__all__ = [
    "Audio",
    "FunctionTool",
    "Image",
    "Progress",
    "Resource",
    "ResourceLink",
    "ToolError",
    "ToolHost",
    "ToolOutput",
]

_WHERE = {"ToolHost": "host", "Progress": "tool", "FunctionTool": "tool"}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"gatepost.embed has no {name}")
    from importlib import import_module

    return getattr(import_module(f"gatepost.embed.{_WHERE.get(name, 'results')}"), name)
