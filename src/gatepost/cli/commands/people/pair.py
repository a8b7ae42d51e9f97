"""`gatepost pair`: print a code that binds a chat identity to a person."""

import click

from gatepost.cli.commands.people.user import print_code
from gatepost.cli.operation_command import from_operation
from gatepost.serve.control.arguments.users import PairUserArgs

command = click.command("pair")(from_operation(PairUserArgs)(print_code))
