"""Messages that were refused: counted, and the newest of them."""

import re
from collections import defaultdict
from datetime import UTC, datetime

from gatepost.core.clock import DAY, HOUR, MINUTE, SECOND
from gatepost.core.errors import Invalid
from gatepost.serve.control.arguments.records.dropped import DroppedReport, ListDroppedArgs
from gatepost.serve.control.contract import read_operation
from gatepost.store.messages import dropped
from gatepost.store.messages.dropped import ONLY_COUNTED, DroppedBy, DroppedCount, DroppedMessage
from gatepost.store.port import Db
from gatepost.store.rights import audit

MOST_COUNTED = 10_000  # rows of the audit log that stand for many
_AGE = re.compile(r"(\d{1,6})([mhd])")
_UNITS = {"m": MINUTE, "h": HOUR, "d": DAY}


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
        counts=_merge(dropped.count(db, args.by, first, args.limit), counted, args.by)[: args.limit],
        newest=sorted(newest, key=lambda each: each.at)[-args.limit :],
        last=last,
        last_audit=last_audit,
    )


def _merge(counts: list[DroppedCount], counted: list[DroppedMessage], by: DroppedBy) -> list[DroppedCount]:
    """With those that were only counted."""
    times: defaultdict[tuple[str, str, str], int] = defaultdict(int)
    last: defaultdict[tuple[str, str, str], int] = defaultdict(int)
    for each in (*counts, *(_shorten(each, by) for each in counted)):
        key = each.reason, each.room, each.sender
        times[key], last[key] = times[key] + each.times, max(last[key], each.last_at)
    merged = [DroppedCount(*key, number, last[key]) for key, number in times.items()]
    return sorted(merged, key=lambda each: (-each.times, each.reason, each.room, each.sender))


def _shorten(each: DroppedMessage, by: DroppedBy) -> DroppedCount:
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
