"""`gatepost panic`: end everything now, and let nothing start until it is off."""

from typing import Any

import click

from gatepost.cli import output
from gatepost.cli.operation_runner import home_of, run_operation


@click.command()
@click.option("--off", is_flag=True, help="Go on: what was kept waiting is worked on.")
@click.option("--reason", default="", help="For the audit and for whoever looks at the status; rooms are not told.")
@click.option("--json", "as_json", is_flag=True, help="on, changed, ended, reason, since, durable, why.")
@click.pass_obj
def command(home: str | None, off: bool, reason: str, as_json: bool) -> int:
    """End everything at once, and let nothing start: no sandbox, no model call. Running turns are withdrawn; messages
    that come meanwhile are accepted and kept.

    It holds over restarts until `gatepost panic --off`, and can be set with the gateway down.
    """
    if off and reason:
        raise click.UsageError("--reason goes with turning it on")
    place = home_of(home)
    done: dict[str, Any] = (
        run_operation(place, "panic.off", {}) if off else run_operation(place, "panic.on", {"reason": reason})
    )
    ended = f"{done.get('ended', 0)} {'sandbox' if done.get('ended') == 1 else 'sandboxes'} ended"
    if as_json:
        output.print_json(done)
    elif not done["durable"]:
        output.print_line(f"panic is on: {ended}, nothing starts; but it is not written down", error=True)
        output.print_line(f"{done['why']}; it is tried again, and until then a restart forgets it", error=True)
    elif off:
        output.print_line("panic is off: what was kept is worked on" if done["changed"] else "panic was not on")
    else:
        before = "" if done["changed"] else f" (it was already, since {done['since']})"
        output.print_line(f"panic is on{before}: {ended}, nothing starts until `gatepost panic --off`")
    return 0 if done["durable"] else 1
