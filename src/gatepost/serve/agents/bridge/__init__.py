"""stdio ⇄ Streamable HTTP, for MCP clients that start their servers as a process.

    gatepost bridge --url unix:PATH:/mcp/agents [--token-file FILE]

Messages pass as they are; the bridge reads only what the transport needs. stdout carries messages alone, stderr the
rest. It imports a small part of the standard library: an agent waits for it at every start.
"""

from __future__ import annotations

import os
import stat
import sys

from gatepost.jsonrpc.bridge_command import bridge_command
from gatepost.serve.agents.bridge.http import USAGE, BridgeHttpClient
from gatepost.serve.agents.bridge.relay import StdioHttpBridge

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
else:
    import _signal as signal  # the other one makes enumerations at every start


def command(url: str, token_file: str = "") -> list[str]:
    return bridge_command(__name__, "--url", url, *(["--token-file", token_file] if token_file else []))


def read_token(path: str) -> str:
    """The token in a file that nobody else can read. Raises ValueError with what is wrong."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from None
    with open(fd, encoding="ascii", errors="replace") as file:
        facts = os.fstat(fd)
        if not stat.S_ISREG(facts.st_mode):
            raise ValueError(f"{path} is not a file")
        if facts.st_mode & 0o077:
            raise ValueError(f"others can read {path}; `chmod 600` it, and make a new token if they may have")
        token = file.read(4096).strip()
    if not token or not all("!" <= each <= "~" for each in token):
        raise ValueError(f"{path} holds no token: one line of plain characters")
    return token


def parse_options(arguments: list[str]) -> tuple[str, str]:
    """(url, token file). Raises ValueError."""
    words = [part for each in arguments for part in (each.split("=", 1) if each.startswith("--") else [each])]
    given = dict(zip(words[::2], words[1::2], strict=False))
    if len(words) % 2 or given.keys() - {"--url", "--token-file"} or "--url" not in given:
        raise ValueError(USAGE)
    return given["--url"], given.get("--token-file", "")


def main(arguments: list[str]) -> int:
    try:
        url, token_file = parse_options(arguments)
        http = BridgeHttpClient(url, read_token(token_file) if token_file else "")
    except ValueError as error:
        sys.stderr.write(f"gatepost bridge: {error}\n")
        return 2
    bridge = StdioHttpBridge(http)
    waking, woken = os.pipe()
    os.set_blocking(woken, False)
    signal.set_wakeup_fd(woken, warn_on_full_buffer=False)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: None)
    bridge.run(waking)
    return 0
