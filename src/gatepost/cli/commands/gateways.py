"""`gatepost gateway`, `panic` and `doctor`: the gateways that share a store, the switch that ends everything, and a
check of the installation."""

from typing import Any

import click

from gatepost.cli import output
from gatepost.cli.operation_command import CommandRun, call_operation, from_operation, with_arguments
from gatepost.cli.operation_runner import home_of, run_operation
from gatepost.core.errors import GatepostError
from gatepost.core.home import Home
from gatepost.serve.control.answers import to_json
from gatepost.serve.control.arguments.gateways import (
    DrainGatewayArgs,
    ForgetGatewayArgs,
    GatewayDetails,
    GatewayView,
    ListGatewaysArgs,
    PanicOffArgs,
    PanicOnArgs,
    ShowGatewayArgs,
)
from gatepost.serve.health.findings import Finding, Mend
from gatepost.store.engine.place import find_place
from gatepost.store.gateways.gateways import GatewayState

ALONE = "this store is a file of one machine, so it has one gateway; docs/scale.md tells how several share one"
NONE_YET = "no gateway has joined this store yet; `gatepost up` starts one"
LONGEST_MEND_S = 1200.0  # a backup of a large home, a program over a slow line
_LEVEL_SIGNS = {"ok": "✓", "note": "·", "warn": "!", "fail": "✗"}


@click.group()
def gateway_command() -> None:
    """The gateways that share a store. Works with the gateway up or down.

    \b
        gatepost gateway list
        gatepost gateway show b         # its duties by name: what it alone does for all
        gatepost gateway drain b        # before its machine goes down
        gatepost gateway forget b       # it will not come back
    """


@gateway_command.command("list")
@from_operation(ListGatewaysArgs)
def list_gateways(run: CommandRun, found: list[GatewayView]) -> None:
    own = {"state": render_state, "duties": lambda each: len(each.duties)}  # `show` names them
    output.print_records(GatewayView, found, own, empty=NONE_YET if find_place(run.home).url else ALONE)


def render_state(gateway: GatewayView) -> str:
    """In one word. One that is dead has not been taken over from yet."""
    return gateway.state if gateway.alive or gateway.state is GatewayState.GONE else "dead"


@gateway_command.command("show")
@from_operation(ShowGatewayArgs)
def show_gateway(run: CommandRun, found: GatewayDetails) -> None:
    own = {
        "state": render_state,
        "duties": lambda each: ", ".join(each.duties) or "none",
        "running_sessions": lambda each: ", ".join(each.running_sessions) or "none",
    }
    output.print_details(GatewayDetails, found, own, width=10)


@gateway_command.command("drain")
@from_operation(DrainGatewayArgs)
def drain_gateway(run: CommandRun, found: GatewayView) -> None:
    output.print_line(f"{found.name} drains: it begins nothing new, and ends within half a minute")


@gateway_command.command("forget")
@from_operation(ForgetGatewayArgs)
def forget_gateway(run: CommandRun, gone: GatewayView) -> None:
    output.print_line(f"{gone.name} is forgotten")


@click.command()
@with_arguments(PanicOnArgs)
@click.option("--off", is_flag=True, help="Go on: what was kept waiting is worked on.")
def panic_command(home: Home, args: dict[str, Any], as_json: bool, off: bool) -> int:
    if off and args["reason"]:
        raise click.UsageError("--reason goes with turning it on")
    done = call_operation(home, PanicOffArgs, {}) if off else call_operation(home, PanicOnArgs, args)
    ended = f"{done.ended} {'sandbox' if done.ended == 1 else 'sandboxes'} ended"
    if as_json:
        output.print_json(to_json(done))
    elif not done.durable:
        output.print_line(f"panic is on: {ended}, nothing starts; but it is not written down", error=True)
        output.print_line(f"{done.why}; it is tried again, and until then a restart forgets it", error=True)
    elif off:
        output.print_line("panic is off: what was kept is worked on" if done.changed else "panic was not on")
    else:
        why = f": {done.reason}" if done.reason else ""
        before = "" if done.changed else f" (it was already, since {done.since}{why})"
        output.print_line(f"panic is on{before}: {ended}, nothing starts in {home.path} until `gatepost panic --off`")
    return 0 if done.durable else 1


@click.command()
@click.option("--fix", is_flag=True, help="Mend what is safe to mend, and look again.")
@click.option("--security", is_flag=True, help="Judge how it is set up instead: what is more open than it need be.")
@click.option(
    "--json", "as_json", is_flag=True, help="Print ok and findings (level, subject, text, remedy, mend) as JSON."
)
@click.pass_obj
def doctor_command(home: str | None, fix: bool, security: bool, as_json: bool) -> int:
    """Check the installation and print each finding with the way out. Exit 1 if anything fails."""
    from gatepost.cli.doctor_checks import run_checks, run_security_checks

    place, look = home_of(home), run_security_checks if security else run_checks
    findings = look(place)
    if fix and _mend(place, findings):
        findings = look(place)
    failed = any(each.level == "fail" for each in findings)
    if as_json:
        output.print_json({"ok": not failed, "findings": to_json(findings)})
        return int(failed)
    if not findings:
        output.print_line("nothing is more open than it need be")
    for each in findings:
        output.print_line(
            output.colored(_LEVEL_SIGNS[each.level], "dim" if each.level == "note" else each.level),
            f" {each.subject:<9} {each.text}",
        )
        if each.remedy:
            output.print_line(f"  {'':<9} ", output.colored("→ " + each.remedy, "dim"))
    if any(_is_mended(each) for each in findings):
        output.print_line("`gatepost doctor --fix` mends what is safe to mend")
    return int(failed)


def _is_mended(finding: Finding) -> bool:
    """Return True if `--fix` mends it. A note is nothing to be mended, though its page may offer it."""
    return finding.mend is not None and finding.level in ("warn", "fail")


def _mend(home: Home, findings: list[Finding]) -> bool:
    """Return True if something was done. One that fails leaves the others; each is done once."""
    done = list[Mend]()
    for each in findings:
        if each.mend is None or not _is_mended(each) or each.mend in done:
            continue
        done.append(each.mend)
        output.print_line(f"{each.subject}: {each.text}", error=True)
        output.print_line("  ", output.colored(f"{each.mend.label} …", "dim"), error=True)
        try:
            run_operation(home, each.mend.operation, each.mend.args, timeout=LONGEST_MEND_S)
        except GatepostError as error:
            output.print_line("  ", output.colored(f"could not be mended: {error}", "fail"), error=True)
    return bool(done)
