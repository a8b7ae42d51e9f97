"""Signatures by which webhooks' senders proved a post: each counts once, so that nobody sends a copy under another id.

Kept by their hashes, the newest of each link, and all of the last minutes: what names a moment is refused by that
before it is forgotten. The rate of a link bounds how many these are.
"""

from gatepost.core.clock import DAY, MINUTE
from gatepost.store.port import Db

KEPT = 7 * DAY
MOST = 1000  # of one link, besides …
FRESH = 15 * MINUTE  # … those that came since


def add(db: Db, token_id: str, digest: str, now: int) -> bool:
    """False if it was there before."""
    row = db.row(
        "INSERT INTO link_signatures (token_id, hash, seen_at) VALUES (?, ?, ?)"
        " ON CONFLICT (token_id, hash) DO NOTHING RETURNING hash",
        (token_id, digest, now),
    )
    if row is None:
        return False
    db.run("DELETE FROM link_signatures WHERE token_id = ? AND seen_at <= ?", (token_id, now - KEPT))
    db.run(
        "DELETE FROM link_signatures WHERE token_id = ? AND seen_at <= ? AND seen_at <= (SELECT seen_at"
        " FROM link_signatures WHERE token_id = ? ORDER BY seen_at DESC LIMIT 1 OFFSET ?)",
        (token_id, now - FRESH, token_id, MOST),
    )
    return True
