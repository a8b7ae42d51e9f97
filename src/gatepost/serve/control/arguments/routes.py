"""Routes: which group gets a message. Rooms: the chats, and who may speak in each."""

from typing import Annotated

from msgspec import Struct

from gatepost.core.record_fields import ShownAs, argument, option, shown
from gatepost.flow.intake.message_outcome import DecidedBy, MessageOutcome
from gatepost.serve.control.declaration import OperationArgs, declares
from gatepost.store.rooms.rooms import Room, RoomPolicy
from gatepost.store.rooms.routes import Route, RouteFields
from gatepost.store.sessions.sessions import MODES

READ, WRITE = "routes.read", "routes.write"


class RouteListItem(Route, frozen=True, kw_only=True):
    fault: Annotated[str, shown("Fault", details=True)]  # why it matches nothing, if it cannot be read


class RouteTestRow(Route, frozen=True, kw_only=True):
    held: Annotated[bool, shown("Holds", ShownAs.FLAG, head="holds", word="yes")]
    why: Annotated[str, shown("Why")]


class RouteTestGroup(Struct, frozen=True, kw_only=True):
    """A group to which routes lead, and what becomes of the message there. `rights`: of the sender. `denied_by`: the
    row of the access list that shuts the sender out."""

    folder: Annotated[str, shown("Group")]
    route: Annotated[int, shown("By route", ShownAs.NUMBER)]
    observe: Annotated[bool, shown("Observes", ShownAs.FLAG, word="observes")]
    topic: Annotated[str | None, shown("Topic")]
    session: Annotated[str, shown("Conversation")]
    outcome: Annotated[MessageOutcome, shown("Outcome", ShownAs.BADGE)]
    rights: Annotated[str, shown("Rights of the sender")]
    reason: str
    sentence: Annotated[str, shown("Why")]
    denied_by: Annotated[int | None, shown("Denied by row", ShownAs.NUMBER)]


class RouteTestSender(Struct, frozen=True):
    """`person`: the one who has this identity. `known`: whether they are somebody here; `untrusted`: nothing proves who
    it is."""

    id: Annotated[str, shown("Sender", ShownAs.CODE)]
    person: Annotated[str, shown("An identity of", ShownAs.CODE)]
    known: Annotated[bool, shown("Known here", render=lambda known: "yes" if known else "no")]
    untrusted: Annotated[bool, shown("Proof", ShownAs.FLAG, word="nothing proves who it is")]


class RouteTestEngagement(Struct, frozen=True):
    """A group that is in the conversation; `until`: null if that never ends. `route`: by which it was spoken to."""

    folder: Annotated[str, shown("Group")]
    until: Annotated[str | None, shown("Until", ShownAs.MOMENT, empty="without end")]
    route: Annotated[int | None, shown("By route", ShownAs.NUMBER, empty="by itself")]


class RouteTestResult(Struct, frozen=True, kw_only=True):
    """The groups that would get such a message, whether its sender may speak there, and what each route says to it.
    `decided_by`: route, engagement, or what the sender chose or says. `engaged`: who is in the conversation of that
    room and thread. `sender`: null if none was named, and then nobody was judged. `halted`: no agent works until the
    panic is over."""

    why: Annotated[str, shown("Why")]
    outcome: Annotated[MessageOutcome, shown("Outcome", ShownAs.BADGE)]
    reason: str
    sentence: Annotated[str, shown("So")]
    decided_by: Annotated[DecidedBy, shown("Decided by")]
    sender: RouteTestSender | None
    policy: Annotated[RoomPolicy, shown("Policy of the room")]
    command: str
    halted: Annotated[bool, shown("Agents", ShownAs.FLAG, word="all are stopped")]
    engaged: list[RouteTestEngagement]
    dropped: bool
    groups: list[RouteTestGroup]
    routes: list[RouteTestRow]


@declares("route.add", right=WRITE)
class AddRouteArgs(RouteFields, OperationArgs[Route], frozen=True, kw_only=True):
    """Add a route. Unknown keys and groups that do not exist are refused."""

    session: Annotated[str, option("The messages that share one conversation.", choices=MODES)] = MODES[0]
    window: Annotated[
        str,
        option(
            "At most N observed messages, C characters, in a turn.", metavar="N/C", examples=("20/8000", "20/", "/8000")
        ),
    ] = ""
    ttl: Annotated[
        str,
        option(
            "How long the group stays in a conversation after somebody spoke to it: its messages need no mention then"
            " (default: as the gateway is set, for mentions, replies and direct messages). With a time, all that"
            " the route brings counts as spoken to it. 0: not at all; never: no end.",
            metavar="TIME",
            examples=("10m", "1h30m", "never", "0"),
        ),
    ] = ""


@declares("route.list", right=READ, reads=True)
class ListRoutesArgs(OperationArgs[list[RouteListItem]], frozen=True):
    """All routes, in the order in which they are asked."""


@declares("route.rm", right=WRITE)
class RemoveRouteArgs(OperationArgs[Route], frozen=True):
    """Remove a route by its id."""

    id: Annotated[int, argument("The route's id.", "route")]


@declares("route.move", right=WRITE)
class MoveRouteArgs(OperationArgs[list[RouteListItem]], frozen=True):
    """Put a route before another one, or last. Their numbers in the order change as little as possible."""

    id: Annotated[int, argument("The route's id.", "route")]
    before: Annotated[int, option("The id of the route that comes after it (default: it is the last).", least=0)] = 0


@declares("route.test", right=READ, reads=True)
class RouteTestArgs(OperationArgs[RouteTestResult], frozen=True):
    """Explain what would become of a message in the room ADDRESS: who gets it and whether its sender may speak there.
    Exit 1 if it would be refused or wait for somebody who lets its sender in."""

    address: Annotated[str, argument("The room.", examples=("telegram:group/1",))]
    instance: Annotated[str, option("The channel's instance (default: named like the platform).")] = ""
    sender: Annotated[str, option("The sender; without one, no rights are checked.", examples=("telegram:user/9",))] = (
        ""
    )
    verb: Annotated[str, option("The action: message, mention, reply, like …")] = "message"
    text: Annotated[str, option("The text of the message.")] = ""
    thread: Annotated[str, option("The thread.")] = ""
    direct: Annotated[bool, option("In a direct chat (default: what is known of the room).")] = False


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
