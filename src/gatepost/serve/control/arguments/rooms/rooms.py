"""Rooms: the chats, and who may speak in each."""

from typing import Annotated

from msgspec import Struct

from gatepost.core.record_fields import argument, option
from gatepost.serve.control.declaration import OperationArgs, declares
from gatepost.store.rooms.rooms import Room, RoomPolicy


class RoomPolicyResult(Struct, frozen=True):
    instance: str
    address: str
    policy: RoomPolicy
    new: bool  # nothing was said there yet


@declares("room.list", right="rooms.read", reads=True)
class ListRoomsArgs(OperationArgs[list[Room]], frozen=True):
    """Every room that is known: a room is, once somebody was let in there or its policy was set."""


@declares("room.policy", right="rooms.write")
class RoomPolicyArgs(OperationArgs[RoomPolicyResult], frozen=True):
    """Say who may speak in the room ADDRESS, like spool:office. It may be one where nothing was said yet.

    strict: nobody but owners, admins and members. public: everybody. request_approval: what others
    write is held, and an admin or owner is asked about them once.
    """

    address: Annotated[str, argument("The room.", examples=("spool:office",))]
    policy: Annotated[RoomPolicy, argument("The people who may speak there.")]
    instance: Annotated[str, option("The channel's instance (default: named like the platform).")] = ""
