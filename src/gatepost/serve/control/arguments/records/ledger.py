"""The ledger: is every message accounted for, and what became of each."""

from typing import Annotated

from msgspec import Meta, Struct

from gatepost.core.record_fields import argument, option
from gatepost.serve.control.declaration import OperationArgs, declares
from gatepost.store.messages import inbox, outbox
from gatepost.store.messages.inbox import InboxEntry
from gatepost.store.messages.messages import Message
from gatepost.store.messages.outbox import OutboxEffect
from gatepost.store.money.costs import ModelCall
from gatepost.store.money.ledger import LedgerLine, LedgerStatus, TraceEvent

READ = "ledger.read"
STATES = (*dict.fromkeys(("queued", "working", "held", "retry", *inbox.END, "pending", "sending", *outbox.END)),)


class TraceMoment(TraceEvent, frozen=True, kw_only=True):
    offset_ms: float  # since the message was accepted


class MessageTraceView(Struct, frozen=True):
    message: Message
    entries: list[InboxEntry]
    moments: list[TraceMoment]
    model_calls: list[ModelCall]
    effects: list[OutboxEffect]
    trace_id: str  # by which a receiver of OpenTelemetry knows it


@declares("ledger.check", right=READ, reads=True)
class CheckLedgerArgs(OperationArgs[LedgerStatus], frozen=True):
    """Count what is not accounted for. Exit 1 unless that is 0."""

    running: Annotated[bool, option("A gateway runs; without one nothing is late.", hidden=True)] = True
    newest: Annotated[
        int, option("Look for messages without a row among the newest N; 0: among all.", metavar="N", least=0)
    ] = 0


@declares("ledger.list", right=READ, reads=True)
class ListLedgerArgs(OperationArgs[list[LedgerLine]], frozen=True):
    """The newest rows, oldest first: direction, room, state, reason, text. Texts are cut; --json has them whole."""

    state: Annotated[str, option(f"Only rows in this state: {', '.join(STATES)}.")] = ""
    limit: Annotated[int, option("The newest N rows.", least=1, most=100_000)] = 50
    before: Annotated[int, option("Only messages with a smaller number.", metavar="N", least=0)] = 0
    words: Annotated[
        str, option("Only messages whose text has all of these words; the best 200 of them."), Meta(max_length=200)
    ] = ""


@declares("ledger.trace", right=READ, reads=True)
class TraceMessageArgs(OperationArgs[MessageTraceView], frozen=True):
    """Show one message's whole life: every step, the model calls and tool calls of its turn, the sent messages and the
    cost.

    MESSAGE is its number in the ledger or its id on the platform. The cost of a turn is shown with each message that
    the turn worked on.
    """

    message: Annotated[str, argument("Its number in the ledger, or its id on the platform.", examples=("42",))]
