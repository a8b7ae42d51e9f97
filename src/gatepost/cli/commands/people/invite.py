"""`gatepost invite`: codes that let people into a group."""

import click

from gatepost.cli import output
from gatepost.cli.commands.people.token import print_revoked, print_tokens
from gatepost.cli.operation_command import CommandRun, from_operation
from gatepost.serve.control.arguments.credentials import (
    AddInvitationArgs,
    ListInvitationsArgs,
    NewTokenView,
    RevokeTokenArgs,
    TokenView,
)


@click.group()
def command() -> None:
    """Codes that let people into a group: add, list, rm. Works with the gateway up or down."""


@command.command()
@from_operation(AddInvitationArgs)
def add(run: CommandRun, made: NewTokenView) -> None:
    code, token = made.secret, made.token
    output.print_line(code)
    gets = "gets a group of their own below" if token.own_group else "becomes a member of"
    output.print_line(f"Whoever sends it in a chat, alone or as `/join {code}`, {gets} {token.folder}.")
    if made.url:
        output.print_line(f"This page says so, too, and whoever is signed in accepts it there: {made.url}")
    ends = f", until {output.format_time(token.expires_at)}" if token.expires_at else ""
    uses = "once" if token.uses_left == 1 else f"{token.uses_left} times"
    output.print_line(f"It works {uses}{ends}. `gatepost invite rm {token.id}` takes it back.")


@command.command("list")
@from_operation(ListInvitationsArgs)
def list_invitations(run: CommandRun, found: list[TokenView]) -> None:
    print_tokens(found, "there are no invitations; `gatepost invite add FOLDER` makes one")


command.command("rm")(from_operation(RevokeTokenArgs)(print_revoked))
