"""Links: outcomes of messages that programs posted, signatures that senders proved, and visitors of chats.

A signature counts once, so that nobody sends a copy under another id. One over a timestamp is refused once that is too
old, so it is kept until then. One without (GitHub) is valid as long as its link, so the newest of these are kept as
long. Only a sender with the link's secret adds any.

Visitors of chat links are strangers who hold a link, each with a secret and a room of their own. Signatures and secrets
are kept as hashes only.
"""

from enum import StrEnum

from msgspec import Struct

from gatepost.core import ids
from gatepost.core.clock import DAY, MINUTE
from gatepost.store.engine.table import Table
from gatepost.store.messages import inbox
from gatepost.store.messages.inbox import InboxEntry, InboxMode, InboxState
from gatepost.store.port import Db, LockKind, inline_read
from gatepost.store.rights import switches, waiting_requests
from gatepost.store.rights.tokens import hash_token

LONGEST_BODY = 100_000  # characters of what is said in answer
MOST_SAID = 100  # messages of one turn that are joined

TIMED_KEPT = 15 * MINUTE  # more than twice the window within which a moment is believed
MOST_SIGNATURES = 20_000  # without a moment, of one link. They go with it, in one step of the writer
CLEANED = "00"  # how the hashes begin whose posts also clean up: one of 256, because it costs as much as it counts

PREFIX = "v"  # how ids of visitors begin
MOST_VISITORS = 200  # of one link
IDLE = DAY  # who wrote nothing for so long makes way
SILENT = 5 * MINUTE  # and who has never written, so soon: places cost nothing, and a stranger would take them all


class LinkAnswerStatus(StrEnum):
    """`done`: it was worked on to the end. `silent`: the same, and nothing was said. `failed`: it was not. `held`: a
    person has to decide first, or everything is halted. `timeout`: it is still worked on, or waits for its turn."""

    DONE = "done"
    SILENT = "silent"
    FAILED = "failed"
    HELD = "held"
    TIMEOUT = "timeout"


class LinkOutcome(Struct, frozen=True):
    """`body`: what was said in the link's room."""

    status: LinkAnswerStatus
    body: str = ""

    @property
    def is_over(self) -> bool:
        return self.status not in (LinkAnswerStatus.TIMEOUT, LinkAnswerStatus.HELD)


_ENDS = {InboxState.ANSWERED: LinkAnswerStatus.DONE, InboxState.SILENT: LinkAnswerStatus.SILENT}


def get_outcome(db: Db, message_id: int) -> LinkOutcome:
    """As it stands now. Messages that one turn took have the same."""
    entry = next((each for each in inbox.list_for_message(db, message_id) if each.mode is InboxMode.TRIGGER), None)
    if entry is None:
        return LinkOutcome(LinkAnswerStatus.FAILED)
    body = _join_texts(db, entry) if entry.state in inbox.END else ""
    if _is_held(db, entry):
        return LinkOutcome(LinkAnswerStatus.HELD, body)
    if entry.state not in inbox.END:
        return LinkOutcome(LinkAnswerStatus.TIMEOUT)
    return LinkOutcome(_ENDS.get(entry.state, LinkAnswerStatus.FAILED), body)


def _is_held(db: Db, entry: InboxEntry) -> bool:
    if entry.turn_id and waiting_requests.find_pending(db, entry.turn_id):
        return True
    waits = entry.state not in inbox.END
    return entry.state is InboxState.HELD or (waits and switches.get(db, switches.PANIC) is not None)


def _join_texts(db: Db, entry: InboxEntry) -> str:
    """Return what its turn said in the room of the message, oldest first."""
    rows = db.rows(
        "SELECT SUBSTR(said.text, 1, CAST(? AS INTEGER))"
        " FROM messages asked JOIN outbox o ON o.instance = asked.instance"
        " AND o.address = asked.address JOIN messages said ON said.id = o.message_id"
        " WHERE asked.id = ? AND o.turn_id = ? AND o.op IN ('send', 'file') AND o.origin IN ('result', 'tool')"
        " AND o.state NOT IN ('superseded', 'cancelled', 'failed') ORDER BY o.id LIMIT ?",
        (LONGEST_BODY, entry.message_id, entry.turn_id or "", MOST_SAID),
    )
    return "\n\n".join(text for (text,) in rows if text)[:LONGEST_BODY]


def add_signature(db: Db, token_id: str, digest: str, now: int, *, timed: bool) -> bool:
    """False if it was there before. `timed`: it signs a moment."""
    row = db.row(
        "INSERT INTO link_signatures (token_id, hash, seen_at) VALUES (?, ?, ?)"
        " ON CONFLICT (token_id, hash) DO NOTHING RETURNING hash",
        (token_id, digest, now),
    )
    if row is None:
        return False
    if timed:
        db.run("DELETE FROM link_signatures WHERE token_id = ? AND seen_at <= ?", (token_id, now - TIMED_KEPT))
    elif digest.startswith(CLEANED):
        _remove_oldest_signatures(db, token_id, MOST_SIGNATURES)
    return True


def _remove_oldest_signatures(db: Db, token_id: str, most: int) -> None:
    db.run(
        "DELETE FROM link_signatures WHERE token_id = ? AND seen_at <= (SELECT seen_at"
        " FROM link_signatures WHERE token_id = ? ORDER BY seen_at DESC LIMIT 1 OFFSET ?)",
        (token_id, token_id, most),
    )


class LinkVisitor(Struct, frozen=True):
    id: str
    token_id: str
    identity: str
    address: str
    created_at: int
    seen_at: int


class NewLinkVisitor(Struct, frozen=True, kw_only=True):
    id: str
    token_id: str
    identity: str
    address: str


LINK_VISITORS = Table("link_visitors", LinkVisitor)
_VALID = (
    "EXISTS (SELECT 1 FROM tokens t WHERE t.id = link_visitors.token_id AND t.revoked_at IS NULL"
    " AND (t.expires_at IS NULL OR t.expires_at > ?))"
)


def make_visitor_id() -> str:
    return ids.new(PREFIX)


def add_visitor(db: Db, new: NewLinkVisitor, secret: str, now: int) -> LinkVisitor | None:
    """Add a visitor; return None if the link has too many. A visitor who never wrote is replaced soon, one who did
    after a day."""
    db.lock(LockKind.QUOTA, "link_visitors", new.token_id)
    if _count_visitors(db, new.token_id) >= MOST_VISITORS and not _remove_idlest(db, new.token_id, now):
        return None
    return LINK_VISITORS.put(db, "", new, hash=hash_token(secret), created_at=now, seen_at=now)


@inline_read
def find_visitor(db: Db, secret: str, now: int) -> LinkVisitor | None:
    """Return the visitor with this secret, while the link that they came by is valid."""
    return LINK_VISITORS.get(db, f"WHERE hash = ? AND {_VALID}", hash_token(secret), now)


def set_visitor_seen(db: Db, visitor_id: str, now: int) -> None:
    db.run("UPDATE link_visitors SET seen_at = ? WHERE id = ?", (now, visitor_id))


def _count_visitors(db: Db, token_id: str) -> int:
    row = db.row("SELECT COUNT(*) FROM link_visitors WHERE token_id = ?", (token_id,))
    return int(row[0]) if row else 0


def _remove_idlest(db: Db, token_id: str, now: int) -> bool:
    sql = (
        "DELETE FROM link_visitors WHERE id = (SELECT id FROM link_visitors WHERE token_id = ?"
        " AND (seen_at <= ? OR (seen_at = created_at AND seen_at <= ?)) ORDER BY seen_at, id LIMIT 1)"
    )
    return bool(db.run(sql, (token_id, now - IDLE, now - SILENT)))
