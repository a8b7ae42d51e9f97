"""`gatepost doctor`: check the installation, and name the way out of each problem."""

import click

from gatepost.cli import output
from gatepost.cli.operation_runner import home_of
from gatepost.core.records import asdict

_SIGNS = {"ok": "✓", "note": "·", "warn": "!", "fail": "✗"}


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print ok and findings (level, subject, text, remedy) as JSON.")
@click.pass_obj
def command(home: str | None, as_json: bool) -> int:
    """Check the installation and print each finding with the way out. Exit 1 if anything fails."""
    from gatepost.cli.doctor_checks import run_checks

    findings = run_checks(home_of(home))
    failed = any(each.level == "fail" for each in findings)
    if as_json:
        output.print_json({"ok": not failed, "findings": [asdict(each) for each in findings]})
        return int(failed)
    for each in findings:
        output.print_line(
            output.colored(_SIGNS[each.level], "dim" if each.level == "note" else each.level),
            f" {each.subject:<9} {each.text}",
        )
        if each.remedy:
            output.print_line(f"  {'':<9} ", output.colored("→ " + each.remedy, "dim"))
    return int(failed)
