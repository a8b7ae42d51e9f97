"""`gatepost bridge`: connect an MCP client that uses stdio to the gateway, or, inside a sandbox, to the tools."""

import click

from gatepost.inside import bridge as pump
from gatepost.serve.agents import bridge


@click.command()
@click.option("--socket", "path", metavar="PATH", help="A tool socket: /run/gatepost/router.sock in a sandbox.")
@click.option(
    "--url",
    metavar="URL",
    help="Streamable HTTP: unix:PATH:/mcp/agents (PATH is the control socket) or http://HOST:PORT/mcp/agents.",
)
@click.option("--token-file", metavar="FILE", help="With --url: a file (mode 600) with the token to send.")
def command(path: str | None, url: str | None, token_file: str | None) -> int:
    """Pass MCP messages between stdin/stdout and the gateway, for clients that use stdio.

    With --url it speaks Streamable HTTP: `gatepost mcp config` prints how a client on this machine starts it. It lives
    through restarts of the gateway, and ends when stdin does.

    With --socket it passes bytes, and is run by the agent's own MCP client inside its sandbox. A session's router.sock
    (on the host in the folder that `gatepost group show` names) admits only processes of that session's sandbox;
    everybody else is turned away.
    """
    if (path is None) == (url is None) or (token_file and not url):
        raise click.UsageError("name either --socket PATH, or --url URL and if it is wanted --token-file FILE")
    if url is not None:
        return bridge.main(["--url", url, *(["--token-file", token_file] if token_file else [])])
    return pump.main([path or ""])
