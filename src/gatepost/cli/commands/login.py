"""`gatepost login`: a new one-time address of the web page."""

import click

from gatepost.cli import show
from gatepost.core.home import find
from gatepost.core.listen import find_control, how_to_open
from gatepost.serve.control.client import Control


@click.command("login")
@click.pass_context
def command(ctx: click.Context) -> None:
    """Print a new address that signs one browser in as the owner, once, within ten minutes."""
    home = find(ctx.obj)
    answer = Control(find_control(home), home.path).post("/v1/login")
    show.say(how_to_open(answer["result"]["url"]))
