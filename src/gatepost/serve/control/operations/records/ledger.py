"""The ledger: is every message accounted for, and what became of each."""

from gatepost.core.errors import Invalid, NotFound
from gatepost.core.records import extend
from gatepost.serve.control.arguments.records.ledger import (
    STATES,
    CheckLedgerArgs,
    ListLedgerArgs,
    MessageTraceView,
    TraceMessageArgs,
    TraceMoment,
)
from gatepost.serve.control.contract import read_operation
from gatepost.serve.telemetry.trace_ids import make_trace_id
from gatepost.store import search
from gatepost.store.money import ledger
from gatepost.store.money.ledger import LedgerLine, LedgerStatus, MessageTrace
from gatepost.store.port import Db
from gatepost.store.search import SearchQuery, Subtree

MOST_FOUND = 200  # messages that a search finds
LONGEST_NUMBER = 18  # digits of a message's id
GAPS = (
    "; what comes in, what goes out and what the gateway itself writes share their numbers, so one that is missing is"
    " no message lost"
)


@read_operation
def check_ledger(db: Db, args: CheckLedgerArgs, now: int) -> LedgerStatus:
    return ledger.check(db, now, running=args.running, newest=args.newest)


@read_operation
def list_lines(db: Db, args: ListLedgerArgs, now: int) -> list[LedgerLine]:
    if args.state and args.state not in STATES:
        raise Invalid("state", f"{args.state!r} is none of {', '.join(STATES)}")
    if not args.words.strip():
        return ledger.list_lines(db, args.state, args.limit, args.before)
    query = " ".join('"' + word.replace('"', '""') + '"*' for word in args.words.split())
    wanted = SearchQuery(query=query, part=Subtree("", everything=True), limit=MOST_FOUND)
    among = [*search.find_unindexed(db, args.words.split()), *(each.id for each in search.find(db, wanted))]
    return ledger.list_lines(db, args.state, args.limit, args.before, among) if among else []


@read_operation
def trace(db: Db, args: TraceMessageArgs, now: int) -> MessageTraceView:
    return make_trace_view(find_trace(db, args.message))


def find_trace(db: Db, wanted: str) -> MessageTrace:
    message_id = ledger.find_message(db, wanted)
    life = ledger.trace_message(db, message_id) if message_id is not None else None
    if life is None:
        raise NotFound("message", wanted, _hint(db, wanted))
    return life


def _hint(db: Db, wanted: str) -> str:
    newest = "`gatepost ledger list` shows the newest"
    if not (wanted.isascii() and wanted.isdigit() and len(wanted) <= LONGEST_NUMBER):
        return newest
    if ledger.was_removed(db, int(wanted)):
        return f"it was removed because of its age (keep.messages_days); {newest}"
    return newest + GAPS


def make_trace_view(life: MessageTrace) -> MessageTraceView:
    begin = life.message.accepted_at
    moments = [extend(TraceMoment, each, offset_ms=(each.at - begin) / 1000) for each in life.moments]
    trace_id = make_trace_id(life.message.id, begin).hex()
    return MessageTraceView(life.message, life.entries, moments, life.calls, life.effects, trace_id)
