"""`gatepost tools`: what a group may call."""

import click

from gatepost.access.grants import visible
from gatepost.access.tiers import check_folder, tier_of
from gatepost.cli import show
from gatepost.cli.operate import home_of, reading
from gatepost.core.errors import NotFound
from gatepost.core.registry import load_folder, load_package
from gatepost.store import groups
from gatepost.tools.contract import TOOLS


@click.command()
@click.option("--folder", required=True, metavar="FOLDER", help="The group, for example acme/eng.")
@click.option("--json", "as_json", is_flag=True, help="Print them as in tools/list.")
@click.pass_obj
def command(given_home: str | None, folder: str, as_json: bool) -> None:
    """List the tools that a group of this folder sees."""
    home = home_of(given_home)
    if reading(home, groups.get, check_folder(folder)) is None:
        raise NotFound("group", folder, "`gatepost group list` shows them")
    load_package("gatepost.tools")
    load_folder(home.plugins / "tools", "tools")
    tier = tier_of(folder)
    seen = [tool for name, tool in TOOLS.items() if visible(name, tool.tier, tier)]
    if as_json:
        show.as_json([tool.listed for tool in seen])
        return
    rows = [(tool.name, tool.group, tool.tier.name.lower(), tool.description.partition("\n")[0]) for tool in seen]
    show.table(("tool", "subject", "down to tier", "what for"), rows)
