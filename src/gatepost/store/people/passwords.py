"""Passwords of the web page, as hashes; and browsers that a person has signed in with before. Guesses of strangers do
not slow those down."""

from msgspec import Struct

from gatepost.core import ids
from gatepost.store.engine.table import Table
from gatepost.store.port import Db, inline_read
from gatepost.store.rights.tokens import hash_token

MOST_KNOWN = 20  # browsers of one identity


class Password(Struct, frozen=True):
    user_id: str
    hash: str
    changed_at: int


PASSWORDS = Table("passwords", Password)


@inline_read
def get(db: Db, user_id: str) -> Password | None:
    return PASSWORDS.get(db, "WHERE user_id = ?", user_id)


def put(db: Db, user_id: str, hashed: str, now: int) -> None:
    rest = "ON CONFLICT (user_id) DO UPDATE SET hash = excluded.hash, changed_at = excluded.changed_at"
    PASSWORDS.insert(db, rest, user_id=user_id, hash=hashed, changed_at=now)
    forget_browsers(db, user_id)


def remove(db: Db, user_id: str) -> bool:
    forget_browsers(db, user_id)
    return bool(db.run("DELETE FROM passwords WHERE user_id = ?", (user_id,)))


def add_known_browser(db: Db, user_id: str, now: int) -> str:
    """The token for its cookie. The oldest one makes room."""
    token = ids.token()
    db.run(
        "DELETE FROM known_browsers WHERE user_id = ? AND hash NOT IN (SELECT hash FROM known_browsers"
        " WHERE user_id = ? ORDER BY created_at DESC, hash LIMIT ?)",
        (user_id, user_id, MOST_KNOWN - 1),
    )
    sql = "INSERT INTO known_browsers (hash, user_id, created_at) VALUES (?, ?, ?)"
    db.run(sql, (hash_token(token), user_id, now))
    return token


@inline_read
def is_known_browser(db: Db, user_id: str, token: str) -> bool:
    sql = "SELECT 1 FROM known_browsers WHERE hash = ? AND user_id = ?"
    return db.row(sql, (hash_token(token), user_id)) is not None


def forget_browsers(db: Db, user_id: str) -> None:
    db.run("DELETE FROM known_browsers WHERE user_id = ?", (user_id,))
