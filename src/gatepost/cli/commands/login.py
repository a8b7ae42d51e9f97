"""`gatepost login`: a new one-time address of the web page."""

import click

from gatepost.core.home import find
from gatepost.core.listen import find_control
from gatepost.serve.control.client import Control


@click.command("login")
@click.pass_context
def command(ctx: click.Context) -> None:
    """Print a new address that signs one browser in as the owner, once, within ten minutes."""
    answer = Control(find_control(find(ctx.obj))).post("/v1/login")
    click.echo(answer["result"]["url"])
