"""`gatepost mcp`: how other programs connect to the gateway's MCP servers."""

import os
import shutil
import sys
from pathlib import Path
from urllib.parse import quote

import click

from gatepost.cli import output
from gatepost.cli.operation_runner import home_of
from gatepost.core.process import listen_address
from gatepost.jsonrpc.mcp_clients import configuration_text, list_clients


@click.group()
def command() -> None:
    """Connect MCP clients: coding agents, editors, inspectors."""


@command.command()
@click.argument("client", type=click.Choice(list(list_clients())), default="claude")
@click.option("--folder", metavar="FOLDER", help="The tools of this group, instead of the management of agents.")
@click.option("--url", metavar="URL", help="The gateway's address, if not its control socket: http://HOST:PORT.")
@click.option("--token-file", metavar="FILE", help="A file (mode 600) with the token, for a gateway that wants one.")
@click.option("--json", "as_json", is_flag=True, help="An object: client, name, command, belongs_in, text.")
@click.pass_obj
def config(
    given_home: str | None,
    client: str,
    folder: str | None,
    url: str | None,
    token_file: str | None,
    as_json: bool,
) -> None:
    """Print the configuration with which a client starts `gatepost bridge`; claude unless another is named."""
    path = f"/mcp/groups/{quote(folder.strip('/'))}" if folder else "/mcp/agents"
    at = url.rstrip("/") if url else f"unix:{listen_address.find_control_path(home_of(given_home))}:"
    run = [*this_program(), "bridge", "--url", at + path]
    if token_file:
        run += ["--token-file", str(Path(token_file).expanduser().absolute())]
    name = f"gatepost-{folder.strip('/').replace('/', '-')}" if folder else "gatepost"
    text = configuration_text(client, name, run)
    file = list_clients()[client].file
    if as_json:
        output.print_json({"client": client, "name": name, "command": run, "belongs_in": file, "text": text})
        return
    click.echo(text, nl=False)
    click.echo(f"It belongs in {file}.", err=True)


def this_program() -> list[str]:
    """By its full path: a client may be started where ours is not looked for."""
    beside = Path(sys.executable).parent / "gatepost"
    found = str(beside) if os.access(beside, os.X_OK) else shutil.which("gatepost")
    return [found] if found else [sys.executable, "-m", "gatepost"]
