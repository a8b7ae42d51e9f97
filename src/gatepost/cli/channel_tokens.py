"""`gatepost channel token`: a channel whose adapter is a program elsewhere."""

import click

from gatepost.cli import output
from gatepost.cli.operation_command import CommandRun, from_operation
from gatepost.serve.control.arguments.channels import AddChannelTokenArgs, ChannelTokenView


@click.command()
@from_operation(AddChannelTokenArgs)
def token(run: CommandRun, made: ChannelTokenView) -> None:
    output.print_line(made.secret)
    output.print_line(f"It is the token of the program of {made.instance}, and is shown only now.")
    output.print_line(f"The program calls {made.url}; docs/extend/adapter-protocol.md has every field.")
    longest = f", at most {made.max_text} characters at once" if made.max_text else ""
    output.print_line(f"It can do: {', '.join(made.features) or 'plain text'}{longest}.")
    if made.revoked:
        output.print_line("The token before it works no longer.")
