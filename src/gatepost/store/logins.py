"""Logins of the web page: one-time addresses and the browsers they let in. Only hashes are kept."""

import hashlib

from gatepost.core import ids
from gatepost.store.port import Db, quick


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def issue(db: Db, kind: str, user_id: str, expires_at: int, now: int) -> str:
    """A new token, told once."""
    token = ids.token()
    db.run("DELETE FROM logins WHERE expires_at < ?", (now,))
    db.run(
        "INSERT INTO logins (hash, kind, user_id, expires_at, created_at) VALUES (?, ?, ?, ?, ?)",
        (_hash(token), kind, user_id, expires_at, now),
    )
    return token


def redeem(db: Db, token: str, now: int) -> str | None:
    """The user of a one-time token, which is gone with this call; None if it is unknown, used or too old."""
    rows = db.rows("DELETE FROM logins WHERE hash = ? AND kind = 'once' RETURNING user_id, expires_at", (_hash(token),))
    return str(rows[0][0]) if rows and rows[0][1] > now else None


@quick
def find_browser_user(db: Db, token: str, now: int) -> str | None:
    """The user of a browser's cookie."""
    row = db.row("SELECT user_id, expires_at FROM logins WHERE hash = ? AND kind = 'browser'", (_hash(token),))
    return str(row[0]) if row and row[1] > now else None


def remove_user(db: Db, user_id: str) -> int:
    """Sign every browser of an identity out, and void its one-time addresses."""
    return db.run("DELETE FROM logins WHERE user_id = ?", (user_id,))


def sign_out(db: Db, token: str) -> None:
    db.run("DELETE FROM logins WHERE hash = ?", (_hash(token),))
