"""Sessions: list the live ones, set, close, fork or copy one."""

from typing import Annotated

from msgspec import Meta, Struct

from gatepost.core.record_fields import argument, option
from gatepost.serve.control.declaration import OperationArgs, declares
from gatepost.store.sessions.forks import ForkedSession
from gatepost.store.sessions.sessions import Session

READ, WRITE = "sessions.read", "sessions.write"
SessionId = Annotated[str, argument("The session's id.", "session")]


class StopResult(Struct, frozen=True):
    id: str
    stopped: bool


class CloseResult(Struct, frozen=True):
    id: str
    closed: bool


@declares("session.list", right=READ, reads=True)
class ListSessionsArgs(OperationArgs[list[Session]], frozen=True):
    """List the live sessions."""

    folder: Annotated[str, option("Only of this group (default: of every group).", scope=True)] = ""


@declares("session.stop_all", right=WRITE)
class StopAllSessionsArgs(OperationArgs[list[StopResult]], frozen=True):
    """End every running turn, all at once: none waits for another to be gone."""


@declares("session.close", right=WRITE)
class CloseSessionArgs(OperationArgs[CloseResult], frozen=True):
    """Close a session: the next message of the same conversation starts afresh."""

    id: SessionId


@declares("session.set", right=WRITE)
class SetSessionArgs(OperationArgs[Session], frozen=True):
    """Give a session a provider or a model of its own, from its next turn on.

    `default` takes it back: the session then goes by its group. Another provider is told what was said before, and
    begins with its usual model unless one is named.
    """

    id: SessionId
    provider: Annotated[str, option("The provider.")] = ""
    model: Annotated[str, option("The model."), Meta(max_length=200)] = ""


@declares("session.fork", right=WRITE, offline=False)
class ForkSessionArgs(OperationArgs[ForkedSession], frozen=True):
    """Fork a session: a new one in the same room, with a topic of its own, that knows what this one knows.

    This one goes on as before. The provider's conversation is copied; if it has none, the new one gets the transcript.
    """

    id: SessionId
    topic: Annotated[str, argument("The thread of the new one.", "topic")]
    force: Annotated[bool, option("Replace the conversation that the topic has.")] = False


@declares("session.copy", right=WRITE, offline=False)
class CopySessionArgs(OperationArgs[ForkedSession], frozen=True):
    """Copy a session into a managed agent of its own, which knows what this one knows.

    `gatepost agent send` talks to it, and none of its answers goes to a room.
    """

    id: SessionId
    title: Annotated[str, option("The agent's title."), Meta(max_length=60)] = ""
