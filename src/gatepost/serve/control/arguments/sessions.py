"""Sessions: list the live ones; show, set, stop, reset, close, fork or copy one, or say something in it."""

from enum import StrEnum
from typing import Annotated

from msgspec import Meta, Struct

from gatepost.core.record_fields import ShownAs, argument, option, shown
from gatepost.serve.control.declaration import OperationArgs, declares
from gatepost.store.sessions.forks import ForkedSession
from gatepost.store.sessions.sessions import Session, SessionState

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


class ResetResult(Struct, frozen=True):
    id: str
    stopped: bool


class SentToSession(Struct, frozen=True):
    """`message`: its number in the ledger."""

    id: str
    message: int


class SessionEventKind(StrEnum):
    MESSAGE = "message"  # somebody wrote
    ANSWER = "answer"  # the agent did
    NOTE = "note"  # the gateway itself
    TURN = "turn"
    CALL = "call"
    REQUEST = "request"
    ERRAND = "errand"
    FORK = "fork"
    REPLAY = "replay"


class SessionEvent(Struct, frozen=True, kw_only=True):
    """`ref`: the id of the message, turn, request, errand or session that it is about. `cost`: of a turn, in
    millionths."""

    at: int
    kind: SessionEventKind
    who: str = ""
    text: str = ""
    state: str = ""
    ref: str = ""
    cost: int | None = None


class SessionDetails(Struct, frozen=True, kw_only=True):
    """`running`: a turn is open. `waiting`: messages that no turn has yet. `cost`: of the whole conversation, in
    millionths. `speaks`: the caller may say something. `older`: the number before which there is more; 0: nothing."""

    id: Annotated[str, shown("Id", ShownAs.ID)]
    title: Annotated[str, shown("Title")]
    state: Annotated[SessionState, shown("State", ShownAs.BADGE)]
    agent: Annotated[str, shown("Agent")]
    folder: Annotated[str, shown("Group", head="group")]
    instance: str
    address: Annotated[str, shown("Room", head="room")]
    thread: str
    provider: Annotated[str, shown("Provider", empty="the group's")]
    model: Annotated[str, shown("Model", empty="the usual one")]
    running: bool
    waiting: Annotated[int, shown("Messages that wait", ShownAs.NUMBER)]
    cost: Annotated[int, shown("Cost so far", ShownAs.MONEY)]
    created_at: Annotated[int, shown("Since", ShownAs.MOMENT, head="since")]
    active_at: Annotated[int, shown("Active", ShownAs.MOMENT, head="active")]
    closed_at: Annotated[int | None, shown("Closed", ShownAs.MOMENT, head="closed")]
    parent: Annotated[str, shown("Made by", head="made by")]
    managed: Annotated[bool, shown("Managed", ShownAs.FLAG, word="an agent of its own")]
    speaks: bool
    older: int
    events: list[SessionEvent]


@declares("session.show", right=READ, judges=True, needs_home=True)
class ShowSessionArgs(OperationArgs[SessionDetails], frozen=True):
    """Show one conversation: its messages, its turns with their ends and costs, and the tool calls.

    Requests to people and work that was given to others are shown, too.

    Owners and admins of its agent may see it, too.
    """

    id: SessionId
    before: Annotated[int, option("Only what came before the message of this number.", metavar="N", least=0)] = 0
    limit: Annotated[int, option("At most so many messages.", least=1, most=200)] = 60


@declares("session.send", right=WRITE, offline=False, judges=True)
class SendToSessionArgs(OperationArgs[SentToSession], frozen=True):
    """Say something to the agent of a conversation, under your own name. Its answer goes to the room; your words do
    not. For owners and admins of the agent."""

    id: SessionId
    text: Annotated[str, argument("The text.", secret=True), Meta(max_length=20_000)]


@declares("session.reset", right=WRITE, offline=False, judges=True)
class ResetSessionArgs(OperationArgs[ResetResult], frozen=True):
    """Stop a session and forget its conversation: the next message begins anew. The ledger keeps what was said."""

    id: SessionId


@declares("session.stop", right=WRITE, judges=True)
class StopSessionArgs(OperationArgs[StopResult], frozen=True):
    """End the running turn of a session now. The session itself goes on with the next message."""

    id: SessionId
