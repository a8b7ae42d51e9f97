"""`gatepost tools`: the tools that a group may call."""

import click

from gatepost.access.subjects import ToolEffects
from gatepost.cli import output
from gatepost.cli.operation_runner import home_of
from gatepost.cli.policy import policy_of
from gatepost.serve.control.operations.access import load_tools

ROOT = "home"


@click.command()
@click.argument("group", default="", metavar="[FOLDER]")
@click.option("--folder", default="", metavar="FOLDER", help="The same as FOLDER before it.")
@click.option("--json", "as_json", is_flag=True, help="Print them as in tools/list.")
@click.pass_obj
def command(given_home: str | None, group: str, folder: str, as_json: bool) -> None:
    """List the tools that the agent of the group FOLDER (default: home) sees: by its tier, as rules and rows change it.

    Example: gatepost tools acme/eng
    """
    from gatepost.gate.dispatch import render_listed_tool
    from gatepost.gate.policies import visible_tools

    if group and folder:
        raise click.UsageError("name the group once: gatepost tools FOLDER")
    home, folder = home_of(given_home), folder or group or ROOT
    policy = policy_of(home, folder)
    seen = visible_tools(load_tools(home), policy)
    if as_json:
        output.print_json([render_listed_tool(tool, policy) for tool in seen])
        return
    rows = [
        (tool.name, tool.group, _render_effects(tool.effects), tool.tier.name.lower(), _what_for(tool.description))
        for tool in seen
    ]
    output.print_table(("tool", "group of tools", "effects", "down to tier", "what for"), rows)
    for tool in seen:
        if rules := policy.list_hold_rules(tool.name, tool.effects):
            output.print_line(f"{tool.name} waits for a person: {', '.join(rules)}")


def _render_effects(effects: ToolEffects) -> str:
    return "any (none declared)" if effects.presumed else ", ".join(sorted(effects.subjects)) or "-"


def _what_for(description: str) -> str:
    """The first paragraph, on one line."""
    return " ".join(description.strip().partition("\n\n")[0].split())
