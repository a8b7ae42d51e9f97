"""One conversation: show it, say something in it, stop it, reset it."""

from enum import StrEnum
from typing import Annotated

from msgspec import Meta, Struct

from gatepost.core.record_fields import ShownAs, argument, option, shown
from gatepost.serve.control.arguments.agents.sessions import READ, WRITE, SessionId, StopResult
from gatepost.serve.control.declaration import OperationArgs, declares
from gatepost.store.sessions.sessions import SessionState


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
