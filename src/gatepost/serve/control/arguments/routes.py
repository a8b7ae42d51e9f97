"""Routes: which group gets a message."""

from typing import Annotated, Any

from gatepost.serve.control.declaration import OperationArgs, argument, declares, option
from gatepost.store.sessions.sessions import MODES

READ, WRITE = "routes.read", "routes.write"


@declares("route.add", right=WRITE)
class AddRouteArgs(OperationArgs[Any], frozen=True):
    """Add a route. Unknown keys and groups that do not exist are refused."""

    match: Annotated[
        str,
        option(
            "Conditions, all of which must hold: platform channel room chat_jid sender verb text thread, as key=glob,"
            " key!=glob, key=a|b, key= (absent); '' holds always.",
            examples=("platform=telegram room=group/*", "verb=mention|reply"),
        ),
    ]
    target: Annotated[
        str,
        option(
            "folder, folder#observe, folder#topic, with {sender} in it, or drop.",
            examples=("acme/eng", "acme/eng#observe", "acme/{sender}", "drop"),
        ),
    ]
    seq: Annotated[int, option("Its place in the order.")] = 100
    session: Annotated[str, option("The messages that share one conversation.", choices=MODES)] = MODES[0]
    also: Annotated[bool, option("Deliver here, and go on matching.")] = False
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
            " (default: the setting engagement.ttl_s for mentions, replies and direct messages). With a time, all that"
            " the route brings counts as spoken to it. 0: not at all; never: no end.",
            metavar="TIME",
            examples=("10m", "1h30m", "never", "0"),
        ),
    ] = ""


@declares("route.list", right=READ, reads=True)
class ListRoutesArgs(OperationArgs[Any], frozen=True):
    """All routes, in the order in which they are asked."""


@declares("route.rm", right=WRITE)
class RemoveRouteArgs(OperationArgs[Any], frozen=True):
    """Remove a route by its id."""

    id: Annotated[int, argument("The route's id.", "route")]


@declares("route.move", right=WRITE)
class MoveRouteArgs(OperationArgs[Any], frozen=True):
    """Put a route before another one, or last. Their numbers in the order change as little as possible."""

    id: Annotated[int, argument("The route's id.", "route")]
    before: Annotated[int, option("The id of the route that comes after it (default: it is the last).", least=0)] = 0


@declares("route.test", right=READ, reads=True)
class RouteTestArgs(OperationArgs[Any], frozen=True):
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
