"""How a stdio server is written into the configuration of an MCP client, and where that file is."""

import json
from typing import Any, Literal

Client = Literal["claude", "codex", "opencode", "cursor", "gemini"]

WHERE: dict[Client, str] = {
    "claude": ".mcp.json of a project, or a file for `claude --mcp-config`",
    "codex": "~/.codex/config.toml",
    "opencode": "opencode.json",
    "cursor": ".cursor/mcp.json",
    "gemini": ".gemini/settings.json",
}


def configuration(client: Client, name: str, command: list[str]) -> dict[str, Any]:
    if client not in WHERE:
        raise ValueError(f"no configuration is known for {client!r}, only for {', '.join(WHERE)}")
    program, *arguments = command
    entry = {"command": program, "args": arguments}
    if client == "claude":
        return {"mcpServers": {name: {"type": "stdio", **entry}}}
    if client == "codex":
        return {"mcp_servers": {name: entry}}
    if client == "opencode":
        return {"mcp": {name: {"type": "local", "command": command, "enabled": True}}}
    return {"mcpServers": {name: entry}}


def configuration_text(client: Client, name: str, command: list[str]) -> str:
    """JSON, and TOML for Codex: JSON's strings and lists are TOML's as well."""
    found = configuration(client, name, command)
    if client != "codex":
        return json.dumps(found, indent=2, ensure_ascii=False) + "\n"
    lines = [f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in found["mcp_servers"][name].items()]
    return "\n".join([f"[mcp_servers.{json.dumps(name)}]", *lines, ""])
