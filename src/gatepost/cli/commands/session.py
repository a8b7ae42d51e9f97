"""`gatepost session`: the conversations of agents."""

from typing import Any

import click

from gatepost.cli import output
from gatepost.cli.operation_command import CommandRun, from_operation
from gatepost.serve.control.arguments.sessions import (
    CloseSessionArgs,
    CopySessionArgs,
    ForkSessionArgs,
    ListSessionsArgs,
    SetSessionArgs,
)

_HOW = {
    "copied": "with a copy of the conversation",
    "transcript": "with the transcript: the provider has no conversation that could be copied",
}


@click.group()
def command() -> None:
    """The conversations of agents: list, set, close, fork, copy."""


@command.command("list")
@from_operation(ListSessionsArgs)
def list_sessions(run: CommandRun, found: list[dict[str, Any]]) -> None:
    output.print_table(
        ("id", "group", "room", "topic", "provider", "model", "state"),
        [
            tuple(each[name] for name in ("id", "folder", "address", "thread", "provider", "model", "state"))
            for each in found
        ],
        empty="there is no conversation",
    )


@command.command("set")
@from_operation(SetSessionArgs)
def set_session(run: CommandRun, changed: dict[str, Any]) -> None:
    provider, model = changed["provider"] or "its group's", changed["model"] or "the usual one"
    output.print_line(f"session {changed['id']}: provider {provider}, model {model}, from its next turn on")


@command.command()
@from_operation(CloseSessionArgs)
def close(run: CommandRun, gone: dict[str, Any]) -> None:
    output.print_line(f"session {gone['id']} is closed; the next message there starts afresh")


@command.command()
@from_operation(ForkSessionArgs)
def fork(run: CommandRun, made: dict[str, Any]) -> None:
    output.print_line(f"session {made['session_id']} goes on in topic {made['topic']}, {_HOW[made['how']]}")


@command.command("copy")
@from_operation(CopySessionArgs)
def copy_session(run: CommandRun, made: dict[str, Any]) -> None:
    output.print_line(f"agent {made['session_id']} begins {_HOW[made['how']]}")
    output.print_line(f"`gatepost agent send {made['session_id']} TEXT` talks to it")
