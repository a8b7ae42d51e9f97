"""How a stdio server stands in the configuration of each client."""

import json
from typing import Any, Literal

Client = Literal["claude", "codex", "opencode", "cursor"]


def configuration(client: Client, name: str, command: list[str]) -> dict[str, Any]:
    program, *arguments = command
    entry = {"command": program, "args": arguments}
    if client == "claude":
        return {"mcpServers": {name: {"type": "stdio", **entry}}}
    if client == "cursor":
        return {"mcpServers": {name: entry}}
    if client == "codex":
        return {"mcp_servers": {name: entry}}
    if client == "opencode":
        return {"mcp": {name: {"type": "local", "command": command, "enabled": True}}}
    raise ValueError(f"no configuration is known for {client!r}, only for claude, codex, opencode and cursor")


def configuration_text(client: Client, name: str, command: list[str]) -> str:
    """JSON, and TOML for Codex: JSON's strings and lists are TOML's as well."""
    found = configuration(client, name, command)
    if client != "codex":
        return json.dumps(found, indent=2, ensure_ascii=False) + "\n"
    lines = [f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in found["mcp_servers"][name].items()]
    return "\n".join([f"[mcp_servers.{json.dumps(name)}]", *lines, ""])
