"""The agents that a gateway can put to work, each with what it needs to run against the scripted model, and a gateway
with one of them in its sandbox.

async with ModelEndpoint(script) as endpoint, a_gateway(AGENTS["claude"], tmp_path / "h", channel, endpoint):
    await channel.say("hello")
"""

import importlib.util
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gatepost.app import Gateway
from gatepost.core.keyring import Keyring
from gatepost.sandboxes.bubblewrap import find_bwrap
from gatepost.store.rights import secrets
from gatepost.store.rights.secret_rows import SecretOwner
from gatepost.store.sessions import groups
from gatepost_testing import programs
from gatepost_testing.channel import FakeChannel
from gatepost_testing.gateway import open_room, running_gateway
from gatepost_testing.models import ModelEndpoint

ROOM = "fake:room/1"
KEY = "sk-very-secret-000"
PATIENCE = 120.0

OPENCODE = {
    "model": "gateway/gpt-4o",
    "provider": {
        "gateway": {
            "npm": "@ai-sdk/openai-compatible",
            "options": {"baseURL": "{env:OPENAI_BASE_URL}", "apiKey": "{env:OPENAI_API_KEY}"},
            "models": {"gpt-4o": {"attachment": True, "modalities": {"input": ["text", "image"], "output": ["text"]}}},
        }
    },
}


@dataclass(frozen=True)
class AgentProfile:
    """`shell`: its tool for commands, and the argument that holds one; None: it has none."""

    provider: str
    model: str
    shell: tuple[str, str] | None = None
    pushes: bool = True  # a follow-up can join a turn that runs
    options: Mapping[str, Any] = field(default_factory=dict)
    program: str = ""
    package: str = ""
    slow: bool = False
    tool: str = "{}"  # how it calls the gateway's tools

    @property
    def missing(self) -> str:
        if find_bwrap() is None:
            return "bubblewrap is not installed"
        if self.program and programs.find(self.program) is None:
            return f"{self.program} is not installed: make test-all does it"
        if self.package and importlib.util.find_spec(self.package) is None:
            return f"{self.package} is not installed: pip install '.[{self.provider}]'"
        return ""


_ALL = (
    AgentProfile("anthropic", "claude-sonnet-4-5"),
    AgentProfile("openai", "gpt-5-mini"),
    AgentProfile(
        "claude", "claude-sonnet-4-5", ("Bash", "command"), package="claude_agent_sdk", tool="mcp__gatepost__{}"
    ),
    AgentProfile("codex", "gpt-5.6-sol", ("exec_command", "cmd"), program="codex", slow=True),
    AgentProfile("opencode", "gpt-5", ("bash", "command"), program="opencode", slow=True, tool="gatepost_{}"),
    AgentProfile(
        "acp",
        "",
        ("bash", "command"),
        pushes=False,
        options={"command": "opencode acp", "env": {"OPENCODE_CONFIG_CONTENT": json.dumps(OPENCODE)}},
        program="opencode",
        slow=True,
        tool="gatepost_{}",
    ),
)
AGENTS: Mapping[str, AgentProfile] = {each.provider: each for each in _ALL}


@asynccontextmanager
async def run_agent_gateway(
    agent: AgentProfile,
    path: Path,
    channel: FakeChannel,
    endpoint: ModelEndpoint,
    *,
    sandbox: str = "bubblewrap",
    settings: Mapping[str, Any] | None = None,
    model: str = "",
    **more: Any,
) -> AsyncIterator[Gateway]:
    """A gateway whose group `home` is this agent's; `more` are options of the group."""
    path.parent.chmod(0o711)
    given: dict[str, Any] = {
        "sandbox__kind": sandbox,
        "sessions__provider": agent.provider,
        "anthropic__base_url": endpoint.anthropic,
        "openai__base_url": endpoint.openai,
        "programs": [f"{agent.program}={programs.find(agent.program)}"] if agent.program else [],
        **(settings or {}),
    }
    async with running_gateway(path, {"fake": (channel.kind, channel)}, **given) as gateway:
        values = {"model": model or agent.model, "options": {**agent.options, **more}}
        await gateway.store.write(groups.update, "home", values)
        keyring, now = Keyring(gateway.home), gateway.clock.now()
        for name in (secrets.ANTHROPIC_API_KEY, secrets.OPENAI_API_KEY):
            await gateway.store.write(secrets.put, keyring, SecretOwner(), name, KEY, now)
        await open_room(gateway, "fake", ROOM)
        yield gateway
