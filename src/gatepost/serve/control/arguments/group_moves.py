"""Groups that move to another gateway."""

from typing import Annotated

from msgspec import Struct

from gatepost.core.record_fields import argument, option
from gatepost.serve.control.arguments.groups import WRITE
from gatepost.serve.control.declaration import OperationArgs, declares
from gatepost.store.gateways.group_moves import GroupMoveState


class GroupMoveView(Struct, frozen=True, kw_only=True):
    """`state`: arrived or done, if the target has it."""

    world: str
    source: str
    target: str
    state: GroupMoveState
    files: int
    bytes: int
    note: str = ""


@declares("group.move", right=WRITE)
class MoveGroupArgs(OperationArgs[GroupMoveView], frozen=True):
    """Move a group with its whole world, their files and what providers remember, to another gateway.

    A world is the group at the top and all below it. Turns may end for a quarter of a minute; what is open then goes on
    there. Nothing of it is answered meanwhile. If it is cut short, run it again: it goes on. GATEWAY may be the one
    that has it: then a move that has not arrived is given up. The right is needed at the root.

    --without-files is for a gateway that is gone and never comes back. GATEWAY runs the group with what lies in its
    folder there, such as a copy of a backup. Conversations begin anew, and messages that waited are answered.
    """

    folder: Annotated[str, argument("A group of that world.", examples=("acme/eng",))]
    gateway: Annotated[str, argument("The gateway that is to have it.", "gateway")]
    without_files: Annotated[bool, option("The gateway that has its files never comes back: do without them.")] = False
    wait_s: Annotated[float, option("How long to wait until it has arrived, in seconds.", least=0, most=600)] = 45.0
