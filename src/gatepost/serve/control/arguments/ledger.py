"""The ledger: every message and what became of it, those that failed and those that were refused; and retention, which
removes what is over age."""

from typing import Annotated

from msgspec import Meta, Struct

from gatepost.core.record_fields import ShownAs, argument, option, shown
from gatepost.serve.control.declaration import OperationArgs, declares
from gatepost.store.messages import inbox, outbox
from gatepost.store.messages.dropped import DroppedBy, DroppedCount, DroppedMessage
from gatepost.store.messages.inbox import InboxEntry
from gatepost.store.messages.messages import Message
from gatepost.store.messages.outbox import OutboxEffect
from gatepost.store.money.costs import ModelCall
from gatepost.store.money.ledger import LedgerLine, LedgerStatus, TraceEvent
from gatepost.store.schedule.retention import RetentionCounts

LEDGER_READ = "ledger.read"
LEDGER_STATES = (*dict.fromkeys(("queued", "working", "held", "retry", *inbox.END, "pending", "sending", *outbox.END)),)
LEDGER_WRITE = "ledger.write"


class TraceMoment(TraceEvent, frozen=True, kw_only=True):
    offset_ms: float  # since the message was accepted


class MessageTraceView(Struct, frozen=True):
    message: Message
    entries: list[InboxEntry]
    moments: list[TraceMoment]
    model_calls: list[ModelCall]
    effects: list[OutboxEffect]
    trace_id: str  # by which a receiver of OpenTelemetry knows it


@declares("ledger.check", right=LEDGER_READ, reads=True)
class CheckLedgerArgs(OperationArgs[LedgerStatus], frozen=True):
    """Count what is not accounted for. Exit 1 unless that is 0."""

    running: Annotated[bool, option("A gateway runs; without one nothing is late.", hidden=True)] = True
    newest: Annotated[
        int, option("Look for messages without a row among the newest N; 0: among all.", metavar="N", least=0)
    ] = 0


@declares("ledger.list", right=LEDGER_READ, reads=True)
class ListLedgerArgs(OperationArgs[list[LedgerLine]], frozen=True):
    """The newest rows, oldest first: direction, room, state, reason, text. Texts are cut; --json has them whole."""

    state: Annotated[str, option(f"Only rows in this state: {', '.join(LEDGER_STATES)}.")] = ""
    limit: Annotated[int, option("The newest N rows.", least=1, most=100_000)] = 50
    before: Annotated[int, option("Only messages with a smaller number.", metavar="N", least=0)] = 0
    words: Annotated[
        str, option("Only messages whose text has all of these words; the best 200 of them."), Meta(max_length=200)
    ] = ""


@declares("ledger.trace", right=LEDGER_READ, reads=True)
class TraceMessageArgs(OperationArgs[MessageTraceView], frozen=True):
    """Show one message's whole life: every step, the model calls and tool calls of its turn, the sent messages and the
    cost.

    MESSAGE is its number in the ledger or its id on the platform. The cost of a turn is shown with each message that
    the turn worked on.
    """

    message: Annotated[str, argument("Its number in the ledger, or its id on the platform.", examples=("42",))]


class RetryResult(Struct, frozen=True, kw_only=True):
    """`sent`: deliveries that are on their way again. `given`: agents that get it again, by their conversations.
    `doubtful`: it may arrive twice."""

    message: int
    instance: str
    address: str
    sent: int
    given: list[str]
    doubtful: bool


@declares("ledger.retry", right=LEDGER_WRITE)
class RetryMessageArgs(OperationArgs[RetryResult], frozen=True):
    """Send a message that failed again, or give it to its agent again.

    A message of an agent is sent once more, as it stands in the ledger. If its delivery was uncertain, the room may
    have it already and then shows it twice.

    A message of a person waits for its agent once more, under the rights that the person has now. The agent may repeat
    its actions from before the failure.
    """

    message: Annotated[int, argument("Its number in the ledger.", least=1, examples=(42,))]
    changed_at: Annotated[
        str, option("Only if it failed at this moment, as --json of the list has it; else whenever it did.")
    ] = ""


class DroppedReport(Struct, frozen=True, kw_only=True):
    total: int
    only_counted: int  # of these: not written down one by one
    counts: list[DroppedCount]
    newest: list[DroppedMessage]  # oldest first
    last: int  # rows of the inbox and of the audit log: whoever follows goes on behind them
    last_audit: int


@declares("dropped.list", right="ledger.read", reads=True)
class ListDroppedArgs(OperationArgs[DroppedReport], frozen=True):
    """Count every message that was refused, by its reason, its room or its sender, and show the newest.

    Only the first messages of an unknown sender are recorded in each hour. The rest is counted as only_counted when the
    hour is over.
    """

    since: Annotated[
        str,
        option("Only from then on: minutes, hours or days, or a time.", examples=("90m", "24h", "7d", "2026-01-31")),
    ] = ""
    by: Annotated[DroppedBy, option("The column to count by.")] = DroppedBy.REASON
    limit: Annotated[int, option("At most so many counts, and so many of the newest.", least=1, most=10_000)] = 20
    after: Annotated[int, option("Only rows of the inbox behind this one.", hidden=True, least=0)] = 0
    after_audit: Annotated[int, option("Only rows of the audit log behind this one.", hidden=True, least=0)] = 0


def render_days(days: int) -> str:
    return f"{days} day{'' if days == 1 else 's'}" if days else "ever"


def render_size(size: int) -> str:
    return f"{size / 1024 / 1024:,.1f} MB"


class KeptRows(Struct, frozen=True):
    what: Annotated[str, shown("What")]
    setting: Annotated[str, shown("Setting")]
    days: Annotated[int, shown("Kept for", head="kept for", render=render_days)]
    rows: Annotated[int, shown("Rows", ShownAs.NUMBER)]
    over_age: Annotated[int, shown("Over age", ShownAs.NUMBER, head="over age")]
    oldest: Annotated[str, shown("Oldest", ShownAs.MOMENT)]


class KeptFiles(Struct, frozen=True):
    what: Annotated[str, shown("What")]
    setting: Annotated[str, shown("Setting")]
    days: Annotated[int, shown("Kept for", render=render_days)]
    bytes: Annotated[int, shown("Size", render=render_size)]


class StoreSize(Struct, frozen=True):
    bytes: int
    shrinks: bool


class RetentionOverview(Struct, frozen=True):
    rows: list[KeptRows]
    files: list[KeptFiles]
    store: StoreSize


@declares("keep.run", right="retention.write")
class RunRetentionArgs(OperationArgs[RetentionCounts], frozen=True):
    """Remove what is over age now. A running gateway does so by itself every few hours."""


@declares("keep.show", right="retention.read", needs_home=True)
class ShowRetentionArgs(OperationArgs[RetentionOverview], frozen=True):
    """Data that is kept: for how many days, how much there is, and how much of it is over age.

    The settings are keep.…_days in gatepost.toml; 0 keeps for ever. Rows that something in flight needs stay, whatever
    their age.
    """
