"""`gatepost login`: a new one-time address of the web page."""

import click

from gatepost.cli import output
from gatepost.core.home import find
from gatepost.core.listen_address import find_control_path, render_open_help
from gatepost.serve.control.client import ControlClient


@click.command("login")
@click.pass_context
def command(ctx: click.Context) -> None:
    """Print a new address that signs one browser in as the owner, once, within ten minutes."""
    home = find(ctx.obj)
    answer = ControlClient(find_control_path(home), home.path).post("/v1/login")
    output.print_line(render_open_help(answer["result"]["url"]))
