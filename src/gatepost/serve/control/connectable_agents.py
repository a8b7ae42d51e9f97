"""What can be connected: the real agents, and what each needs on this machine. Data, and questions about it."""

import re
from dataclasses import dataclass, field
from importlib import metadata, util
from typing import Any

from gatepost.core.errors import Invalid
from gatepost.core.name_suggestions import did_you_mean
from gatepost.core.records import replace
from gatepost.egress.endpoints import BASES
from gatepost.store.secrets import ANTHROPIC_API_KEY, ANTHROPIC_AUTH_TOKEN, OPENAI_API_KEY

KEYS = {"anthropic": ANTHROPIC_API_KEY, "openai": OPENAI_API_KEY}
TOKEN, ANTHROPICS = "sk-ant-oat", "sk-ant-"  # how a subscription's token begins, and everything of Anthropic's


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectableAgent:
    """One that `gatepost connect` knows by its provider's name."""

    name: str
    what: str
    vendor: str  # whose endpoint and key it uses
    model: str = ""  # for a group that names none; '': the agent's own choice
    module: str = ""  # the library that it needs, of the extra with its name
    program: str = ""  # the program that it needs
    subscription: bool = False  # takes a subscription's token, too
    any_vendor: bool = False  # it may ask the other one's endpoint
    any_program: bool = False  # the group says which program it is
    trial: dict[str, Any] = field(default_factory=dict)  # options for the one turn that tries it


AGENTS = {
    each.name: each
    for each in (
        ConnectableAgent(
            name="claude",
            what="Claude Code",
            vendor="anthropic",
            module="claude_agent_sdk",
            subscription=True,
            trial={"retries": 1},
        ),
        ConnectableAgent(
            name="anthropic", what="a model behind Anthropic's API", vendor="anthropic", model="claude-sonnet-4-5"
        ),
        ConnectableAgent(
            name="openai", what="a model behind OpenAI's API, or a local one", vendor="openai", model="gpt-5-mini"
        ),
        ConnectableAgent(
            name="codex", what="Codex", vendor="openai", model="gpt-5.5", program="codex", trial={"retries": 1}
        ),
        ConnectableAgent(
            name="opencode",
            what="opencode",
            vendor="openai",
            model="gpt-5-mini",
            program="opencode",
            any_vendor=True,
            trial={"retries": 1},
        ),
        ConnectableAgent(
            name="acp", what="any agent that speaks ACP", vendor="anthropic", any_vendor=True, any_program=True
        ),
    )
}


def get_agent(name: str, vendor: str = "") -> ConnectableAgent:
    """`vendor`: another than the agent's own, where it can have one."""
    found = AGENTS.get(name)
    if found is None:
        near = did_you_mean(name, AGENTS)
        raise Invalid("agent", f"{name!r} is nothing to connect; there are: {', '.join(AGENTS)}{near}")
    if not vendor or vendor == found.vendor:
        return found
    if vendor not in BASES or not found.any_vendor:
        raise Invalid("vendor", f"{name} asks {found.vendor}'s endpoint{did_you_mean(vendor, BASES)}")
    return replace(found, vendor=vendor)


def get_secret_name(chosen: ConnectableAgent, value: str) -> str:
    """Under which name a key is kept, by how it begins. Says nothing of the value itself."""
    if chosen.vendor == "openai" and value.startswith(ANTHROPICS):
        raise Invalid("key", f"that is one of Anthropic's, and {chosen.name} asks OpenAI's endpoint")
    if value.startswith(TOKEN):
        if not chosen.subscription:
            raise Invalid("key", "that is a subscription's token, which is for Claude Code: `gatepost connect claude`")
        return ANTHROPIC_AUTH_TOKEN
    return KEYS[chosen.vendor]


def list_key_names(chosen: ConnectableAgent) -> tuple[str, ...]:
    """The secrets it could use, the one that wins first."""
    return (KEYS[chosen.vendor], ANTHROPIC_AUTH_TOKEN) if chosen.subscription else (KEYS[chosen.vendor],)


def has_library(chosen: ConnectableAgent) -> bool:
    return not chosen.module or util.find_spec(chosen.module) is not None


def list_requirements(chosen: ConnectableAgent) -> list[str]:
    """What its extra stands for, by the package's own word."""
    listed = metadata.requires("gatepost") or []
    wanted = re.compile(rf"extra\s*==\s*['\"]{re.escape(chosen.name)}['\"]")
    return [line.partition(";")[0].strip() for line in listed if wanted.search(line.partition(";")[2])]
