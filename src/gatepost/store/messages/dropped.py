"""Messages that were refused: why, where and whose. Most of a flood of strangers is only counted, in the audit log."""

from enum import StrEnum
from typing import Annotated

import msgspec
from msgspec import Struct

from gatepost.core.record_fields import ShownAs, shown
from gatepost.store.port import Db
from gatepost.store.rights import audit

ONLY_COUNTED = "only_counted"  # the reason of those that were not written down one by one
STALE = "stale"
_DROPPED = f"(i.state = 'refused' OR (i.state = 'failed' AND i.reason = '{STALE}'))"


class DroppedBy(StrEnum):
    """The parts by which refusals are counted."""

    REASON = "reason"
    ROOM = "room"
    SENDER = "sender"
    ALL = "all"  # all of these together


class DroppedCount(Struct, frozen=True):
    reason: Annotated[str, shown("Why")]  # '' where it is not counted by that
    room: Annotated[str, shown("Room")]
    sender: Annotated[str, shown("Who")]
    times: Annotated[int, shown("Times", ShownAs.NUMBER)]
    last_at: Annotated[int, shown("Last", ShownAs.MOMENT, head="last")]


class DroppedMessage(Struct, frozen=True):
    id: int  # of its row in the inbox; 0: it stands for several that were only counted
    at: Annotated[int, shown("When", ShownAs.MOMENT)]
    reason: Annotated[str, shown("Why")]
    room: Annotated[str, shown("Room")]
    sender: Annotated[str, shown("Who")]
    times: Annotated[int, shown("Times", ShownAs.NUMBER)] = 1


class _Counted(msgspec.Struct):
    repeated: int
    sender: str = ""


_read_counted = msgspec.json.Decoder(_Counted).decode
_COLUMNS = {DroppedBy.REASON: "i.reason", DroppedBy.ROOM: "m.address", DroppedBy.SENDER: "m.sender"}


def find_first_since(db: Db, moment: int) -> int:
    """The row of the inbox before which none is that young, by halves."""
    low, high = 0, int((db.row("SELECT COALESCE(MAX(id), 0) + 1 FROM inbox") or (1,))[0])
    while low < high:
        middle = (low + high) // 2
        row = db.row("SELECT created_at FROM inbox WHERE id >= ? ORDER BY id LIMIT 1", (middle,))
        if row is None or row[0] >= moment:
            high = middle
        else:
            low = middle + 1
    return low


def count(db: Db, by: DroppedBy, first: int, most: int) -> list[DroppedCount]:
    """From that row of the inbox on; the most frequent first."""
    columns = ", ".join(name if by in (each, DroppedBy.ALL) else "''" for each, name in _COLUMNS.items())
    rows = db.rows(
        f"SELECT {columns}, COUNT(*), MAX(i.created_at) FROM inbox i JOIN messages m ON m.id = i.message_id"
        f" WHERE i.id >= ? AND {_DROPPED} GROUP BY 1, 2, 3 ORDER BY 4 DESC, 1, 2, 3 LIMIT ?",
        (first, most),
    )
    return [DroppedCount(*row) for row in rows]


def count_all(db: Db, first: int) -> int:
    row = db.row(f"SELECT COUNT(*) FROM inbox i WHERE i.id >= ? AND {_DROPPED}", (first,))
    return int(row[0]) if row else 0


def list_newest(db: Db, first: int, most: int) -> list[DroppedMessage]:
    """Oldest first."""
    rows = db.rows(
        "SELECT i.id, i.created_at, i.reason, m.address, m.sender FROM inbox i JOIN messages m ON m.id = i.message_id"
        f" WHERE i.id >= ? AND {_DROPPED} ORDER BY i.id DESC LIMIT ?",
        (first, most),
    )
    return [DroppedMessage(*row) for row in reversed(rows)]


def list_counted(db: Db, first: int, most: int) -> list[DroppedMessage]:
    """Return what rows of the audit log from that one on stand for. The room is the channel's name there:
    `channel:NAME`."""
    rows = db.rows(
        "SELECT at, actor, details FROM audit WHERE seq >= ? AND action = 'intake' AND verdict = 'refused'"
        " AND details IS NOT NULL ORDER BY seq DESC LIMIT ?",
        (first, most),
    )
    found = []
    for at, actor, details in reversed(rows):
        counted = _read_counted(details)
        found.append(DroppedMessage(0, at, ONLY_COUNTED, actor, counted.sender, counted.repeated))
    return found


def get_newest_rows(db: Db) -> tuple[int, int]:
    """The newest row of the inbox and of the audit log: whoever follows goes on behind them."""
    row = db.row("SELECT COALESCE(MAX(id), 0) FROM inbox")
    return int(row[0]) if row else 0, audit.get_newest(db)
