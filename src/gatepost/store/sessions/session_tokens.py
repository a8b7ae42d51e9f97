"""Tokens by which a session's agent is known where no socket of its own tells who it is. One a session; only its digest
is kept."""

import hashlib

from gatepost.core import ids
from gatepost.store.port import Db, inline_read

PREFIX = "gps-"


def make(db: Db, session_id: str, now: int) -> str:
    """A new one; what it had before counts no more."""
    token = PREFIX + ids.token(32)
    db.run(
        "INSERT INTO session_tokens (session_id, digest, made_at) VALUES (?, ?, ?)"
        " ON CONFLICT (session_id) DO UPDATE SET digest = excluded.digest, made_at = excluded.made_at",
        (session_id, digest_of(token), now),
    )
    return token


@inline_read
def find_session(db: Db, token: str) -> str | None:
    """The session that it belongs to, if that is still open."""
    row = db.row(
        "SELECT t.session_id FROM session_tokens t JOIN sessions s ON s.id = t.session_id"
        " WHERE t.digest = ? AND s.closed_at IS NULL",
        (digest_of(token),),
    )
    return str(row[0]) if row else None


def digest_of(token: str) -> str:
    return hashlib.sha256(token.encode(errors="replace")).hexdigest()
