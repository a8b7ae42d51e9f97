"""`gatepost mcp`, `bridge` and `tools`: how other programs connect to the gateway's MCP servers, and the tools that a
group may call."""

import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import click

from gatepost.cli import output
from gatepost.cli.operation_runner import home_of
from gatepost.core.home import expand_user
from gatepost.core.process import listen_address
from gatepost.inside import bridge as pump
from gatepost.jsonrpc.mcp_clients import configuration_text, list_clients
from gatepost.serve.agents import bridge

if TYPE_CHECKING:
    from gatepost.access.subjects import ToolEffects

ROOT_GROUP = "home"


@click.group()
def mcp_command() -> None:
    """Connect MCP clients: coding agents, editors, inspectors."""


@mcp_command.command("config")
@click.argument("client", type=click.Choice(list(list_clients())), default="claude")
@click.option("--folder", metavar="FOLDER", help="The tools of this group, instead of the management of agents.")
@click.option("--url", metavar="URL", help="The gateway's address, if not its control socket: http://HOST:PORT.")
@click.option("--token-file", metavar="FILE", help="A file (mode 600) with the token, for a gateway that wants one.")
@click.option("--json", "as_json", is_flag=True, help="An object: client, name, command, belongs_in, text.")
@click.pass_obj
def show_config(
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
        run += ["--token-file", str(expand_user(token_file).absolute())]
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


@click.command()
@click.option("--socket", "path", metavar="PATH", help="A tool socket: /run/gatepost/router.sock in a sandbox.")
@click.option(
    "--url",
    metavar="URL",
    help="Streamable HTTP: unix:PATH:/mcp/agents (PATH is the control socket) or http://HOST:PORT/mcp/agents.",
)
@click.option("--token-file", metavar="FILE", help="With --url: a file (mode 600) with the token to send.")
def bridge_command(path: str | None, url: str | None, token_file: str | None) -> int:
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


@click.command()
@click.argument("group", default="", metavar="[FOLDER]")
@click.option("--folder", default="", metavar="FOLDER", help="The same as FOLDER before it.")
@click.option("--json", "as_json", is_flag=True, help="Print them as in tools/list.")
@click.pass_obj
def tools_command(given_home: str | None, group: str, folder: str, as_json: bool) -> None:
    """List the tools that the agent of the group FOLDER (default: home) sees: by its tier, as rules and rows change it.

    Example: gatepost tools acme/eng
    """
    from gatepost.cli.policy import PolicyReader

    if group and folder:
        raise click.UsageError("name the group once: gatepost tools FOLDER")
    policies = PolicyReader(home_of(given_home))
    policy = policies.get_policy(folder or group or ROOT_GROUP)
    if as_json:
        output.print_json(policies.render_visible(policy))
        return
    seen = policies.list_visible(policy)
    rows = [
        (
            tool.name,
            tool.group,
            _render_effects(tool.effects),
            tool.tier.name.lower(),
            _shorten_description(tool.description),
        )
        for tool in seen
    ]
    output.print_table(("tool", "group of tools", "effects", "down to tier", "what for"), rows)
    for tool in seen:
        if rules := policy.list_hold_rules(tool.name, tool.effects):
            output.print_line(f"{tool.name} waits for a person: {', '.join(rules)}")


def _render_effects(effects: "ToolEffects") -> str:
    return "any (none declared)" if effects.presumed else ", ".join(sorted(effects.subjects)) or "-"


def _shorten_description(description: str) -> str:
    """The first paragraph, on one line."""
    return " ".join(description.strip().partition("\n\n")[0].split())
