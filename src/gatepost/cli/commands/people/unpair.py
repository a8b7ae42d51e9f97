"""`gatepost unpair`: take an identity from a person."""

import click

from gatepost.cli.commands.people.user import print_unpaired
from gatepost.cli.operation_command import from_operation
from gatepost.serve.control.arguments.users import UnpairUserArgs

command = click.command("unpair")(from_operation(UnpairUserArgs)(print_unpaired))
