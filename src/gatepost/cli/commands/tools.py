"""`gatepost tools`: what a group may call."""

import click

from gatepost.cli import show
from gatepost.cli.operate import home_of
from gatepost.cli.policy import policy_of, tools_of


@click.command()
@click.option("--folder", required=True, metavar="FOLDER", help="The group, for example acme/eng.")
@click.option("--json", "as_json", is_flag=True, help="Print them as in tools/list.")
@click.pass_obj
def command(given_home: str | None, folder: str, as_json: bool) -> None:
    """List the tools that the agent of a group sees: by its tier, as rules and rows change it."""
    from gatepost.gate.dispatch import listed
    from gatepost.gate.policies import visible_tools

    home = home_of(given_home)
    policy = policy_of(home, folder)
    seen = visible_tools(tools_of(home), policy)
    if as_json:
        show.as_json([listed(tool, policy) for tool in seen])
        return
    rows = [(tool.name, tool.group, tool.tier.name.lower(), tool.description.partition("\n")[0]) for tool in seen]
    show.table(("tool", "subject", "down to tier", "what for"), rows)
