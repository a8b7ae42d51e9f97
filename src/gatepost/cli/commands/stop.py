"""`gatepost stop`: end what an agent does, now. The session goes on with its next message."""

import click

from gatepost.cli import output
from gatepost.cli.operation_command import call_operation
from gatepost.cli.operation_runner import home_of
from gatepost.core.errors import NotFound
from gatepost.core.home import Home
from gatepost.serve.control.answers import to_json
from gatepost.serve.control.arguments.sessions import ListSessionsArgs, StopAllSessionsArgs, StopResult, StopSessionArgs


@click.command()
@click.argument("session", required=False)
@click.option("--all", "everything", is_flag=True, help="Every session of every group.")
@click.option("--json", "as_json", is_flag=True, help="A list of {id, stopped}.")
@click.pass_obj
def stop_command(home: str | None, session: str | None, everything: bool, as_json: bool) -> int:
    """End the running turn of SESSION, and what waits behind it: model calls are cut, the sandbox is killed, people are
    told.

    SESSION is an id or the beginning of one; `gatepost group show FOLDER` lists them.
    """
    if bool(session) == everything:
        raise click.UsageError("name a SESSION, or say --all")
    place = home_of(home)
    done = [_stop_one(place, session)] if session else call_operation(place, StopAllSessionsArgs, {})
    if as_json:
        output.print_json(to_json(done))
        return 0
    stopped = [each.id for each in done if each.stopped]
    for each in stopped:
        output.print_line(f"{each} is stopped")
    if not stopped:
        output.print_line("nothing was running")
    return 0


def _stop_one(place: Home, beginning: str) -> StopResult:
    live = call_operation(place, ListSessionsArgs, {})
    chosen = [each.id for each in live if each.id.startswith(beginning)]
    if len(chosen) != 1:
        raise NotFound(
            "live session", beginning, "several begin like that" if chosen else "`gatepost session list` shows them"
        )
    return call_operation(place, StopSessionArgs, {"id": chosen[0]})
