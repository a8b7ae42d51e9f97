"""`gatepost route` and `room`: which group gets a message; the chats, and who may speak in each."""

import click

from gatepost.cli import output
from gatepost.cli.operation_command import CommandRun, from_operation
from gatepost.flow.intake.message_outcome import DecidedBy, MessageOutcome
from gatepost.serve.control.arguments.routes import (
    AddRouteArgs,
    ListRoomsArgs,
    ListRoutesArgs,
    MoveRouteArgs,
    RemoveRouteArgs,
    RoomPolicyArgs,
    RoomPolicyResult,
    RouteListItem,
    RouteTestArgs,
    RouteTestGroup,
    RouteTestResult,
    RouteTestRow,
)
from gatepost.store.rooms.rooms import Room, RoomPolicy
from gatepost.store.rooms.routes import Route

_DECIDED_BY = {
    DecidedBy.ENGAGEMENT: "engagement",
    DecidedBy.CHOICE: "sender's own choice",
    DecidedBy.CHILD: "name before the text",
    DecidedBy.REPLY: "message that it replies to",
}

_POLICY_MEANING = {
    RoomPolicy.STRICT: "guests are refused",
    RoomPolicy.REQUEST_APPROVAL: "what guests write is held until somebody decides about them",
    RoomPolicy.PUBLIC: "everybody may speak",
}


@click.group()
def route_command() -> None:
    """Which group gets a message: ordered rows of match → target. Works with the gateway up or down.

    The first match by (seq, id) wins; a route with --also delivers and lets the next ones match, too. The default
    route has seq 1000.
    """


@route_command.command("add")
@from_operation(AddRouteArgs)
def add_route(run: CommandRun, made: Route) -> None:
    output.print_line(f"route {made.id} (seq {made.seq}): {_match(made)} → {made.target}")


@route_command.command("list")
@from_operation(ListRoutesArgs)
def list_routes(run: CommandRun, found: list[RouteListItem]) -> None:
    output.print_records(RouteListItem, found, empty="there are no routes: every message is refused")
    for each in found:
        if each.fault:
            text = f"route {each.id} matches nothing: {each.fault}; remove it and add it anew"
            output.print_line(output.colored(text, "warn"))


@route_command.command("rm")
@from_operation(RemoveRouteArgs)
def remove_route(run: CommandRun, gone: Route) -> None:
    output.print_line(f"route {gone.id} ({_match(gone)} → {gone.target}) is removed")


@route_command.command("move")
@from_operation(MoveRouteArgs)
def move_route(run: CommandRun, found: list[RouteListItem]) -> None:
    for each in found:
        output.print_line(f"{each.seq:>6}  route {each.id}: {_match(each)} → {each.target}")


_GETS = (MessageOutcome.WAKES, MessageOutcome.OBSERVES, MessageOutcome.CHOSEN, MessageOutcome.ANSWERED)
_OUTCOMES = {
    MessageOutcome.CHOSEN: "the sender speaks to it from now on, and no agent gets this",
    MessageOutcome.ANSWERED: "the gateway itself answers the command",
    MessageOutcome.HELD: "waits until somebody lets the sender in",
}


def _exit_code(answer: RouteTestResult) -> int:
    outcomes = [each.outcome for each in answer.groups] or [answer.outcome]
    return 0 if answer.dropped or any(each in _GETS for each in outcomes) else 1


@route_command.command("test")
@from_operation(RouteTestArgs, exit_code=_exit_code)
def try_message(run: CommandRun, answer: RouteTestResult) -> None:
    for each in answer.groups:
        _print_group(each)
    if answer.outcome is MessageOutcome.HELD and not answer.groups:
        output.print_line(output.colored("→ waits until somebody says which group shall answer in this room", "warn"))
    elif answer.dropped or not answer.groups:
        why = f"{answer.why} ({answer.sentence})" if answer.reason not in ("", "no_route") else answer.why
        output.print_line(output.colored(f"→ nobody: {why}", "warn"))
    _print_sender(answer)
    if answer.halted:
        output.print_line(output.colored("all agents are stopped, so it waits until `gatepost panic --off`", "warn"))
    if answer.decided_by is not DecidedBy.ROUTE:
        output.print_line(f"decided by the {_DECIDED_BY[answer.decided_by]}, before the routes below")
    for engaged in answer.engaged:
        until = f"until {engaged.until}" if engaged.until else "without end"
        by = f" by route {engaged.route}" if engaged.route else " by itself"
        output.print_line(f"{engaged.folder} is in this conversation {until},{by}")
    output.print_line()
    own: dict[str, output.Show] = {"held": lambda each: "✓" if each.held else "·"}
    output.print_records(
        RouteTestRow,
        answer.routes,
        own,
        empty="there are no routes",
        without=("also", "mode", "ttl_s", "created_by"),  # `route list` has them
    )


def _print_group(group: RouteTestGroup) -> None:
    """Print the group that a route leads to, and the outcome of the message there."""
    how = " (observes)" if group.observe else f" (topic {group.topic})" if group.topic else ""
    by = f"{how}, by route {group.route}, session {group.session}"
    if group.outcome in _GETS:
        output.print_line(output.colored(f"→ {group.folder}", "ok"), by)
    else:
        row = f" (row {group.denied_by} of `gatepost grant list`)" if group.denied_by is not None else ""
        said = _OUTCOMES.get(group.outcome) or f"{group.sentence} [{group.reason}]{row}"
        output.print_line(output.colored(f"✗ {group.folder}", "warn"), f"{by}: {group.outcome}: {said}")
        return
    if group.outcome in _OUTCOMES:
        output.print_line(f"  {_OUTCOMES[group.outcome]}")


def _print_sender(answer: RouteTestResult) -> None:
    sender = answer.sender
    if sender is None:
        output.print_line("no --sender is named, so nobody was judged: routes alone say who gets it")
        return
    who = "nothing proves who it is" if sender.untrusted else "known" if sender.known else "unknown here"
    if sender.person != sender.id:
        who += f", an identity of {sender.person}"
    rights = ", ".join(f"{each.rights} of {each.folder}" for each in answer.groups)
    output.print_line(f"{sender.id}: {who}" + (f", {rights}" if rights else "") + f"; room policy {answer.policy}")


def _match(route: Route) -> str:
    return route.match or "(everything)"


@click.group()
def room_command() -> None:
    """The chats, and who may speak in each: list, policy. Works with the gateway up or down."""


@room_command.command("list")
@from_operation(ListRoomsArgs)
def list_rooms(run: CommandRun, found: list[Room]) -> None:
    output.print_records(Room, found, empty="no room is known yet")


@room_command.command("policy")
@from_operation(RoomPolicyArgs)
def set_room_policy(run: CommandRun, answer: RoomPolicyResult) -> None:
    new = "; nobody was let in there yet" if answer.new else ""
    meaning = f"{answer.policy}: {_POLICY_MEANING[answer.policy]}"
    output.print_line(f"room {answer.address} (channel {answer.instance}) is {meaning}{new}")
