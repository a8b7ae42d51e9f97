"""One conversation: show it, say something in it, stop it, reset it."""

from typing import Annotated, Any

from msgspec import Meta

from gatepost.serve.control.arguments.sessions import READ, WRITE, SessionId
from gatepost.serve.control.declaration import OperationArgs, argument, declares, option


@declares("session.show", right=READ, judges=True, needs_home=True)
class ShowSessionArgs(OperationArgs[Any], frozen=True):
    """Show one conversation: its messages, its turns with their ends and costs, and the tool calls.

    Requests to people and work that was given to others are shown, too.

    Owners and admins of its agent may see it, too.
    """

    id: SessionId
    before: Annotated[int, option("Only what came before the message of this number.", metavar="N", least=0)] = 0
    limit: Annotated[int, option("At most so many messages.", least=1, most=200)] = 60


@declares("session.send", right=WRITE, offline=False, judges=True)
class SendToSessionArgs(OperationArgs[Any], frozen=True):
    """Say something to the agent of a conversation, under your own name. Its answer goes to the room; your words do
    not. For owners and admins of the agent."""

    id: SessionId
    text: Annotated[str, argument("The text.", secret=True), Meta(max_length=20_000)]


@declares("session.reset", right=WRITE, offline=False, judges=True)
class ResetSessionArgs(OperationArgs[Any], frozen=True):
    """Stop a session and forget its conversation: the next message begins anew. The ledger keeps what was said."""

    id: SessionId


@declares("session.stop", right=WRITE, judges=True)
class StopSessionArgs(OperationArgs[Any], frozen=True):
    """End the running turn of a session now. The session itself goes on with the next message."""

    id: SessionId
