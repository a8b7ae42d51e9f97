"""`gatepost bridge`: connect an MCP client that uses stdio to a tool socket."""

import click

from gatepost.inside import bridge


@click.command()
@click.option("--socket", "path", required=True, metavar="PATH", help="The socket, for example run/s/…/router.sock.")
def command(path: str) -> int:
    """Pass bytes between stdin/stdout and a tool socket, for MCP clients that use stdio."""
    return bridge.main([path])
