"""How a stdio server is written into the configuration of an MCP client, and where that file is.

A client that is a provider, too, declares its format there: `@provider(…, mcp_client={…})`. It is read, not run.
"""

import ast
import json
from functools import cache
from pathlib import Path
from typing import Any

from msgspec import Struct

PROVIDERS = Path(__file__).parent.parent / "inside" / "providers"


class McpClientFormat(Struct, frozen=True, forbid_unknown_fields=True):
    file: str  # where its configuration belongs
    key: str = "mcpServers"  # the table of its servers
    entry: dict[str, str | bool] = {}  # what a server has besides its command
    one_list: bool = False  # the program and its arguments are one list
    toml: bool = False


@cache
def list_clients() -> dict[str, McpClientFormat]:
    """By name. Cursor is no provider."""
    found = {"cursor": McpClientFormat(".cursor/mcp.json")}
    for path in (*PROVIDERS.glob("*.py"), *PROVIDERS.glob("*/__init__.py")):
        source = path.read_bytes()
        for node in ast.walk(ast.parse(source)) if b"mcp_client=" in source else ():
            match node:
                case ast.Call(func=ast.Name(id="provider"), args=[ast.Constant(value=str(name))], keywords=given):
                    for declared in (each.value for each in given if each.arg == "mcp_client"):
                        found[name] = McpClientFormat(**ast.literal_eval(declared))
    return dict(sorted(found.items()))


def configuration(client: str, name: str, command: list[str]) -> dict[str, Any]:
    known = list_clients()
    if client not in known:
        raise ValueError(f"no configuration is known for {client!r}, only for {', '.join(known)}")
    program, *arguments = command
    started = {"command": command} if known[client].one_list else {"command": program, "args": arguments}
    return {known[client].key: {name: {**known[client].entry, **started}}}


def configuration_text(client: str, name: str, command: list[str]) -> str:
    """JSON or TOML: JSON's strings, lists and truth values are TOML's as well."""
    found = configuration(client, name, command)
    if not list_clients()[client].toml:
        return json.dumps(found, indent=2, ensure_ascii=False) + "\n"
    ((key, servers),) = found.items()
    lines = [f"{each} = {json.dumps(value, ensure_ascii=False)}" for each, value in servers[name].items()]
    return "\n".join([f"[{key}.{json.dumps(name)}]", *lines, ""])
