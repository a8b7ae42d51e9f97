"""Visitors of chat links: strangers who hold a link, each with a secret and a room of their own. Only hashes are
kept."""

from msgspec import Struct

from gatepost.core import ids
from gatepost.core.clock import DAY, MINUTE
from gatepost.store.engine.table import Table
from gatepost.store.port import Db, LockKind, inline_read
from gatepost.store.rights.tokens import hash_token

PREFIX = "v"  # how ids begin
MOST_OF_LINK = 200
IDLE = DAY  # who wrote nothing for so long makes way
SILENT = 5 * MINUTE  # and who has never written, so soon: places cost nothing, and a stranger would take them all


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


def make_id() -> str:
    return ids.new(PREFIX)


def add(db: Db, new: NewLinkVisitor, secret: str, now: int) -> LinkVisitor | None:
    """Add a visitor; return None if the link has too many. A visitor who never wrote is replaced soon, one who did
    after a day."""
    db.lock(LockKind.QUOTA, "link_visitors", new.token_id)
    if _count(db, new.token_id) >= MOST_OF_LINK and not _remove_idlest(db, new.token_id, now):
        return None
    return LINK_VISITORS.put(db, "", new, hash=hash_token(secret), created_at=now, seen_at=now)


@inline_read
def find_valid(db: Db, secret: str, now: int) -> LinkVisitor | None:
    """Return the visitor with this secret, while the link that they came by is valid."""
    return LINK_VISITORS.get(db, f"WHERE hash = ? AND {_VALID}", hash_token(secret), now)


def set_seen(db: Db, visitor_id: str, now: int) -> None:
    db.run("UPDATE link_visitors SET seen_at = ? WHERE id = ?", (now, visitor_id))


def _count(db: Db, token_id: str) -> int:
    row = db.row("SELECT COUNT(*) FROM link_visitors WHERE token_id = ?", (token_id,))
    return int(row[0]) if row else 0


def _remove_idlest(db: Db, token_id: str, now: int) -> bool:
    sql = (
        "DELETE FROM link_visitors WHERE id = (SELECT id FROM link_visitors WHERE token_id = ?"
        " AND (seen_at <= ? OR (seen_at = created_at AND seen_at <= ?)) ORDER BY seen_at, id LIMIT 1)"
    )
    return bool(db.run(sql, (token_id, now - IDLE, now - SILENT)))
