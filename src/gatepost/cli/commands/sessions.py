"""`gatepost session`, `gatepost stop`: the conversations of agents."""

from typing import Any

import click

from gatepost.cli import output
from gatepost.cli.given_files import read_text
from gatepost.cli.operation_command import CommandRun, call_operation, from_operation
from gatepost.cli.operation_runner import home_of, zone_of
from gatepost.core.errors import NotFound
from gatepost.core.home import Home
from gatepost.core.money import render_usd
from gatepost.core.terminal_text import one_line
from gatepost.serve.control.answers import to_json
from gatepost.serve.control.arguments.replays import CompareReplayArgs, ReplayComparison, ReplaySessionArgs
from gatepost.serve.control.arguments.sessions import (
    CloseResult,
    CloseSessionArgs,
    CopySessionArgs,
    ForkSessionArgs,
    ListSessionsArgs,
    ResetResult,
    ResetSessionArgs,
    SessionDetails,
    SetSessionArgs,
    ShowSessionArgs,
    StopAllSessionsArgs,
    StopResult,
    StopSessionArgs,
)
from gatepost.store.sessions.forks import ForkedSession, ForkMethod
from gatepost.store.sessions.replays import StartedReplay, TurnOutcome
from gatepost.store.sessions.sessions import Session

_HOW = {
    ForkMethod.COPIED: "with a copy of the conversation",
    ForkMethod.TRANSCRIPT: "with the transcript: the provider has no conversation that could be copied",
}


@click.group()
def session_command() -> None:
    """The conversations of agents: list, show, reset, set, close, fork, copy, replay."""


@session_command.command("list")
@from_operation(ListSessionsArgs)
def list_sessions(run: CommandRun, found: list[Session]) -> None:
    output.print_records(Session, found, empty="there is no conversation; `gatepost chat -m hello` begins one")


@session_command.command()
@from_operation(ShowSessionArgs)
def show(run: CommandRun, found: SessionDetails) -> None:
    zone = zone_of(run.home)
    own = {"address": lambda session: " ".join(each for each in (session.address, session.thread) if each)}
    output.print_details(SessionDetails, found, own, width=8, sparse=True, zone=zone)
    output.print_line()
    if found.older:
        output.print_line(f"older ones: --before {found.older}")
    for each in found.events:
        cost = render_usd(each.cost) if each.cost else ""
        about = " ".join(part for part in (each.kind, each.who, each.state, cost) if part)
        text = f": {one_line(each.text)}" if each.text else ""
        output.print_line(f"{output.format_time(each.at, zone[0])}  {about}{text}")


@session_command.command()
@from_operation(ResetSessionArgs)
def reset(run: CommandRun, done: ResetResult) -> None:
    output.print_line(f"session {done.id} begins anew with the next message")


@session_command.command("set")
@from_operation(SetSessionArgs)
def set_session(run: CommandRun, changed: Session) -> None:
    provider, model = changed.provider or "its group's", changed.model or "the usual one"
    output.print_line(f"session {changed.id}: provider {provider}, model {model}, from its next turn on")


@session_command.command()
@from_operation(CloseSessionArgs)
def close(run: CommandRun, gone: CloseResult) -> None:
    output.print_line(f"session {gone.id} is closed; the next message there starts afresh")


@session_command.command()
@from_operation(ForkSessionArgs)
def fork(run: CommandRun, made: ForkedSession) -> None:
    output.print_line(f"session {made.session_id} goes on in topic {made.topic}, {_HOW[made.how]}")


@session_command.command("copy")
@from_operation(CopySessionArgs)
def copy_session(run: CommandRun, made: ForkedSession) -> None:
    output.print_line(f"agent {made.session_id} begins {_HOW[made.how]}")
    output.print_line(f"`gatepost agent send {made.session_id} TEXT` talks to it")


def _read_files(home: Home, args: dict[str, Any]) -> dict[str, Any]:
    """The operation has texts where the command has files."""
    read = dict(args)
    if args.get("agents_md"):
        read["agents_md"] = read_text("--agents-md", args["agents_md"])
    if args.get("skill"):
        read["skill"] = {name: read_text("--skill", path) for name, path in args["skill"].items()}
    return read


@session_command.command()
@from_operation(ReplaySessionArgs, prepare=_read_files)
def replay(run: CommandRun, made: StartedReplay) -> None:
    turns = "1 turn" if made.turns == 1 else f"{made.turns} turns"
    output.print_line(f"replay {made.session_id} repeats {turns} of {made.source_id}")
    output.print_line(f"`gatepost session compare {made.session_id}` shows both side by side")


@session_command.command()
@from_operation(CompareReplayArgs, exit_code=lambda found: 0 if found.finished else 1)
def compare(run: CommandRun, found: ReplayComparison) -> None:
    changes = ", ".join(f"{name}: {value}" for name, value in found.changes.items()) or "nothing"
    output.print_line(f"{found.source} and its replay {found.id} in {found.folder}; changed: {changes}")
    for each in found.turns:
        output.print_line()
        output.print_line(output.colored(f"turn {each.number}: {each.input}", "strong"))
        output.print_line(f"original{_render_outcome(each.original)}")
        output.print_line(f"replayed{_render_outcome(each.replayed)}")
    if not found.finished:
        output.print_line()
        output.print_line(output.colored("the replay is not finished yet", "warn"))


def _render_outcome(outcome: TurnOutcome | None) -> str:
    if outcome is None:
        return ": –"
    took = f"{outcome.took / 1_000_000:.1f} s" if outcome.took is not None else "at work"
    head = f" ({outcome.state}, ${outcome.micro / 1_000_000:.4f}, {took})"
    said = outcome.answer or (f"error: {outcome.error}" if outcome.error else "(nothing)")
    return f"{head}: {said}"


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


@click.group()
def sandbox_command() -> None:
    """Look around where an agent lives.

    A command runs in a sandbox that is built exactly as a session of that group gets it, on a session folder of its
    own, which is gone afterwards. It has the group's way out, which this process serves. Works with the gateway up or
    down; nothing runs under `gatepost panic`.
    """


@sandbox_command.command("run", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option("--no-walls", is_flag=True, help="Run on the host itself where no sandbox works, with all your rights.")
@click.option("--folder", "named", default="", metavar="FOLDER", help="The same as FOLDER before CMD.")
@click.argument("words", nargs=-1, required=True, type=click.UNPROCESSED, metavar="[FOLDER] CMD...")
@click.pass_obj
def run_in_sandbox(home: str | None, no_walls: bool, named: str, words: tuple[str, ...]) -> int:
    """Run CMD in a sandbox as a session of the group FOLDER gets it; its exit code is ours.

    Hosts that the egress proxy refused are printed at the end, and recorded as for an agent. If that group's sessions
    have no isolation, nothing runs without --no-walls.

    Example: gatepost sandbox run acme/eng -- sh
    """
    folder, words = (named, words) if named else (words[0], words[1:])
    words = words[1:] if words[:1] == ("--",) else words
    if not words:
        raise click.UsageError("say what to run: gatepost sandbox run FOLDER -- CMD …")
    from gatepost.cli import sandbox_run

    return sandbox_run.run_in_sandbox(home_of(home), folder, words, no_walls=no_walls)
