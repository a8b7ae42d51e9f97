"""The ledger: is every message accounted for, what became of each, which were refused; and retention.

A message that failed is sent or given again once: its rows say whether that was done, so a second wish changes nothing.
"""

import asyncio
import re
from collections import defaultdict
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

from gatepost.access.senders import Rights, check_sender
from gatepost.core.clock import DAY, HOUR, MINUTE, SECOND, iso
from gatepost.core.errors import GatepostError, Invalid, NotFound, Refused
from gatepost.core.files.untrusted_files import open_untrusted
from gatepost.core.home import Home
from gatepost.core.records import asdict, extend
from gatepost.core.settings import Config
from gatepost.flow import sender_rights
from gatepost.flow.retention import MEDIA, ROWS, SESSIONS, Retention
from gatepost.messages.inbound import MessageKind, is_person
from gatepost.serve.control.arguments.ledger import (
    LEDGER_STATES,
    CheckLedgerArgs,
    DroppedReport,
    KeptFiles,
    KeptRows,
    ListDroppedArgs,
    ListLedgerArgs,
    MessageTraceView,
    RetentionOverview,
    RetryMessageArgs,
    RetryResult,
    RunRetentionArgs,
    ShowRetentionArgs,
    StoreSize,
    TraceMessageArgs,
    TraceMoment,
)
from gatepost.serve.control.contract import OperationDeps, operation, read_operation
from gatepost.serve.telemetry.spans import make_trace_id
from gatepost.store import search
from gatepost.store.engine.place import get_place
from gatepost.store.engine.readonly import read_snapshot
from gatepost.store.messages import dropped, inbox, messages, outbox
from gatepost.store.messages.dropped import ONLY_COUNTED, DroppedBy, DroppedCount, DroppedMessage
from gatepost.store.messages.inbox import InboxEntry, InboxMode, InboxState
from gatepost.store.messages.messages import Message
from gatepost.store.messages.outbox import EffectOrigin, EffectState, OutboxEffect
from gatepost.store.money import ledger
from gatepost.store.money.ledger import LedgerLine, LedgerStatus, MessageTrace
from gatepost.store.port import Db
from gatepost.store.rights import audit
from gatepost.store.rooms import rooms
from gatepost.store.rooms.rooms import RoomPolicy
from gatepost.store.schedule import retention
from gatepost.store.schedule.retention import RetentionCounts
from gatepost.store.search import SearchQuery, Subtree
from gatepost.store.sessions import sessions

RETENTION_SETTINGS = (*ROWS.values(), MEDIA, SESSIONS)
MOST_FOUND = 200  # messages that a search finds
LONGEST_NUMBER = 18  # digits of a message's id
GAPS = (
    "; what comes in, what goes out and what the gateway itself writes share their numbers, so one that is missing is"
    " no message lost"
)

RETRIABLE = (EffectState.FAILED, EffectState.UNCERTAIN)
MOST_COUNTED = 10_000  # rows of the audit log that stand for many
_AGE = re.compile(r"(\d{1,6})([mhd])")
_UNITS = {"m": MINUTE, "h": HOUR, "d": DAY}


@read_operation
def check_ledger(db: Db, args: CheckLedgerArgs, now: int) -> LedgerStatus:
    return ledger.check(db, now, running=args.running, newest=args.newest)


@read_operation
def list_lines(db: Db, args: ListLedgerArgs, now: int) -> list[LedgerLine]:
    if args.state and args.state not in LEDGER_STATES:
        raise Invalid("state", f"{args.state!r} is none of {', '.join(LEDGER_STATES)}")
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


@operation
async def retry_message(deps: OperationDeps, args: RetryMessageArgs) -> RetryResult:
    effects = await deps.store.read(outbox.list_for_message, args.message)
    paths = [path for each in effects if each.state in RETRIABLE for path in _list_files(each)]
    if not await asyncio.to_thread(_are_there, paths):
        raise Invalid("message", f"{args.message} has files, which were removed when it failed; it must be made anew")
    now = deps.clock.now()
    done = await deps.write(lambda db: retry_rows(db, args, now))
    if done.sent:
        deps.events.room(done.instance, done.address)
    for session_id in done.given:
        deps.events.session(session_id)
    deps.events.change(done.instance, done.address)
    return done


def _list_files(effect: OutboxEffect) -> list[Path]:
    return [Path(each["path"]) for each in effect.payload.get("files") or ()]


def _are_there(paths: Iterable[Path]) -> bool:
    return all(path.is_file() for path in paths)


def retry_rows(db: Db, args: RetryMessageArgs, now: int) -> RetryResult:
    message_id = args.message
    message = messages.get(db, message_id)
    if message is None:
        raise NotFound("message", str(message_id), "`gatepost ledger list` shows the newest")
    effects = [each for each in outbox.list_for_message(db, message_id) if each.state in RETRIABLE]
    if any(each.origin is EffectOrigin.STATUS for each in effects):
        raise Invalid("message", f"{message_id} is an interim line of a turn that is over")
    entries = [each for each in inbox.list_for_message(db, message_id) if each.state is InboxState.FAILED]
    if not effects and not entries:
        raise Invalid("message", f"{message_id} neither failed nor is uncertain; `gatepost trace {message_id}` has it")
    moments = {iso(at) for at in (*(each.updated_at for each in effects), *(each.updated_at for each in entries))}
    if args.changed_at and args.changed_at not in moments:
        raise Invalid("changed_at", f"{message_id} was tried again since then, and failed again; look at it first")
    sent = [each for each in effects if outbox.retry_ended(db, each.id, now)]
    given = [
        _get_session(each) for each in entries if inbox.retry_failed(db, each.id, _check_entry(db, message, each), now)
    ]
    return RetryResult(
        message=message_id,
        instance=message.instance,
        address=message.address,
        sent=len(sent),
        given=given,
        doubtful=any(each.state is EffectState.UNCERTAIN for each in sent),
    )


def _get_session(entry: InboxEntry) -> str:
    assert entry.session_id is not None  # what failed had a turn, and so a session
    return entry.session_id


def _check_entry(db: Db, message: Message, entry: InboxEntry) -> Rights:
    """The rights under which the agent gets it: those of now, judged as if it had just been said."""
    if entry.mode is InboxMode.TASK:
        raise Invalid("message", f"{message.id} is a task's; `gatepost task run` runs the task again")
    if message.kind is not MessageKind.CHAT or not is_person(message.sender):
        raise Invalid("message", f"{message.id} was not written by a person, so nobody gives it to an agent again")
    session = sessions.get(db, entry.session_id) if entry.session_id else None
    if session is None or session.closed_at is not None:
        raise Invalid("message", f"the conversation of {message.id} is closed; it must be said anew")
    room = rooms.get(db, message.instance, message.address)
    rights = sender_rights.find_rights(db, message.sender, entry.folder)
    policy = room.policy if room is not None else RoomPolicy.STRICT
    if rights is None or not check_sender(policy, rights, entry.folder).allowed:
        raise Refused(message.sender, "write", entry.folder, "nobody lets its sender speak there now")
    return rights


@read_operation
def list_dropped(db: Db, args: ListDroppedArgs, now: int) -> DroppedReport:
    since = parse_since(args.since, now) if args.since else 0
    first = max(args.after + 1, dropped.find_first_since(db, since) if since else 0)
    first_audit = max(args.after_audit + 1, audit.find_first_since(db, since) if since else 0)
    last, last_audit = dropped.get_newest_rows(db)
    counted = dropped.list_counted(db, first_audit, MOST_COUNTED)
    written, only_counted = dropped.count_all(db, first), sum(each.times for each in counted)
    newest = [*dropped.list_newest(db, first, args.limit), *counted]
    return DroppedReport(
        total=written + only_counted,
        only_counted=only_counted,
        counts=_merge_dropped(dropped.count(db, args.by, first, args.limit), counted, args.by)[: args.limit],
        newest=sorted(newest, key=lambda each: each.at)[-args.limit :],
        last=last,
        last_audit=last_audit,
    )


def _merge_dropped(counts: list[DroppedCount], counted: list[DroppedMessage], by: DroppedBy) -> list[DroppedCount]:
    """With those that were only counted."""
    times: defaultdict[tuple[str, str, str], int] = defaultdict(int)
    last: defaultdict[tuple[str, str, str], int] = defaultdict(int)
    for each in (*counts, *(_shorten_dropped(each, by) for each in counted)):
        key = each.reason, each.room, each.sender
        times[key], last[key] = times[key] + each.times, max(last[key], each.last_at)
    merged = [DroppedCount(*key, number, last[key]) for key, number in times.items()]
    return sorted(merged, key=lambda each: (-each.times, each.reason, each.room, each.sender))


def _shorten_dropped(each: DroppedMessage, by: DroppedBy) -> DroppedCount:
    """By what it is counted."""
    return DroppedCount(
        ONLY_COUNTED if by in (DroppedBy.REASON, DroppedBy.ALL) else "",
        each.room if by in (DroppedBy.ROOM, DroppedBy.ALL) else "",
        each.sender if by in (DroppedBy.SENDER, DroppedBy.ALL) else "",
        each.times,
        each.at,
    )


def parse_since(text: str, now: int) -> int:
    """`24h` before now, or a time; without a zone it is UTC."""
    if age := _AGE.fullmatch(text):
        return now - int(age[1]) * _UNITS[age[2]]
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise Invalid("since", f"{text[:80]!r} is no time; write 90m, 24h, 7d or 2026-01-31T09:30:00Z") from None
    return round((found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp() * SECOND)


@operation
async def run_retention(deps: OperationDeps, args: RunRetentionArgs) -> RetentionCounts:
    """Remove now, in the same small portions, all that the sweep would remove by and by."""
    running = deps.extra.get("retention")
    keeper = running if isinstance(running, Retention) else None
    done = await (keeper or Retention(deps.home, deps.store, deps.clock, deps.config)).sweep()
    return await deps.write(lambda db: done, **asdict(done))


@operation
async def show_retention(deps: OperationDeps, args: ShowRetentionArgs) -> RetentionOverview:
    """In a thread and on a snapshot of its own: many files take a while, and others read meanwhile."""
    now = deps.clock.now()
    place = get_place(deps.home, deps.config)
    return await asyncio.to_thread(read_snapshot, place, get_retention_overview, deps.home, deps.config, now)


def get_retention_overview(db: Db, home: Home, config: Config, now: int) -> RetentionOverview:
    rows = []
    for what, wanted in ROWS.items():
        days = config[wanted]
        kept = retention.count(db, what, now - days * DAY if days else 0)
        rows.append(KeptRows(what, wanted.name, days, kept.rows, kept.over_age, iso(kept.oldest) or ""))
    files = [
        KeptFiles("media", MEDIA.name, config[MEDIA], _get_folder_size(home.media)),
        KeptFiles("sessions", SESSIONS.name, config[SESSIONS], _get_session_size(home)),
    ]
    return RetentionOverview(rows, files, StoreSize(db.upkeep.get_size(), retention.can_shrink(db)))


def _get_folder_size(folder: Path) -> int:
    return sum(each.lstat().st_size for each in folder.rglob("*") if each.is_file() and not each.is_symlink())


def _get_session_size(home: Home) -> int:
    try:
        with open_untrusted(home.sessions) as root:
            return root.size(2**62)
    except GatepostError:
        return 0
