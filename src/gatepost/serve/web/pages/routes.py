"""Routes: which agent gets what, in their order; and a tester that tells what would happen to a message. Rooms: where
people write, and who may."""

from collections.abc import Mapping, Sequence

import msgspec

from gatepost.core.errors import Invalid
from gatepost.core.records import replace
from gatepost.serve.control.arguments.routes import (
    ListRoomsArgs,
    ListRoutesArgs,
    RouteListItem,
    RouteTestArgs,
    RouteTestEngagement,
    RouteTestGroup,
    RouteTestResult,
    RouteTestRow,
    RouteTestSender,
)
from gatepost.serve.web.dashboard.contract import PageRequest, Section, page
from gatepost.serve.web.dashboard.tables import made, make_columns, make_facts, make_table
from gatepost.serve.web.dashboard.view import (
    Action,
    Badge,
    Block,
    EmptyState,
    FormBlock,
    FormInput,
    InputKind,
    Note,
    PageView,
    Tone,
)
from gatepost.store.rooms.rooms import Room

NEW_ROUTE = Action(label="New route", operation="route.add", asks=True, tone=Tone.GOOD)
TESTED_BY = ("address", "instance", "sender", "verb", "text", "thread")
ROUTE = make_columns(RouteListItem, details=True)
NOBODY = EmptyState(text="Nobody.")
NO_ROUTES = EmptyState(text="No route leads anywhere: every message would be dropped.", action=NEW_ROUTE)
HELD = made("held", "Holds", lambda row: Badge("yes", Tone.GOOD) if row.held else Badge("no", Tone.QUIET))
TESTED = make_columns(RouteTestRow, {"held": HELD}, without=("seq", "also", "mode", "ttl_s", "created_by"))
VERBS = ("message", "mention", "reply", "like")
ROOM = make_columns(Room)
NO_ROOMS = EmptyState(text="Nobody has written from a room yet. Add a channel, or say something in the chat.")


@page("/routes", "Routes", Section.CHANNELS, "route.list", order=30)
async def show_routes(request: PageRequest) -> PageView:
    found = await request.ask(ListRoutesArgs())
    given = {name: request.query[name] for name in TESTED_BY if request.query.get(name)}
    try:
        tested = await request.ask(msgspec.convert(given, RouteTestArgs)) if given.get("address") else None
    except Invalid as error:
        view = make_routes_view(found, given, None)
        return replace(view, blocks=[*view.blocks, Note(text=f"This cannot be tested: {error}.", tone=Tone.BAD)])
    return make_routes_view(found, given, tested)


def make_routes_view(
    found: Sequence[RouteListItem], given: Mapping[str, str], tested: RouteTestResult | None
) -> PageView:
    order = [each.id for each in found]
    places = {route_id: at for at, route_id in enumerate(order)}

    def list_row_actions(route: RouteListItem) -> tuple[Action, ...]:
        return list_route_actions(places[route.id], order)

    table = make_table(
        found, ROUTE, NO_ROUTES, actions=list_row_actions, key=lambda route: str(route.id), moves="route.move"
    )
    return PageView(
        lead="The first route that a message matches decides, unless it says “and further routes”.",
        blocks=[table, make_test_form(given), *(show_test(tested) if tested is not None else ())],
        actions=(NEW_ROUTE,),
    )


def list_route_actions(at: int, order: Sequence[int]) -> tuple[Action, ...]:
    """For the row at a place of the order. It is also dragged; by keyboard it goes up and down."""
    after = order[at + 2] if at + 2 < len(order) else 0
    up = Action(label="Up", operation="route.move", args={"id": order[at], "before": order[at - 1]})
    down = Action(label="Down", operation="route.move", args={"id": order[at], "before": after})
    remove = Action(label="Remove", operation="route.rm", args={"id": order[at]}, asks=True, tone=Tone.BAD)
    return (*((up,) if at else ()), *((down,) if at + 1 < len(order) else ()), remove)


def make_test_form(given: Mapping[str, str]) -> FormBlock:
    def make_input(name: str, label: str, example: str = "", choices: tuple[str, ...] = ()) -> FormInput:
        kind = InputKind.CHOICE if choices else InputKind.TEXT
        return FormInput(
            name=name,
            label=label,
            kind=kind,
            value=given.get(name, ""),
            required=name == "address",
            example=example,
            choices=choices,
        )

    inputs = [
        make_input("address", "Room", "telegram:group/1"),
        make_input("sender", "Who says it", "telegram:user/9"),
        make_input("verb", "What they do", choices=VERBS),
        make_input("text", "What they say", "hello"),
        make_input("thread", "Topic"),
    ]
    return FormBlock(title="Who would get this message?", label="Test", inputs=inputs)


def show_test(tested: RouteTestResult) -> list[Block]:
    groups = ", ".join(each.folder for each in tested.groups) or "nobody"
    note = Note(text=f"It goes to {groups}.", tone=Tone.BAD if tested.dropped else Tone.GOOD)
    blocks: list[Block] = [note, make_facts(tested, make_columns(RouteTestResult), title="This message")]
    if tested.sender is not None:
        blocks.append(make_facts(tested.sender, make_columns(RouteTestSender), title="Its sender"))
    if tested.groups:
        blocks.append(make_table(tested.groups, make_columns(RouteTestGroup), NOBODY, title="Groups"))
    if tested.engaged:
        blocks.append(make_table(tested.engaged, make_columns(RouteTestEngagement), NOBODY, title="In conversation"))
    return [*blocks, make_table(tested.routes, TESTED, NO_ROUTES, title="Judged one by one")]


@page("/rooms", "Rooms", Section.CHANNELS, "room.list", order=20)
async def show_rooms(request: PageRequest) -> PageView:
    return PageView(blocks=[make_table(await request.ask(ListRoomsArgs()), ROOM, NO_ROOMS, actions=list_room_actions)])


def list_room_actions(room: Room) -> tuple[Action, ...]:
    given = {"address": room.address, "instance": room.instance}
    return (Action(label="Who may write", operation="room.policy", args=given, asks=True),)
