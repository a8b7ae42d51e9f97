"""`gatepost login`: a new one-time address of the web page."""

from urllib.parse import urlencode

import click

from gatepost.cli import output
from gatepost.core.home import find
from gatepost.core.listen_address import find_control_path, render_open_help
from gatepost.serve.control.client import ControlClient


@click.command("login")
@click.option("--user", default="", metavar="ID", help="Sign in as this person, by one of her identities.")
@click.pass_context
def command(ctx: click.Context, user: str) -> None:
    """Print a new address that signs one browser in as the owner, once, within ten minutes.

    With --user it signs in somebody else, with the rights that she has. She sees one room of her own.
    """
    home = find(ctx.obj)
    path = f"/v1/login?{urlencode({'user': user})}" if user else "/v1/login"
    answer = ControlClient(find_control_path(home), home.path).post(path)
    output.print_line(render_open_help(answer["result"]["url"]))
