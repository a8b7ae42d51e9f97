"""The inbox rows of firings, many at a time."""

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import astuple

from gatepost.store.messages import message_steps
from gatepost.store.messages.inbox import INBOX, OPEN_I, InboxMode, InboxState
from gatepost.store.port import Db
from gatepost.store.schedule.firings import RIGHTS


class WaitingLoad(Struct, frozen=True):
    """Work that waits in a session, or goes on there."""

    rows: int = 0
    chars: int = 0


class NewTaskRow(Struct, frozen=True):
    message_id: int
    session_id: str
    folder: str
    seq: int


def count_waiting(db: Db, session_ids: Sequence[str]) -> dict[str, WaitingLoad]:
    """By session: its firings that have not ended, which are as many as a session may have at most."""
    rows = db.rows(
        "SELECT i.session_id, COUNT(*), SUM(LENGTH(m.text)) FROM inbox i JOIN messages m ON m.id = i.message_id"
        f" WHERE i.session_id IN ({', '.join('?' * len(session_ids))}) AND {OPEN_I} AND i.mode = 'task'"
        " GROUP BY i.session_id",
        session_ids,
    )
    return {str(row[0]): WaitingLoad(int(row[1]), int(row[2])) for row in rows}


def enqueue_all(db: Db, new: Sequence[NewTaskRow], now: int) -> None:
    """Messages that wake their sessions once nothing else waits there. Due at once."""
    INBOX.add_rows(
        db,
        "",
        NewTaskRow.__struct_fields__,
        [*map(astuple, new)],
        mode=InboxMode.TASK,
        rights=RIGHTS,
        state=InboxState.QUEUED,
        next_at=now,
        created_at=now,
        updated_at=now,
    )
    message_steps.add_queued(db, [each.message_id for each in new], now)
