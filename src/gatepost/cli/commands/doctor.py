"""`gatepost doctor`: what is well here, what is not, and the way out."""

from dataclasses import asdict

import click

from gatepost.cli import show
from gatepost.cli.operate import home_of

_SIGNS = {"ok": "✓", "note": "·", "warn": "!", "fail": "✗"}


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print ok and findings (level, subject, text, way_out) as JSON.")
@click.pass_obj
def command(home: str | None, as_json: bool) -> int:
    """What is well here, what is not, and the way out. Exit 1 if anything fails."""
    from gatepost.cli.checks import examine

    findings = examine(home_of(home))
    failed = any(each.level == "fail" for each in findings)
    if as_json:
        show.as_json({"ok": not failed, "findings": [asdict(each) for each in findings]})
        return int(failed)
    for each in findings:
        show.say(
            show.colored(_SIGNS[each.level], "dim" if each.level == "note" else each.level),
            f" {each.subject:<9} {each.text}",
        )
        if each.way_out:
            show.say(f"  {'':<9} ", show.colored("→ " + each.way_out, "dim"))
    return int(failed)
