"""`gatepost room`: the chats, and who may speak in each."""

import click

from gatepost.cli import output
from gatepost.cli.operation_command import CommandRun, from_operation
from gatepost.serve.control.arguments.routes import ListRoomsArgs, RoomPolicyArgs, RoomPolicyResult
from gatepost.store.rooms.rooms import Room, RoomPolicy

_MEANING = {
    RoomPolicy.STRICT: "guests are refused",
    RoomPolicy.REQUEST_APPROVAL: "what guests write is held until somebody decides about them",
    RoomPolicy.PUBLIC: "everybody may speak",
}


@click.group()
def command() -> None:
    """The chats, and who may speak in each: list, policy. Works with the gateway up or down."""


@command.command("list")
@from_operation(ListRoomsArgs)
def list_rooms(run: CommandRun, found: list[Room]) -> None:
    output.print_records(Room, found, empty="no room is known yet")


@command.command()
@from_operation(RoomPolicyArgs)
def policy(run: CommandRun, told: RoomPolicyResult) -> None:
    new = "; nobody was let in there yet" if told.new else ""
    meaning = f"{told.policy}: {_MEANING[told.policy]}"
    output.print_line(f"room {told.address} (channel {told.instance}) is {meaning}{new}")
