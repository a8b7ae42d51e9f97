"""A group's own MCP servers, from the `.mcp.json` in its folder. They run inside its sandbox, with what that has: no
key of the gateway's, no network but the way out. Used where the group's option `own_mcp` says so.

The agent itself may write the file, so nothing in it stands in the place of the gateway's own server.
"""

import re
import sys
from pathlib import Path

import msgspec

FILE = ".mcp.json"
OURS = "gatepost"
LARGEST = 1024 * 1024
MOST = 32
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}\Z")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


class McpServerConfig(msgspec.Struct, frozen=True):
    command: str
    args: list[str] = []
    env: dict[str, str] = {}

    def __post_init__(self) -> None:
        if odd := [name for name in self.env if not _VARIABLE.match(name)]:
            raise ValueError(f"{odd[0][:80]!r} is no name of a variable")


class _McpJsonFile(msgspec.Struct):
    mcpServers: dict[str, msgspec.Raw] = {}


def own_servers(agent: Path, wanted: bool) -> dict[str, McpServerConfig]:
    """Return the servers that are started by a command, by name. Unusable entries are left out and logged in the
    session's log."""
    if not wanted:
        return {}
    try:
        with (agent / FILE).open("rb") as file:
            entries = msgspec.json.decode(file.read(LARGEST), type=_McpJsonFile).mcpServers
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as error:
        _log_warning(f"cannot be read: {error}")
        return {}
    found = {}
    for name, raw in list(entries.items())[:MOST]:
        if not _NAME.match(name) or name.lower().startswith(OURS):
            _log_warning(f"the server {name[:80]!r} is left out: its name is no plain one, or begins with {OURS}")
            continue
        try:
            found[name] = msgspec.json.decode(raw, type=McpServerConfig)
        except (ValueError, RecursionError) as error:
            _log_warning(f"the server {name!r} is left out: {error}")
    return found


def _log_warning(text: str) -> None:
    sys.stderr.write(f"{FILE}: {text}\n")
