"""Rooms: where people write, and who may."""

from gatepost.serve.control.arguments.routes import ListRoomsArgs
from gatepost.serve.web.dashboard.contract import PageRequest, Section, page
from gatepost.serve.web.dashboard.tables import make_columns, make_table
from gatepost.serve.web.dashboard.view import Action, EmptyState, PageView
from gatepost.store.rooms.rooms import Room

ROOM = make_columns(Room)
EMPTY = EmptyState(text="Nobody has written from a room yet. Add a channel, or say something in the chat.")


@page("/rooms", "Rooms", Section.ACCESS, "room.list", order=20)
async def show_rooms(request: PageRequest) -> PageView:
    return PageView(blocks=[make_table(await request.ask(ListRoomsArgs()), ROOM, EMPTY, actions=list_actions)])


def list_actions(room: Room) -> tuple[Action, ...]:
    given = {"address": room.address, "instance": room.instance}
    return (Action(label="Who may write", operation="room.policy", args=given, asks=True),)
