"""`gatepost bridge`: connect an agent's MCP client, inside its sandbox, to the tools."""

import click

from gatepost.inside import bridge


@click.command()
@click.option(
    "--socket", "path", required=True, metavar="PATH", help="The socket: /run/gatepost/router.sock in a sandbox."
)
def command(path: str) -> int:
    """Pass bytes between stdin/stdout and a tool socket, for MCP clients that use stdio.

    The agent's own MCP client runs this, inside its sandbox. A session's router.sock (on the host in the folder that
    `gatepost group show` names) admits only processes of that session's sandbox; everybody else is turned away.
    """
    return bridge.main([path])
