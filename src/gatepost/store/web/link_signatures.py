"""Signatures by which webhooks' senders proved a post: each counts once, so that nobody sends a copy under another id.

Only hashes are kept. A signature over a timestamp is refused once that is too old, so it is kept until then and no
longer. A signature without one (GitHub) is valid as long as its link, so the newest of these are kept as long. Only a
sender with the link's secret adds any.
"""

from gatepost.core.clock import MINUTE
from gatepost.store.port import Db

TIMED_KEPT = 15 * MINUTE  # more than twice the window within which a moment is believed
MOST = 20_000  # without a moment, of one link. They go with it, in one step of the writer
CLEANED = "00"  # how the hashes begin whose posts also clean up: one of 256, because it costs as much as it counts


def add(db: Db, token_id: str, digest: str, now: int, *, timed: bool) -> bool:
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
        _remove_oldest(db, token_id, MOST)
    return True


def _remove_oldest(db: Db, token_id: str, most: int) -> None:
    db.run(
        "DELETE FROM link_signatures WHERE token_id = ? AND seen_at <= (SELECT seen_at"
        " FROM link_signatures WHERE token_id = ? ORDER BY seen_at DESC LIMIT 1 OFFSET ?)",
        (token_id, token_id, most),
    )
