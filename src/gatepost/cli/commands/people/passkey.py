"""`gatepost passkey`: by which people sign in to the web page."""

import click

from gatepost.cli import output
from gatepost.cli.operation_command import CommandRun, from_operation
from gatepost.serve.control.arguments.credentials import (
    ListPasskeysArgs,
    PasskeyList,
    PasskeyView,
    RemovePasskeyArgs,
)


@click.group()
def command() -> None:
    """Passkeys of the web page: list, rm. People add theirs on the page Sign-ins of the dashboard."""


@command.command("list")
@from_operation(ListPasskeysArgs)
def list_passkeys(run: CommandRun, found: PasskeyList) -> None:
    output.print_records(PasskeyView, found.passkeys, empty="there are no passkeys")
    if found.missing:
        output.print_line(f"They are switched on, and the library is not there: {found.missing}")
    elif found.passkeys and not found.is_on:
        output.print_line("They are off and sign nobody in; the setting web.passkey_login switches them on")


def print_removed(run: CommandRun, passkey: PasskeyView) -> None:
    output.print_line(f"{passkey.label} of {passkey.person} signs nobody in any more")


command.command("rm")(from_operation(RemovePasskeyArgs)(print_removed))
