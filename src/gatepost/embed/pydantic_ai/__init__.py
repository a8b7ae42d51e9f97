"""pydantic-ai and CLI agents: an agent's toolsets served to any of them, and Claude Code as the model of an agent.

The model needs claude-agent-sdk as well, so it is loaded when it is first named.
"""

from typing import TYPE_CHECKING

from gatepost.embed.pydantic_ai.toolsets import toolset_tools

if TYPE_CHECKING:
    from gatepost.embed.pydantic_ai.model import ClaudeCodeModel, ClaudeCodeSettings, Metadata

__all__ = ["ClaudeCodeModel", "ClaudeCodeSettings", "Metadata", "toolset_tools"]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"gatepost.embed.pydantic_ai has no {name}")
    from gatepost.embed.pydantic_ai import model

    return getattr(model, name)
