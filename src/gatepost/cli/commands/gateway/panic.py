"""`gatepost panic`: end everything now, and let nothing start until it is off."""

from typing import Any

import click

from gatepost.cli import output
from gatepost.cli.operation_command import call_operation, with_arguments
from gatepost.core.home import Home
from gatepost.serve.control.answers import to_json
from gatepost.serve.control.arguments.gateways import PanicOffArgs, PanicOnArgs


@click.command()
@with_arguments(PanicOnArgs)
@click.option("--off", is_flag=True, help="Go on: what was kept waiting is worked on.")
def command(home: Home, args: dict[str, Any], as_json: bool, off: bool) -> int:
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
        output.print_line(f"panic is on{before}: {ended}, nothing starts until `gatepost panic --off`")
    return 0 if done.durable else 1
