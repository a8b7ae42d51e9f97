"""Logins of the web page: one-time addresses and the browsers that are signed in. Only hashes are kept.

Tickets of sign-ins are kept once they were used. Nothing is kept of those that nobody came back with.
"""

import hashlib
from enum import StrEnum
from typing import Annotated

from msgspec import Struct

from gatepost.core import ids
from gatepost.core.record_fields import ShownAs, shown
from gatepost.store.engine.table import Table
from gatepost.store.port import Db, inline_read

MOST_TICKETS = 10_000  # that are used within the few minutes that one lasts
PREFIX = "lg"  # how ids of browsers begin
MOST_BROWSERS = 50  # of one identity; a further one takes the place of the one that was away longest
MOST_LISTED = 500
_WAYS = {  # the words for each
    "one_time_link": "One-time link",
    "invitation": "Invitation",
    "password": "Password",
    "passkey": "Passkey",
    "oidc": "Single sign-on",
    "proxy_header": "Proxy",
}


class LoginKind(StrEnum):
    ONCE = "once"
    BROWSER = "browser"


class NewBrowser(Struct, frozen=True, kw_only=True):
    """`way`: by which it signed in. `peer`: its address."""

    user_id: str
    way: str
    device: str
    peer: str


class BrowserLogin(Struct, frozen=True):
    """A browser that is signed in."""

    id: Annotated[str, shown("Id", ShownAs.ID)]
    user_id: str
    device: Annotated[str, shown("Device", empty="Unknown device")]
    way: Annotated[str, shown("By", head="by", render=lambda way: _WAYS.get(way, way))]
    peer: Annotated[str, shown("Address", ShownAs.CODE, head="address")]
    last_seen_at: Annotated[int, shown("Last seen", ShownAs.MOMENT, head="last seen")]
    created_at: Annotated[int, shown("Since", ShownAs.MOMENT, head="since")]
    expires_at: Annotated[int, shown("Until", ShownAs.MOMENT, head="until")]


LOGINS = Table("logins", BrowserLogin)
_LIVE = "kind = 'browser' AND expires_at > ?"  # now


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def issue_once(db: Db, user_id: str, expires_at: int, now: int) -> str:
    """A new one-time token, told once."""
    token = ids.token()
    _remove_expired(db, now)
    values = {"user_id": user_id, "expires_at": expires_at, "created_at": now}
    LOGINS.insert(db, hash=_hash(token), kind=LoginKind.ONCE, **values)
    return token


def add_browser(db: Db, new: NewBrowser, expires_at: int, now: int) -> tuple[str, BrowserLogin]:
    """The token for a browser's cookie, told once, and its row."""
    token = ids.token()
    _remove_expired(db, now)
    db.run(
        "DELETE FROM logins WHERE user_id = ? AND kind = 'browser' AND id NOT IN (SELECT id FROM logins"
        " WHERE user_id = ? AND kind = 'browser' ORDER BY last_seen_at DESC, id DESC LIMIT ?)",
        (new.user_id, new.user_id, MOST_BROWSERS - 1),
    )
    row = LOGINS.put(
        db,
        "",
        new,
        id=ids.new(PREFIX),
        hash=_hash(token),
        kind=LoginKind.BROWSER,
        created_at=now,
        last_seen_at=now,
        expires_at=expires_at,
    )
    return token, row


def _remove_expired(db: Db, now: int) -> None:
    db.run("DELETE FROM logins WHERE expires_at < ?", (now,))


def redeem(db: Db, token: str, now: int) -> str | None:
    """The user of a one-time token, which is gone with this call; None if it is unknown, used or too old."""
    rows = db.rows("DELETE FROM logins WHERE hash = ? AND kind = 'once' RETURNING user_id, expires_at", (_hash(token),))
    return str(rows[0][0]) if rows and rows[0][1] > now else None


@inline_read
def find_browser(db: Db, token: str, now: int) -> BrowserLogin | None:
    """By its cookie."""
    return LOGINS.get(db, f"WHERE hash = ? AND {_LIVE}", _hash(token), now)


@inline_read
def get_browser(db: Db, login_id: str, now: int) -> BrowserLogin | None:
    return LOGINS.get(db, f"WHERE id = ? AND {_LIVE}", login_id, now)


def list_all(db: Db, now: int) -> list[BrowserLogin]:
    """The browsers of everybody, those that were here last first."""
    return LOGINS.list(db, f"WHERE {_LIVE} ORDER BY last_seen_at DESC, id DESC LIMIT ?", now, MOST_LISTED)


def list_of(db: Db, names: tuple[str, ...], now: int) -> list[BrowserLogin]:
    """List those of a person, by all of their identities."""
    marks = ", ".join("?" * len(names))
    rest = f"WHERE user_id IN ({marks}) AND {_LIVE} ORDER BY last_seen_at DESC, id DESC LIMIT ?"
    return LOGINS.list(db, rest, *names, now, MOST_LISTED)


def record_seen(db: Db, login_id: str, before: int, now: int) -> bool:
    """False if it was seen after `before`."""
    changed = db.run("UPDATE logins SET last_seen_at = ? WHERE id = ? AND last_seen_at <= ?", (now, login_id, before))
    return bool(changed)


def remove_every(db: Db) -> None:
    """Sign everybody out, and void all one-time addresses."""
    db.run("DELETE FROM logins WHERE kind IN ('browser', 'once')")


def remove_browser(db: Db, login_id: str) -> bool:
    return bool(db.run("DELETE FROM logins WHERE id = ? AND kind = 'browser'", (login_id,)))


def remove_all(db: Db, names: tuple[str, ...], kept: str = "") -> int:
    """Sign every browser of these identities out, but the one of the id `kept`, and void their one-time addresses."""
    marks = ", ".join("?" * len(names))
    return db.run(f"DELETE FROM logins WHERE user_id IN ({marks}) AND (id IS NULL OR id <> ?)", (*names, kept))


def remove_user(db: Db, user_id: str) -> int:
    """Sign every browser of an identity out, and void its one-time addresses."""
    return db.run("DELETE FROM logins WHERE user_id = ?", (user_id,))


def sign_out(db: Db, token: str) -> None:
    db.run("DELETE FROM logins WHERE hash = ?", (_hash(token),))


def add_spent_ticket(db: Db, ticket_id: str, expires_at: int, now: int) -> bool:
    """False if it was used before, or if too many were of late. Those that have expired are forgotten."""
    db.run("DELETE FROM spent_tickets WHERE expires_at <= ?", (now,))
    full = db.row("SELECT 1 FROM spent_tickets LIMIT 1 OFFSET ?", (MOST_TICKETS - 1,))
    if full is not None:
        return False
    row = db.row(
        "INSERT INTO spent_tickets (id, expires_at) VALUES (?, ?) ON CONFLICT (id) DO NOTHING RETURNING id",
        (ticket_id, expires_at),
    )
    return row is not None


def is_ticket_spent(db: Db, ticket_id: str) -> bool:
    return db.row("SELECT 1 FROM spent_tickets WHERE id = ?", (ticket_id,)) is not None
