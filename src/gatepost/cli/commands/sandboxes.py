"""`gatepost sandbox`: look around where an agent lives.

A command runs in a sandbox that is built exactly as a session of that group gets it, on a session folder of its own,
which is gone afterwards. It has the group's way out, which this process serves. Works with the gateway up or down;
nothing runs under `gatepost panic`.
"""

import click

from gatepost.cli.operation_runner import home_of


@click.group()
def sandbox_command() -> None:
    """Look around where an agent lives."""


@sandbox_command.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option("--no-walls", is_flag=True, help="Run on the host itself where no sandbox works, with all your rights.")
@click.option("--folder", "named", default="", metavar="FOLDER", help="The same as FOLDER before CMD.")
@click.argument("words", nargs=-1, required=True, type=click.UNPROCESSED, metavar="[FOLDER] CMD...")
@click.pass_obj
def run(home: str | None, no_walls: bool, named: str, words: tuple[str, ...]) -> int:
    """Run CMD in a sandbox as a session of the group FOLDER gets it; its exit code is ours.

    Hosts that the egress proxy refused are printed at the end, and recorded as for an agent. If that group's sessions
    have no isolation, nothing runs without --no-walls.

    Example: gatepost sandbox run acme/eng -- sh
    """
    folder, words = (named, words) if named else (words[0], words[1:])
    words = words[1:] if words[:1] == ("--",) else words
    if not words:
        raise click.UsageError("say what to run: gatepost sandbox run FOLDER -- CMD …")
    from gatepost.cli.sandbox_run import run_in_sandbox

    return run_in_sandbox(home_of(home), folder, words, no_walls=no_walls)
